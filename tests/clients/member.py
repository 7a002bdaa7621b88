"""One member of a group as a process: `python member.py CLIENT BOOTSTRAP GROUP TOPIC STRATEGY SESSION_MS [INSTANCE]`.

CLIENT is ottla, confluent, kafka-python or aiokafka; STRATEGY is an assignor's name, or consumer:NAME for the consumer
protocol with a server-side assignor. Prints the partitions it holds, as a line of JSON, whenever they change. Leaves
its group on SIGTERM; kill -9 is a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import threading
import warnings
from collections.abc import Iterable
from typing import Any

HEARTBEAT_MS = 150
METADATA_MS = 300
PYTHON_POLL_MS = 120_000
"""Long, because of a fault of kafka-python 3.0.12: `join_group_async` awaits its join only while `need_rejoin()` says
so. When a leader joins again because the topic grew, nothing but its old snapshot of the metadata says so, and
`_perform_assignment` renews that between JoinGroup and SyncGroup. If a poll's time ends between the two, no later poll
looks at the finished join: the member has no new partitions, sends no heartbeats and never joins again. With polls of
50 ms that happens to one growing group in six, on Apache Kafka as on ottla; these outlast the test that needs them."""
leave = threading.Event()


class Leave(Exception):
    """Told to leave while a long poll waits."""


class Report:
    """Says what it is told when that is news."""

    def __init__(self) -> None:
        self._said: list[int] | None = None

    def __call__(self, partitions: Iterable[int]) -> None:
        held = sorted(partitions)
        if held != self._said:
            self._said = held
            print(json.dumps(held), flush=True)


def confluent(bootstrap: str, group: str, topic: str, strategy: str, session_ms: int, instance: str | None) -> None:
    from confluent_kafka import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": METADATA_MS,
    }
    if strategy.startswith("consumer:"):
        settings |= {"group.protocol": "consumer", "group.remote.assignor": strategy.removeprefix("consumer:")}
    else:
        settings |= {"partition.assignment.strategy": strategy, "session.timeout.ms": session_ms}
        settings |= {"heartbeat.interval.ms": HEARTBEAT_MS}
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    say = Report()
    while not leave.is_set():
        consumer.poll(0.05)
        say(item.partition for item in consumer.assignment())
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, strategy: str, session_ms: int, instance: str | None) -> None:
    warnings.simplefilter("ignore")
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    say = Report()
    held: set[int] = set()

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        """Polls are too long to look at the assignment between them."""

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            held.difference_update(item.partition for item in revoked)
            say(held)

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            held.update(item.partition for item in assigned)
            say(held)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        partition_assignment_strategy=[assignors[strategy]],
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_MS,
    )

    def end_poll(*_: object) -> None:
        raise Leave

    with contextlib.suppress(Leave):
        signal.signal(signal.SIGTERM, end_poll)
        consumer.subscribe([topic], listener=Listener())
        while True:
            consumer.poll(timeout_ms=PYTHON_POLL_MS)
    consumer.close()


async def aio(bootstrap: str, group: str, topic: str, strategy: str, session_ms: int, instance: str | None) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        partition_assignment_strategy=[assignors[strategy]],
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_MS,
    )
    await consumer.start()
    say = Report()
    while not leave.is_set():
        await consumer.getmany(timeout_ms=50)
        say(item.partition for item in consumer.assignment())
    await consumer.stop()


async def own(bootstrap: str, group: str, topic: str, strategy: str, session_ms: int, instance: str | None) -> None:
    import ottla

    settings: dict[str, Any] = {"partition_assignment_strategy": strategy, "session_timeout_ms": session_ms}
    settings |= {"heartbeat_interval_ms": HEARTBEAT_MS}
    if strategy.startswith("consumer:"):
        settings = {"group_protocol": "consumer", "group_remote_assignor": strategy.removeprefix("consumer:")}
    say = Report()
    async with ottla.Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        metadata_max_age_ms=METADATA_MS,
        **settings,
    ) as consumer:
        while not leave.is_set():
            await consumer.poll(0.05)
            say(item.partition for item in consumer.assignment())


def main() -> None:
    client, bootstrap, group, topic, strategy, session_ms, *instance = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: leave.set())
    wanted = (bootstrap, group, topic, strategy, int(session_ms), instance[0] if instance else None)
    if client == "confluent":
        confluent(*wanted)
    elif client == "kafka-python":
        kafka_python(*wanted)
    else:
        asyncio.run(own(*wanted) if client == "ottla" else aio(*wanted))


if __name__ == "__main__":
    main()
