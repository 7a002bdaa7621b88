"""Members of groups as confluent-kafka makes them, and topics for them to share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kit.brokers.brokers import Broker

SECONDS = 90.0
PARTITIONS = 4


def fill(broker: Broker, topic: str, count: int = 40) -> None:
    """Make a topic with records 0 to count - 1, spread evenly."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


class Member:
    """A consumer that remembers what it received and how often its assignment changed."""

    def __init__(self, broker: Broker, group: str, topic: str, protocol: str = "classic", **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        if protocol == "classic":
            named = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 200, **named}
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **named,
            }
        )
        self.rebalances = 0
        self.received: list[int] = []
        self.consumer.subscribe([topic], on_assign=self._changed, on_revoke=self._changed)

    def _changed(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(item.topic, item.partition) for item in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.received.append(int(message.value() or b""))

    def has(self, count: int) -> bool:
        """Whether it has received so many records; polls on the way."""
        self.poll()
        return len(self.received) >= count

    def close(self) -> None:
        self.consumer.close()


@contextlib.contextmanager
def members(
    broker: Broker, group: str, topic: str, *settings: Mapping[str, Any], protocol: str = "classic"
) -> Iterator[list[Member]]:
    """One member for each of the settings; they leave in the end."""
    made = [Member(broker, group, topic, protocol, **own) for own in settings]
    try:
        yield made
    finally:
        for member in made:
            member.close()


def settled(made: list[Member], partitions: int = PARTITIONS) -> bool:
    """Whether the partitions are shared out evenly, each to one member; polls everybody on the way."""
    for member in made:
        member.poll()
    owned = [partition for member in made for partition in member.partitions]
    shares = [len(member.partitions) for member in made]
    return len(owned) == len(set(owned)) == partitions and 0 < min(shares) >= max(shares) - 1


def described(broker: Broker, group: str) -> Any:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return admin.describe_consumer_groups([group], request_timeout=SECONDS)[group].result(SECONDS)
