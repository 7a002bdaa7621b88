"""Clients that work on a cluster while a test troubles it, and write down what they see.

An idempotent producer and a transactional one write, a reader follows; all into one `History`. They go on through
whatever happens: a record waits for its leader, a transaction that broke is ended and another begun.
"""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kit.brokers.history import Fault, History
from kit.brokers.processes import until

PATIENCE = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 1000,
    "log_level": 0,
}
IN_FLIGHT = 400
FINISH_SECONDS = 150.0
"""Longer than a few requests that are answered, or given up, after their 30 seconds."""
TRANSACTION_SECONDS = 20.0


def told_offset(message: Any) -> int:
    """Where a record went; -1 when its producer does not know.

    librdkafka takes a record for delivered when one behind it is, though the answer about it was an error: the next
    leader has it already, but did not lead yet when it was sent again.
    """
    offset: int | None = message.offset()
    return -1 if offset is None else offset


class Sender(threading.Thread):
    """An idempotent producer: 0, 1, 2… to the partitions in turn, as fast as a few hundred in flight allow.

    One request at a time on a connection. With more, librdkafka itself writes twice now and then, whatever the broker:
    a request that meets a leader which does not know of its office yet is refused, the one behind it is out of order,
    and the producer begins a new epoch, in which it sends again what other partitions have but did not acknowledge.
    ottla's own producer is troubled with five requests at a time in test_client_producer_kills.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, history: History, settings: dict[str, Any] | None = None
    ) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.failures: list[str] = []
        self._topic, self._partitions, self._history = topic, partitions, history
        self._leave = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": int(2 * FINISH_SECONDS * 1000),
                **PATIENCE,
                **(settings or {}),
            }
        )

    def run(self) -> None:
        number = 0
        while not self._leave.is_set():
            self._producer.poll(0.001)
            if len(self._producer) >= IN_FLIGHT:
                continue
            for _ in range(4):
                value = b"s%d" % number
                self._history.sent("sender", number % self._partitions, value)
                self._producer.produce(
                    self._topic, value, partition=number % self._partitions, on_delivery=self._delivered
                )
                number += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self._history.acknowledged(message.value(), told_offset(message))
        self.acknowledged += 1

    def go_on(self, count: int, seconds: float = FINISH_SECONDS) -> None:
        """Return when so many more are acknowledged."""
        wanted = self.acknowledged + count
        until(lambda: self.failures or self.acknowledged >= wanted, f"{count} more acknowledgements", seconds)
        assert not self.failures, self.failures[0]

    def abandon(self) -> None:
        """After a failure: end, whatever becomes of what was sent, and trouble no other test."""
        self._leave.set()
        self._producer.purge()

    def finish(self) -> None:
        self._leave.set()
        self.join(FINISH_SECONDS)
        left = self._producer.flush(FINISH_SECONDS)
        assert not self.failures, self.failures[0]
        assert left == 0, f"{left} records were never acknowledged"


class Committer(threading.Thread):
    """A transactional producer: a few records to each partition, then commit, or sometimes abort, and a pause."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, history: History, seed: int = 1, pause: float = 0.0
    ) -> None:
        super().__init__(daemon=True)
        self._pause = pause
        self.committed = 0
        self.failure: BaseException | None = None
        self._topic, self._partitions, self._history = topic, partitions, history
        self._chance = random.Random(seed)
        self._leave, self._abandoned = threading.Event(), threading.Event()
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"committer-{topic}",
            "transaction.timeout.ms": 10_000,
            "linger.ms": 1,
            **PATIENCE,
        }

    def run(self) -> None:
        try:
            number = 0
            while True:
                producer = self._begin()
                if self._leave.is_set():
                    return
                try:
                    while not self._leave.is_set():
                        self._transaction(producer, number)
                        number += 1
                except KafkaException:
                    number += 1  # how it ended is not known; a new producer sees to that it has ended
        except BaseException as failure:
            self.failure = failure

    def _begin(self) -> Producer:
        """A producer; what the one before it has done has ended, to the last marker.

        Only then do readers of committed records see all of it, and of what others wrote after it.
        """
        deadline = time.monotonic() + FINISH_SECONDS
        producer = Producer(self._settings)
        while True:
            try:
                producer.init_transactions(TRANSACTION_SECONDS)
                return producer
            except KafkaException as problem:
                if self._abandoned.is_set() or time.monotonic() > deadline:
                    raise
                if not problem.args[0].retriable():
                    producer = Producer(self._settings)

    def _transaction(self, producer: Producer, number: int) -> None:
        name = f"transaction {number}"
        producer.begin_transaction()
        for partition in range(self._partitions):
            value = b"t%d-%d" % (number, partition)
            self._history.sent("committer", partition, value, name)
            producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        producer.flush(TRANSACTION_SECONDS)
        if self._chance.random() < 0.2:
            self._abort(producer, name)
            return
        while True:
            try:
                producer.commit_transaction(TRANSACTION_SECONDS)
                self._history.ended(name, committed=True)
                self.committed += 1
                return
            except KafkaException as problem:
                if problem.args[0].txn_requires_abort():
                    self._abort(producer, name)
                    return
                if not problem.args[0].retriable():
                    raise

    def _abort(self, producer: Producer, name: str) -> None:
        producer.abort_transaction(TRANSACTION_SECONDS)
        self._history.ended(name, committed=False)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._history.acknowledged(message.value(), told_offset(message))

    def go_on(self, count: int, seconds: float = FINISH_SECONDS) -> None:
        wanted = self.committed + count
        until(lambda: self.failure or self.committed >= wanted, f"{count} more transactions", seconds)
        self._check()

    def _check(self) -> None:
        if self.failure is not None:
            raise AssertionError("the transactional producer failed") from self.failure

    def abandon(self) -> None:
        self._leave.set()
        self._abandoned.set()

    def finish(self) -> None:
        self._leave.set()
        self.join(2 * FINISH_SECONDS)
        assert not self.is_alive(), "the transactional producer does not end"
        self._check()


