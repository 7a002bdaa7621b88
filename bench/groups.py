"""Consumer groups: how fast ten members agree, how fast offsets are committed, what a thousand groups weigh.

Members are driven over bare sockets and ask again at once, so that the pace of a client's heartbeats is not measured.
"""

import statistics
import struct
import time
from collections.abc import Callable, Iterable

from bench.brokers import Broker, Kafka, Ottla
from bench.turns import Numbers, in_turn
from bench.wire import METADATA, Connection, Refused, array, frame, string

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 8, 10, 11, 12, 14, 68
REBALANCE_IN_PROGRESS = 27
# Members are not waited for, and assignments are made at once: neither is work of the broker.
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0"}
TOPIC, PARTITIONS = "grouped", 30
MEMBERS = 10
REBALANCES = 20
COMMITS = 10_000
PIPELINED = 100  # commits on their way at a time
ROUNDS = 4
GROUPS = 1_000
SESSION_MS, REBALANCE_MS = 30_000, 60_000
SECONDS = 60.0


class QuickKafka(Kafka):
    """Kafka that does not wait for more members."""

    def format(self) -> None:
        super().format()
        with (self.home / "server.properties").open("a") as properties:
            properties.writelines(f"{key}={value}\n" for key, value in SETTINGS.items())


class QuickOttla(Ottla):
    """ottla that does not wait for more members."""

    def command(self) -> list[str]:
        settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        return [*super().command(), *settings]


QUICK: tuple[type[Broker], ...] = (QuickKafka, QuickOttla)


def measure(starts: int) -> dict[str, dict[str, Numbers]]:
    return in_turn("groups", QUICK, starts, numbers_of)


