"""A process that copies one topic to another, exactly once: `python copying.py BOOTSTRAP FROM TO GROUP PROTOCOL NAME`.

Each round consumes some records, writes what becomes of them and commits the offsets they came from in the same
transaction. It runs until it is killed; whatever goes wrong otherwise ends it with exit code 3 after an abort, and
whoever started it starts another. Prints a line a committed round, so that a test can tell progress from silence.
"""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BATCH = 40
SECONDS = 10.0
PATIENCE = {
    # With every broker down, librdkafka starts anew from its bootstrap addresses, but goes on waiting for the group's
    # coordinator under the connection it had; there is one broker here, and it comes back where it was.
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "log_level": 0,
}


def transformed(value: bytes) -> bytes:
    return b"copy of " + value


class Source:
    """A consumer that hands out records in small batches; a batch that a rebalance interrupts is forgotten."""

    def __init__(self, bootstrap: str, group: str, protocol: str, topic: str) -> None:
        self._taken: list[Any] = []
        # The consumer protocol leaves these times to the broker.
        pace = {"session.timeout.ms": 1_000, "heartbeat.interval.ms": 100} if protocol == "classic" else {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "group.protocol": protocol,
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 10,
                **pace,
                **PATIENCE,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._forget, on_revoke=self._forget, on_lost=self._forget)

    def _forget(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Whatever was taken belongs to the next owner of its partition, who starts at the committed offset."""
        self._taken.clear()

    def take(self) -> list[Any]:
        self._taken.clear()
        wait = 0.05
        while len(self._taken) < BATCH:
            record = self._consumer.poll(wait)
            if record is None:
                break
            if record.error() is None:
                self._taken.append(record)
                wait = 0.0
        return list(self._taken)

    def offsets_after(self, taken: list[Any]) -> list[TopicPartition]:
        last = {(record.topic(), record.partition()): record.offset() for record in taken}
        return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in last.items()]

    def membership(self) -> Any:
        return self._consumer.consumer_group_metadata()


def producer_of(bootstrap: str, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 5_000,
            "linger.ms": 1,
            **PATIENCE,
        }
    )
    producer.init_transactions(SECONDS)
    return producer


def copy(bootstrap: str, source: str, target: str, group: str, protocol: str, name: str) -> None:
    producer = producer_of(bootstrap, name)
    records = Source(bootstrap, group, protocol, source)
    while True:
        taken = records.take()
        if not taken:
            continue
        producer.begin_transaction()
        try:
            for record in taken:
                producer.produce(target, transformed(record.value()), record.key(), partition=record.partition())
            producer.send_offsets_to_transaction(records.offsets_after(taken), records.membership(), SECONDS)
            producer.commit_transaction(SECONDS)
        except KafkaException:
            producer.abort_transaction(SECONDS)
            raise
        print(len(taken), flush=True)


if __name__ == "__main__":
    try:
        copy(*sys.argv[1:])
    except KafkaException as error:
        print(error, file=sys.stderr)
        sys.exit(3)