class Follower(threading.Thread):
    """A reader of committed records that follows every partition from its beginning."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, history: History) -> None:
        super().__init__(daemon=True)
        self._reader = history.reader("follower")
        self._leave = threading.Event()
        self._consumer = reader_of(bootstrap)
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def run(self) -> None:
        while not self._leave.is_set():
            for record in self._consumer.consume(500, 0.1):
                if record.error() is None:
                    self._reader.polled(record.partition(), record.offset(), record.value())  # type: ignore[arg-type]

    def abandon(self) -> None:
        self._leave.set()

    def finish(self) -> None:
        self._leave.set()
        self.join(FINISH_SECONDS)
        self._consumer.close()


class Traffic:
    """All three, between `__enter__` and `__exit__`; what they saw is judged by `verdict`, after all have finished.

    `settings` are those of the sender, `pause` is what lies between two transactions.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        settings: dict[str, Any] | None = None,
        *,
        pause: float = 0.0,
    ) -> None:
        self.history = History()
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self.sender = Sender(bootstrap, topic, partitions, self.history, settings)
        self.committer = Committer(bootstrap, topic, partitions, self.history, pause=pause)
        self._follower = Follower(bootstrap, topic, partitions, self.history)

    def go_on(self, records: int, transactions: int = 3) -> None:
        self.sender.go_on(records)
        self.committer.go_on(transactions)

    def verdict(self) -> list[Fault]:
        reader = self.history.reader("final")
        for partition, offset, value in read_all(self._bootstrap, self._topic, self._partitions):
            reader.polled(partition, offset, value)
        return self.history.judge("final")

    def __enter__(self) -> Self:
        for client in (self._follower, self.sender, self.committer):
            client.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.sender.finish()
            self.committer.finish()
            self._follower.finish()
        else:
            for client in (self.sender, self.committer, self._follower):
                client.abandon()


def reader_of(bootstrap: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody's",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 50,
            **PATIENCE,
            **settings,
        }
    )


def read_all(bootstrap: str, topic: str, partitions: int, seconds: float = 120.0) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every committed record, from the beginning to where each partition ends now."""
    found: list[tuple[int, int, bytes]] = []
    consumer = reader_of(bootstrap)
    try:
        # A leader that has just begun may not know yet how far its records are committed. It shows readers less than
        # there is, so the end of what they get is no end; but it says so to those who ask where the end is.
        ends = until(partial(ends_of, consumer, topic, partitions), f"where {topic} ends", seconds)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        ended: set[int] = set()

        def finished() -> bool:
            for record in consumer.consume(1000, 0.1):
                error, partition, offset = record.error(), record.partition(), record.offset()
                assert partition is not None
                assert offset is not None
                if error is None:
                    found.append((partition, offset, record.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF and offset >= ends[partition]:
                    ended.add(partition)
            return len(ended) == partitions

        until(finished, f"the end of {topic}", seconds)
    finally:
        consumer.close()
    return found


def ends_of(consumer: Consumer, topic: str, partitions: int) -> list[int]:
    """Where readers of committed records come to an end, partition by partition; nothing where a leader cannot tell."""
    try:
        bounds = [consumer.get_watermark_offsets(TopicPartition(topic, number), 10.0) for number in range(partitions)]
    except KafkaException:
        return []
    return [end for _, end in bounds]
