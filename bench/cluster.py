"""Three nodes of each system, replication factor 3, acks=all: load, start, memory, failures, moves.

Each start of a cluster runs four rounds of load, of which the first is cold and the fourth warm; then many partitions
are made, a leader is stopped in good order, one is killed, and a partition moves.
"""

import os
import signal
import struct
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from bench import load
from bench.clusters import CLUSTERS, NODES, Cluster
from bench.turns import Numbers, in_turn
from bench.wire import METADATA, Connection, Refused, array, one_record_batch, string
from confluent_kafka import Producer

ALTER_CONFIGS, ALTER_REASSIGNMENTS = 44, 45
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
REPLICAS = 3
ROUNDS = 4
SMALL, SMALL_COUNT = 100, 500_000
LARGE, LARGE_COUNT = 1024, 100_000
LATENCY_COUNT = 4_000
BATCHED = "linger.ms=5"
READY_SECONDS = 120.0
POLL_SECONDS = 0.002
FAILURE_AFTER, WATCHED = 2.0, 16.0
"""When the failure comes and for how long acknowledgements are watched, in seconds."""
PACE = 0.001
MOVED, THROTTLE = 1_000_000_000, 100_000_000
PARTITIONS = 1_000
EXISTS = "error 36"


def measure(starts: int) -> dict[str, dict[str, Numbers]]:
    return in_turn("cluster", CLUSTERS, starts, numbers_of)


def numbers_of(cluster: Cluster) -> tuple[Numbers, Numbers]:
    cluster.format()
    try:
        seconds = start(cluster)
        idle = cluster.resident_megabytes()
        found = [one_round(cluster, number) for number in range(ROUNDS)]
        cold, warm = found[0], found[-1]
        cold["start"], cold["resident_idle"] = seconds, idle
        warm["resident_after"] = cluster.resident_megabytes()
        warm["create_partitions"] = create_partitions(cluster)
        warm["gap_stopped"] = gap(cluster, "stopped", signal.SIGTERM)
        warm["gap_killed"] = gap(cluster, "killed", signal.SIGKILL)
        warm |= moves(cluster)
        return cold, warm
    finally:
        cluster.stop()
        cluster.remove()


# --- start, load ---


def start(cluster: Cluster) -> float:
    """Seconds from executing the processes until a topic with three replicas has taken a write."""
    begin = time.perf_counter()
    cluster.start()
    until(lambda: cluster.runs() and created(cluster, "first", 1), "a topic with three replicas")
    until(lambda: written(cluster, "first"), "a write to it")
    return time.perf_counter() - begin


def created(cluster: Cluster, name: str, partitions: int) -> bool:
    with Connection(cluster.port_of(1)) as connection:
        try:
            connection.create_topics([name], partitions, replicas=REPLICAS)
        except Refused as refusal:
            return EXISTS in str(refusal)
    return True


def written(cluster: Cluster, topic: str) -> bool:
    leader = partitions_of(cluster, topic)[0].leader
    with Connection(cluster.port_of(leader)) as connection:
        connection.produce(topic, 0, one_record_batch(b"first"))
    return True


def one_round(cluster: Cluster, number: int) -> Numbers:
    topic = f"round-{number}"
    assert created(cluster, topic, 6), "the topic is created"
    wait_until_whole(cluster, topic)
    small = load.run(cluster, "produce", topic, SMALL_COUNT, SMALL, BATCHED)
    large = load.run(cluster, "produce", topic, LARGE_COUNT, LARGE, BATCHED)
    single = load.run(cluster, "latency", topic, LATENCY_COUNT, SMALL, "acks=all")
    return {
        "produce_small": small["messages_per_second"],
        "produce_large": large["megabytes_per_second"],
        "latency_p50": single["p50"] * 1e6,
        "latency_p99": single["p99"] * 1e6,
        "cpu_produce": small["broker_cpu"] / SMALL_COUNT * 1e6,
    }


def create_partitions(cluster: Cluster) -> float:
    """Seconds until a new topic's thousand partitions are known to every node and each has taken a message."""
    begin = time.perf_counter()
    assert created(cluster, "many", PARTITIONS), "the topic is created"
    wait_until_whole(cluster, "many")
    load.run(cluster, "fill", "many", PARTITIONS, SMALL, BATCHED)
    return time.perf_counter() - begin


# --- failures ---


def gap(cluster: Cluster, topic: str, number: int) -> float:
    """The longest time between two acknowledgements when the leader of the only partition is sent this signal; it comes
    back afterwards."""
    assert created(cluster, topic, 1), "the topic is created"
    wait_until_whole(cluster, topic)
    acknowledged: list[float] = []
    refused: list[str] = []

    def told(error: object, message: object) -> None:
        acknowledged.append(time.perf_counter()) if error is None else refused.append(str(error))

    producer = Producer({"bootstrap.servers": cluster.address, "linger.ms": 0, "acks": "all", "log_level": 0})
    begin = time.perf_counter()
    leader = pid = 0
    while (now := time.perf_counter()) < begin + FAILURE_AFTER + WATCHED:
        if not leader and now > begin + FAILURE_AFTER:
            leader = partitions_of(cluster, topic)[0].leader
            pid = cluster.pid_of(leader)
            os.kill(pid, number)
        producer.produce(topic, b"steady", on_delivery=told)
        producer.poll(PACE)
    producer.flush(READY_SECONDS)
    cluster.wait_for_end(pid, leader)
    cluster.restart(leader)
    wait_until_whole(cluster, topic)
    if refused:
        raise Refused(f"{len(refused)} messages were not taken: {refused[0]}")
    return max(later - earlier for earlier, later in pairwise(acknowledged))


