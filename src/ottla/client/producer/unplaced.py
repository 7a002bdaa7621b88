"""Records whose topic is not known yet.

Owns: keeping them, in order and for so long, until it is. Never knows: partitions, brokers. Invariants: their
deliveries lead to the batches they end up in; what they take of the buffer is given back when they leave.
"""

import asyncio
from collections.abc import Callable, Iterator

from ottla.client.errors import ClientError, DeadlineExceeded
from ottla.client.producer.accumulator import Accumulator, PartitionQueue
from ottla.client.producer.delivery import Delivery, ProducerBatch, Row
from ottla.client.producer.topics import Topics

Place = Callable[[str, Row, int | None], Delivery]
"""Puts a record of a topic that is known into a batch."""


class _Unplaced:
    """Those of one topic, in a batch that never travels."""

    __slots__ = ("batch", "partitions", "timer")

    def __init__(self, topic: str, now: float, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.batch = ProducerBatch(PartitionQueue(topic, -1), now, 0)
        self.partitions: list[int | None] = []

    def records(self) -> Iterator[tuple[Row, int | None]]:
        return zip(self.batch.rows, self.partitions, strict=True)

    def failed(self, timestamp: int, failure: ClientError) -> ProducerBatch:
        """An outcome for a record that no batch takes."""
        batch = ProducerBatch(self.batch.queue, self.batch.created, 0)
        batch.rows = [(0, timestamp, None, None, ())]
        batch.fail(failure)
        return batch


class Lobby:
    """Where they wait; `failed` hears of the ends that were no good, with the number of records."""

    def __init__(
        self,
        accumulator: Accumulator,
        topics: Topics,
        seconds: float,
        place: Place,
        failed: Callable[[ClientError, int], None],
    ) -> None:
        self._accumulator = accumulator
        self._topics = topics
        self._seconds = seconds
        self._place = place
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, _Unplaced] = {}

    def add(self, topic: str, row: Row, size: int, partition: int | None) -> Delivery:
        """Keep a record until its topic is known."""
        unplaced = self._waiting.get(topic)
        if unplaced is None:
            timer = self._loop.call_later(self._seconds, self._give_up, topic, None)
            unplaced = self._waiting[topic] = _Unplaced(topic, self._loop.time(), timer)
            self._accumulator.unsettled += 1
            self._topics.want(topic)
        self._accumulator.free -= size
        batch = unplaced.batch
        batch.rows.append(row)
        batch.size += size
        unplaced.partitions.append(partition)
        return Delivery(batch, len(batch.rows) - 1)

    def batches(self) -> list[ProducerBatch]:
        """What waits here."""
        return [unplaced.batch for unplaced in self._waiting.values()]

    def learned(self) -> None:
        """There is news of topics."""
        for topic in list(self._waiting):
            failure = self._topics.failures.get(topic)
            if topic in self._topics.routes:
                self._place_all(topic)
            elif failure is not None and not failure.retriable:
                self._give_up(topic, failure)

    def clear(self, failure: ClientError) -> None:
        """Nobody waits any longer."""
        for topic in list(self._waiting):
            self._give_up(topic, failure)

    def _place_all(self, topic: str) -> None:
        unplaced = self._leave(topic)
        places: list[tuple[ProducerBatch, int]] = []
        for row, partition in unplaced.records():
            try:
                places.append(self._place(topic, row, partition).place)
            except ClientError as failure:
                self._failed(failure, 1)
                places.append((unplaced.failed(row[1], failure), 0))
        unplaced.batch.move(places)

    def _give_up(self, topic: str, failure: ClientError | None) -> None:
        """The topic is not there in time, or never will be."""
        batch = self._leave(topic).batch
        failure = failure or self._topics.failures.get(topic)
        failure = failure or DeadlineExceeded(f"topic {topic!r} is not known after {self._seconds:g} seconds")
        self._topics.forget(topic)
        count = len(batch.rows)
        batch.fail(failure)
        self._failed(failure, count)

    def _leave(self, topic: str) -> _Unplaced:
        unplaced = self._waiting.pop(topic)
        unplaced.timer.cancel()
        self._accumulator.free += unplaced.batch.size
        self._accumulator.unsettled -= 1
        return unplaced
