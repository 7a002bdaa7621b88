"""Records whose topic is not known yet.

Owns: keeping them in order until it is. Never knows: partitions, brokers. Invariant: their deliveries lead to the
batches they end up in.
"""

import asyncio
from collections.abc import Iterator

from ottla.client.errors import ClientError
from ottla.client.producer.accumulator import PartitionQueue
from ottla.client.producer.delivery import Batch, Delivery, Row


class Unplaced:
    """Those of one topic, in a batch that never travels."""

    __slots__ = ("_partitions", "batch", "timer", "topic")

    def __init__(self, topic: str, now: float, timer: asyncio.TimerHandle) -> None:
        self.topic = topic
        self.timer = timer
        self.batch = Batch(PartitionQueue(topic, -1), now, 0)
        self._partitions: list[int | None] = []

    def add(self, row: Row, size: int, partition: int | None) -> Delivery:
        self.batch.rows.append(row)
        self.batch.size += size
        self._partitions.append(partition)
        return Delivery(self.batch, len(self._partitions) - 1)

    def records(self) -> Iterator[tuple[Row, int | None]]:
        return zip(self.batch.rows, self._partitions, strict=True)

    def failed(self, timestamp: int, failure: ClientError) -> Batch:
        """An outcome for a record that no batch takes."""
        batch = Batch(self.batch.queue, self.batch.created, 0)
        batch.rows = [(0, timestamp, None, None, ())]
        batch.fail(failure)
        return batch