# --- moves ---


def moves(cluster: Cluster) -> Numbers:
    """A partition of one replica goes to another node and back: as fast as it can, then throttled."""
    with Connection(cluster.port_of(1)) as connection:
        connection.create_topics(["moved"], 1)
    until(lambda: bool(partitions_of(cluster, "moved")[0].in_sync), "the partition that moves")
    load.run(cluster, "produce", "moved", MOVED // LARGE, LARGE, BATCHED)
    home = partitions_of(cluster, "moved")[0].replicas[0]
    away = NODES[home % len(NODES)]
    free = MOVED / move(cluster, away)
    rate = str(THROTTLE)
    configure(cluster, TOPIC_RESOURCE, "moved", dict.fromkeys(_throttled("replicas"), "*"))
    for node in NODES:
        configure(cluster, BROKER_RESOURCE, str(node), dict.fromkeys(_throttled("rate"), rate))
    throttled = MOVED / move(cluster, home)
    return {"move": free / 1e6, "throttle_missed": abs(throttled / THROTTLE - 1) * 100}


def _throttled(what: str) -> tuple[str, str]:
    return f"leader.replication.throttled.{what}", f"follower.replication.throttled.{what}"


def move(cluster: Cluster, node: int) -> float:
    """Seconds until the partition is on that node and nowhere else."""
    begin = time.perf_counter()
    body = struct.pack(">i", 60_000) + b"\2" + b"\6moved" + b"\2" + struct.pack(">i", 0)
    body += b"\2" + struct.pack(">i", node) + b"\0\0\0"
    ask_flexible(cluster, ALTER_REASSIGNMENTS, body)
    until(lambda: partitions_of(cluster, "moved")[0].replicas == (node,), f"the partition on node {node}")
    return time.perf_counter() - begin


def ask_flexible(cluster: Cluster, api: int, body: bytes) -> bytes:
    """Ask the first node; headers of flexible versions end with their tagged fields, of which there are none."""
    with Connection(cluster.port_of(1)) as connection:
        answer = connection.ask(api, 0, b"\0" + body)[1:]
    (error,) = struct.unpack_from(">h", answer, 4)
    if error:
        raise Refused(f"API {api}: error {error}")
    return answer


def configure(cluster: Cluster, kind: int, name: str, settings: Mapping[str, str]) -> None:
    rows = array(string(key) + b"\0" + string(value) for key, value in settings.items())
    body = array([struct.pack(">b", kind) + string(name) + rows]) + b"\0"
    # A broker's settings are its own business; a topic's any node takes.
    node = int(name) if kind == BROKER_RESOURCE else 1
    with Connection(cluster.port_of(node)) as connection:
        (error,) = struct.unpack_from(">h", connection.ask(ALTER_CONFIGS, 0, body), 8)
    if error:
        raise Refused(f"settings of {name}: error {error}")


# --- the state of partitions ---


class Partition(NamedTuple):
    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def partitions_of(cluster: Cluster, topic: str, node: int | None = None) -> list[Partition]:
    """As one node says, or the first that answers."""
    problem: OSError | None = None
    for each in NODES if node is None else (node,):
        try:
            with Connection(cluster.port_of(each), 10.0) as connection:
                return _partitions(connection.ask(METADATA, 1, array([string(topic)])))
        except OSError as failure:
            problem = failure
    assert problem is not None
    raise problem


def _partitions(answer: bytes) -> list[Partition]:
    reader = _Reader(answer)
    for _ in range(reader.take(">i")):
        reader.take(">i")
        reader.text()
        reader.take(">i")
        reader.text()
    reader.take(">i")
    if reader.take(">i") != 1 or reader.take(">h"):
        raise Refused("the topic is not known")
    reader.text()
    reader.take(">b")
    found = []
    for _ in range(reader.take(">i")):
        reader.take(">h")
        found.append(Partition(reader.take(">i"), reader.take(">i"), reader.integers(), reader.integers()))
    return found


class _Reader:
    """Fields of an answer, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._position)
        self._position += struct.calcsize(layout)
        return int(value)

    def text(self) -> None:
        length = self.take(">h")
        self._position += max(length, 0)

    def integers(self) -> tuple[int, ...]:
        return tuple(self.take(">i") for _ in range(self.take(">i")))


def wait_until_whole(cluster: Cluster, topic: str) -> None:
    """Until every node says that every partition has a leader and all its replicas in sync."""
    for node in NODES:
        until(lambda node=node: whole(partitions_of(cluster, topic, node)), f"all replicas of {topic}")  # type: ignore[misc]


def whole(partitions: list[Partition]) -> bool:
    return bool(partitions) and all(
        each.leader in NODES and len(each.in_sync) == len(each.replicas) == REPLICAS for each in partitions
    )


def until(condition: Callable[[], Any], what: str) -> None:
    """Ask again, also when nobody answers or the answer is a refusal, until it is so."""
    deadline = time.perf_counter() + READY_SECONDS
    problem: Exception | None = None
    while time.perf_counter() < deadline:
        try:
            if condition():
                return
        except (OSError, Refused) as failure:
            problem = failure
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"{what}: {problem or 'not yet'}")