def numbers_of(broker: Broker) -> tuple[Numbers, Numbers]:
    """What a broker shows right after its start, and later."""
    broker.format()
    broker.start()
    cold: Numbers = {}
    warm: Numbers = {}
    try:
        with Connection(broker.port) as connection:
            connection.create_topics([TOPIC], PARTITIONS)
            topic_id = topic_id_of(connection, TOPIC)
            wait_for_coordinator(connection)
        rebalances: dict[str, Callable[[str], float]] = {
            "rebalance_classic": lambda name: classic_rebalance(broker, name),
            "rebalance_consumer": lambda name: consumer_rebalance(broker, name, topic_id),
        }
        for key, rebalance in rebalances.items():
            found = [rebalance(f"{key}-{number}") * 1000 for number in range(REBALANCES)]
            cold[key], warm[key] = found[0], statistics.median(found[REBALANCES // 2 :])
        for key, pipelined in (("commits_one_by_one", 1), ("commits_pipelined", PIPELINED)):
            found = [commits(broker, f"{key}-{number}", pipelined) for number in range(ROUNDS)]
            cold[key], warm[key] = found[0], found[-1]
        before = broker.resident_megabytes()
        many_groups(broker)
        warm["groups_growth"] = broker.resident_megabytes() - before
        warm["groups_resident"] = broker.resident_megabytes()
        return cold, warm
    finally:
        broker.stop()
        broker.remove()


def wait_for_coordinator(connection: Connection) -> None:
    """Until every partition that holds groups answers: a heartbeat of nobody is then refused as one."""
    deadline = time.perf_counter() + SECONDS
    for number in range(200):
        name = string(f"probe-{number}")
        while (
            struct.unpack_from(">h", connection.ask(FIND_COORDINATOR, 0, name))[0]
            or struct.unpack_from(">h", connection.ask(HEARTBEAT, 0, name + struct.pack(">i", 1) + string("")))[0] != 25
        ):
            if time.perf_counter() > deadline:
                raise Refused("no coordinator")
            time.sleep(0.01)


# --- the classic protocol ---


class Member:
    """A member of a classic group on a connection of its own."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.connection = Connection(broker.port)
        self.group = string(group)
        self.member = ""
        self.generation = -1
        self.leads = False

    def send_join(self) -> None:
        protocols = array([string("range") + sized(b"\0\0" + array([string(TOPIC)]) + sized(b""))])
        body = self.group + struct.pack(">ii", SESSION_MS, REBALANCE_MS) + string(self.member) + string("consumer")
        self.connection.send(JOIN_GROUP, 2, body + protocols)

    def receive_join(self) -> None:
        answer = self.connection.receive()
        error, self.generation = struct.unpack_from(">hi", answer, 4)
        if error:
            raise Refused(f"joining: error {error}")
        _, position = text_at(answer, 10)
        leader, position = text_at(answer, position)
        self.member, _ = text_at(answer, position)
        self.leads = leader == self.member

    def send_sync(self, others: list["Member"]) -> None:
        rows = (string(other.member) + sized(b"\0" * 40) for other in others) if self.leads else ()
        body = self.group + struct.pack(">i", self.generation) + string(self.member) + array(rows)
        self.connection.send(SYNC_GROUP, 1, body)

    def receive_sync(self) -> None:
        (error,) = struct.unpack_from(">h", self.connection.receive(), 4)
        if error:
            raise Refused(f"synchronising: error {error}")

    def beat(self) -> int:
        body = self.group + struct.pack(">i", self.generation) + string(self.member)
        return int(struct.unpack_from(">h", self.connection.ask(HEARTBEAT, 1, body), 4)[0])


def classic_rebalance(broker: Broker, group: str) -> float:
    """Seconds from the last member's join until all ten have their assignment."""
    members: list[Member] = []
    try:
        for _ in range(MEMBERS):
            begin = time.perf_counter()
            members.append(Member(broker, group))
            members[-1].send_join()
            for member in members[:-1]:
                while member.beat() != REBALANCE_IN_PROGRESS:
                    pass
                member.send_join()
            for member in members:
                member.receive_join()
            for member in sorted(members, key=lambda member: not member.leads):
                member.send_sync(members)
            for member in members:
                member.receive_sync()
        return time.perf_counter() - begin
    finally:
        for member in members:
            member.connection.socket.close()


# --- the consumer protocol ---


class ModernMember:
    """A member of a group of the consumer protocol: it takes and gives up what it is told at once."""

    def __init__(self, broker: Broker, group: str, name: str, topic_id: bytes) -> None:
        self.connection = Connection(broker.port)
        self.group, self.name, self.topic_id = group, name, topic_id
        self.epoch = 0
        self.partitions: tuple[int, ...] = ()

    def beat(self) -> None:
        first = self.epoch == 0
        owned = b"\1" if not self.partitions else b"\2" + self.topic_id + compact_integers(self.partitions) + b"\0"
        body = compact(self.group) + compact(self.name) + struct.pack(">i", self.epoch) + b"\0\0"
        body += struct.pack(">i", REBALANCE_MS) + (b"\2" + compact(TOPIC) if first else b"\0")
        body += b"\0\0" + owned + b"\0"
        # The header of a flexible version ends with its tagged fields, of which there are none.
        answer = self.connection.ask(CONSUMER_GROUP_HEARTBEAT, 1, b"\0" + body)[1:]
        (error,) = struct.unpack_from(">h", answer, 4)
        if error:
            raise Refused(f"heartbeat of the consumer protocol: error {error}")
        position = skip_compact(answer, skip_compact(answer, 6))
        (self.epoch,) = struct.unpack_from(">i", answer, position)
        position += 8
        if answer[position] != 0xFF:
            self.partitions = assigned(answer, position + 1)


def consumer_rebalance(broker: Broker, group: str, topic_id: bytes) -> float:
    """Seconds from the last member's first heartbeat until each of the ten has its even share."""
    members: list[ModernMember] = []
    deadline = time.perf_counter() + SECONDS
    try:
        for number in range(MEMBERS):
            begin = time.perf_counter()
            members.append(ModernMember(broker, group, f"member-{number}", topic_id))
            members[-1].beat()
            while not even(members):
                if time.perf_counter() > deadline:
                    raise Refused(f"no even shares: {[member.partitions for member in members]}")
                for member in members:
                    member.beat()
        return time.perf_counter() - begin
    finally:
        for member in members:
            member.connection.socket.close()


def even(members: list[ModernMember]) -> bool:
    held = sorted(number for member in members for number in member.partitions)
    sizes = [len(member.partitions) for member in members]
    agreed = len({member.epoch for member in members}) == 1
    return agreed and held == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1


# --- offsets ---


def commits(broker: Broker, group: str, pipelined: int) -> float:
    """Commits a second over one connection."""
    partition = struct.pack(">iq", 0, 42) + string("")
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    body += array([string(TOPIC) + array([partition])])
    with Connection(broker.port) as connection:
        begin = time.perf_counter()
        for _ in range(COMMITS // pipelined):
            connection.socket.sendall(frame(OFFSET_COMMIT, 2, 1, body) * pipelined)
            for _ in range(pipelined):
                answer = connection.receive_frame()
        seconds = time.perf_counter() - begin
    (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
    if error:
        raise Refused(f"committing: error {error}")
    return COMMITS / seconds


def many_groups(broker: Broker) -> None:
    """A thousand groups, each with a member at work and ten committed offsets."""
    rows = array(struct.pack(">iq", number, 42) + string("") for number in range(10))
    for number in range(GROUPS):
        member = Member(broker, f"many-{number}")
        member.send_join()
        member.receive_join()
        member.send_sync([member])
        member.receive_sync()
        body = member.group + struct.pack(">i", member.generation) + string(member.member) + struct.pack(">q", -1)
        member.connection.ask(OFFSET_COMMIT, 2, body + array([string(TOPIC) + rows]))
        member.connection.socket.close()


# --- bytes ---


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def text_at(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, position)
    end = position + 2 + max(length, 0)
    return data[position + 2 : end].decode(), end


def compact(text: str) -> bytes:
    """A short text as flexible versions write it."""
    data = text.encode()
    assert len(data) < 127, "lengths are written as one-byte varints"
    return bytes([len(data) + 1]) + data


def compact_integers(numbers: Iterable[int]) -> bytes:
    found = list(numbers)
    return bytes([len(found) + 1]) + struct.pack(f">{len(found)}i", *found)


def skip_compact(data: bytes, position: int) -> int:
    """The position after a short text, which may be null."""
    return position + max(data[position], 1)


def assigned(data: bytes, position: int) -> tuple[int, ...]:
    """The partitions of the one topic of an assignment, if there are any."""
    if data[position] <= 1:
        return ()
    position += 1 + 16
    count = data[position] - 1
    return struct.unpack_from(f">{count}i", data, position + 1)


def topic_id_of(connection: Connection, topic: str) -> bytes:
    """The id of a topic, from the first version of Metadata that tells it."""
    body = b"\0" + b"\2" + b"\0" * 16 + compact(topic) + b"\0" + b"\0\0\0"
    answer = connection.ask(METADATA, 12, body)
    position = answer.index(compact(topic)) + len(compact(topic))
    return answer[position : position + 16]
