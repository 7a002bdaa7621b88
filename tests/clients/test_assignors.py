"""Every assignor of every client: members come, go, crash and restart, the topic grows, each partition has one owner.

A member is a process of its own, since only a process can crash. Java's is Kafka's VerifiableConsumer.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from clients import member
from kit.brokers.brokers import Broker, broker_under_test
from kit.brokers.processes import until
from kit.brokers.topics import create_topic
from kit.others import java
from kit.wire.raw import RawConnection

SECONDS = 100.0
SESSION_MS = 2_500
LONG_SESSION_MS = 200_000
"""For members that nobody waits for to be given up: a restart may take long on a busy machine."""
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
JAVA_NAMES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@pytest.fixture(scope="module")
def quick_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that allows sessions short enough to wait for their end."""
    with broker_under_test(tmp_path_factory.mktemp("assignors") / "data", SETTINGS) as running:
        yield running


class Member:
    """A member's process and the partitions it said it holds."""

    def __init__(self, client: str, broker: Broker, topic: str, strategy: str, instance: str | None = None) -> None:
        self._is_java = client == "java"
        # Static members restart within their session here, others end it by a crash.
        session_ms = SESSION_MS if instance is None else LONG_SESSION_MS
        if self._is_java:
            command = _java_command(broker, topic, strategy, session_ms, instance)
        else:
            named = [] if instance is None else [instance]
            own = [client, broker.bootstrap, topic, topic, strategy, str(session_ms), *named]
            command = [sys.executable, member.__file__, *own]
        self.partitions: set[int] = set()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not self._is_java:
                self.partitions = set(json.loads(line))
            elif line.startswith("{"):
                self._take_event(json.loads(line))

    def _take_event(self, event: dict[str, object]) -> None:
        rows = event.get("partitions")
        moved = {row["partition"] for row in rows} if isinstance(rows, list) else set()
        if event["name"] == "partitions_assigned":
            self.partitions = self.partitions | moved
        elif event["name"] == "partitions_revoked":
            self.partitions = self.partitions - moved

    def leave(self) -> None:
        self._end(signal.SIGTERM)

    def crash(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        self._process.send_signal(number)
        self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.poll() is None:
            self.crash()


def _java_command(broker: Broker, topic: str, strategy: str, session_ms: int, instance: str | None) -> list[str]:
    # A file of its own: the JVM of another member may be reading that one's.
    settings = Path(broker.data.parent) / f"{topic}-{uuid.uuid4().hex}.properties"
    lines = [f"metadata.max.age.ms={member.METADATA_MS}\n"]
    if strategy.startswith("consumer:"):
        own = ["--group-protocol", "consumer", "--group-remote-assignor", strategy.removeprefix("consumer:")]
    else:
        lines.append(f"heartbeat.interval.ms={member.HEARTBEAT_MS}\n")
        own = ["--assignment-strategy", f"org.apache.kafka.clients.consumer.{JAVA_NAMES[strategy]}",
               "--session-timeout", str(session_ms)]  # fmt: skip
    settings.write_text("".join(lines))
    named = [] if instance is None else ["--group-instance-id", instance]
    return java.command("VerifiableConsumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id",
                        topic, "--command-config", str(settings), *own, *named)  # fmt: skip


def shared(members: list[Member], count: int) -> bool:
    """Whether each partition has one owner and the shares are even."""
    held = [number for each in members for number in each.partitions]
    sizes = [len(each.partitions) for each in members]
    return sorted(held) == list(range(count)) and max(sizes) - min(sizes) <= 1


def grow(broker: Broker, topic: str, count: int) -> None:
    with RawConnection(broker.host, broker.port) as connection:
        wanted = {"name": topic, "count": count, "assignments": None}
        answer = connection.ask("create_partitions", 3, topics=[wanted], timeout=10_000)
        assert answer["results"][0]["error_code"] == "none", answer


def generation_of(broker: Broker, group: str) -> int:
    """The generation that a classic group is in: the only one in which a heartbeat of a member is taken."""
    with RawConnection(broker.host, broker.port) as connection:
        described = connection.ask("describe_groups", 4, groups=[group])["groups"][0]
        identifier = described["members"][0]["member_id"]
        for generation in range(1, 100):
            answer = connection.ask("heartbeat", 3, group_id=group, generation_id=generation, member_id=identifier)
            if answer["error_code"] != "illegal_generation":
                return generation
    raise AssertionError(f"no generation of {group} is taken")


ASSIGNORS = [
    *(("confluent", strategy) for strategy in ("range", "roundrobin", "cooperative-sticky")),
    *(("kafka-python", strategy) for strategy in ("range", "roundrobin", "sticky", "cooperative-sticky")),
    *(("aiokafka", strategy) for strategy in ("range", "roundrobin", "sticky")),
    *(
        (client, each)
        for client in ("java", "ottla")
        for each in ("range", "roundrobin", "sticky", "cooperative-sticky")
    ),
    *((client, f"consumer:{each}") for client in ("confluent", "java", "ottla") for each in ("uniform", "range")),
]


@pytest.mark.parametrize(("client", "strategy"), ASSIGNORS)
def test_partitions_have_one_owner_through_joins_growth_crashes_and_leaves(
    quick_broker: Broker, topic: str, client: str, strategy: str
) -> None:
    create_topic(quick_broker, topic, 4)
    with (
        Member(client, quick_broker, topic, strategy) as first,
        Member(client, quick_broker, topic, strategy) as second,
    ):
        until(lambda: shared([first, second], 4), "two members", SECONDS)
        grow(quick_broker, topic, 6)
        until(lambda: shared([first, second], 6), "two members with two partitions more", SECONDS)
        second.crash()
        until(lambda: shared([first], 6), "one member alone after the other's crash", SECONDS)
        with Member(client, quick_broker, topic, strategy) as third:
            until(lambda: shared([first, third], 6), "a member that came later", SECONDS)
            first.leave()
            until(lambda: shared([third], 6), "one member alone after the other left", SECONDS)
            third.leave()


def test_clients_of_several_kinds_share_a_topic(quick_broker: Broker, topic: str) -> None:
    create_topic(quick_broker, topic, 8)
    with (
        Member("confluent", quick_broker, topic, "range") as first,
        Member("aiokafka", quick_broker, topic, "range") as second,
        Member("java", quick_broker, topic, "range") as third,
        Member("kafka-python", quick_broker, topic, "range") as fourth,
    ):
        until(lambda: shared([first, second, third, fourth], 8), "four members", SECONDS)
        third.leave()
        fourth.leave()
        until(lambda: shared([first, second], 8), "two members", SECONDS)
        first.leave()
        until(lambda: shared([second], 8), "one member", SECONDS)


@pytest.mark.parametrize(
    ("client", "strategy"),
    [
        *(("confluent", each) for each in ("range", "roundrobin", "cooperative-sticky", "consumer:uniform")),
        *(("kafka-python", each) for each in ("range", "sticky")),
        *(("aiokafka", each) for each in ("roundrobin", "sticky")),
        *(("java", each) for each in ("range", "roundrobin", "sticky", "cooperative-sticky", "consumer:range")),
    ],
)
def test_ottla_shares_a_group_with_every_client_whoever_leads(
    quick_broker: Broker, topic: str, client: str, strategy: str
) -> None:
    create_topic(quick_broker, topic, 6)
    with Member(client, quick_broker, topic, strategy) as leader:
        until(lambda: shared([leader], 6), "the other client alone", SECONDS)
        with Member("ottla", quick_broker, topic, strategy) as second:
            until(lambda: shared([leader, second], 6), "ottla follows", SECONDS)
            leader.leave()
            until(lambda: shared([second], 6), "ottla alone", SECONDS)
            with Member(client, quick_broker, topic, strategy) as third:
                until(lambda: shared([second, third], 6), "ottla leads", SECONDS)
                third.leave()
                until(lambda: shared([second], 6), "ottla alone again", SECONDS)


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka", "java", "ottla"])
def test_a_static_member_restarts_in_the_same_generation(quick_broker: Broker, topic: str, client: str) -> None:
    create_topic(quick_broker, topic, 4)
    with Member("confluent", quick_broker, topic, "range", "stays") as stays:
        with Member(client, quick_broker, topic, "range", "restarts") as restarts:
            until(lambda: shared([stays, restarts], 4), "two members", SECONDS)
            held, generation = restarts.partitions, generation_of(quick_broker, topic)
            restarts.crash()
        with Member(client, quick_broker, topic, "range", "restarts") as restarted:
            until(lambda: restarted.partitions == held, "its own partitions", SECONDS)
            assert shared([stays, restarted], 4)
            assert generation_of(quick_broker, topic) == generation
