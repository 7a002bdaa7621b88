"""Records gathered into batches, one queue a partition.

Owns: which record joins which batch, when a batch may leave, and cutting one in two. Never knows: brokers, requests,
bytes of batches. Invariants: within a partition batches leave in the order their records came; `buffered` is the sum
of the sizes of all batches that are not settled, in a queue or taken out of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeAlias

from ottla.base.vocabulary import TopicPartition
from ottla.records.record import Headers, Record

RECORD_OVERHEAD = 17
HEADER_OVERHEAD = 4
"""About what a record and a header add to their contents: lengths and deltas as variable-length numbers."""


Content: TypeAlias = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""


class Placed(NamedTuple):
    """Where the first record of a batch landed; offset -1 when the broker does not tell (acks=0)."""

    partition: TopicPartition
    offset: int
    log_append_time: int


class Batch:
    """Records that travel together."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "created",
        "data",
        "done",
        "halves",
        "not_before",
        "partition",
        "records",
        "size",
    )

    def __init__(self, partition: TopicPartition, created: float, done: "asyncio.Future[Placed]") -> None:
        self.partition = partition
        self.created = created
        self.done = done
        self.records: list[Record] = []
        self.size = 0
        self.attempts = 0
        self.not_before = 0.0
        self.base_sequence = -1
        self.data: bytearray | None = None
        """The bytes, once built: a repetition sends the very same ones."""
        self.halves: tuple[Batch, Batch] | None = None


class Delivery(NamedTuple):
    """One record on its way: the place in a batch."""

    batch: Batch
    position: int

    async def placed(self) -> Placed:
        """Where the record landed, once the broker has it; raises what made the delivery fail."""
        batch, position = self
        first = await asyncio.shield(batch.done)
        while batch.halves is not None:
            left, right = batch.halves
            if position < len(left.records):
                batch = left
            else:
                batch, position = right, position - len(left.records)
            first = await asyncio.shield(batch.done)
        return first._replace(offset=first.offset + position) if first.offset >= 0 else first


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """About the bytes a record takes in a batch, before compression."""
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += HEADER_OVERHEAD + len(name) + (len(content) if content else 0)
    return size


class Accumulator:
    """Times are the event loop's."""

    def __init__(self, batch_bytes: int, linger: float, new_future: "Callable[[], asyncio.Future[Placed]]") -> None:
        self.buffered = 0
        self.unsettled = 0
        self._batch_bytes = batch_bytes
        self._linger = linger
        self._new_future = new_future
        self._queues: dict[TopicPartition, deque[Batch]] = {}

    def add(
        self,
        partition: TopicPartition,
        size: int,
        timestamp: int,
        content: Content,
        now: float,
    ) -> tuple[Delivery, bool]:
        """Put a record of about `size` bytes behind the others; the flag says that it began or filled a batch."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        batch = queue[-1] if queue else None
        notable = False
        if batch is None or batch.data is not None or batch.attempts or batch.size + size > self._batch_bytes:
            batch = Batch(partition, now, self._new_future())
            queue.append(batch)
            self.unsettled += 1
            notable = True
        position = len(batch.records)
        batch.records.append(Record(position, timestamp, *content))
        batch.size += size
        self.buffered += size
        return Delivery(batch, position), notable or batch.size >= self._batch_bytes

    def ready(self, now: float, *, flushing: bool, busy: Collection[TopicPartition]) -> Iterator[Batch]:
        """The first batch of every partition whose first batch may leave now."""
        for partition, queue in self._queues.items():
            if queue and partition not in busy and self._leaves_at(queue, flushing) <= now:
                yield queue[0]

    def next_departure(self, *, flushing: bool, busy: Collection[TopicPartition]) -> float | None:
        """When the next batch may leave; None when none waits."""
        times = [
            self._leaves_at(queue, flushing)
            for partition, queue in self._queues.items()
            if queue and partition not in busy
        ]
        return min(times, default=None)

    def _leaves_at(self, queue: deque[Batch], flushing: bool) -> float:
        first = queue[0]
        if flushing or len(queue) > 1 or first.attempts or first.size >= self._batch_bytes:
            return first.not_before
        return max(first.not_before, first.created + self._linger)

    def take(self, batch: Batch) -> None:
        """The batch leaves its queue, whose first it is."""
        taken = self._queues[batch.partition].popleft()
        assert taken is batch

    def put_back(self, batch: Batch) -> None:
        """The batch did not arrive: it goes before all others of its partition."""
        self._queues[batch.partition].appendleft(batch)

    def split(self, batch: Batch) -> None:
        """Put the two halves of a batch, each a batch of its own, in the batch's place."""
        middle = len(batch.records) // 2
        assert middle > 0
        halves = []
        for records in (batch.records[:middle], batch.records[middle:]):
            half = Batch(batch.partition, batch.created, self._new_future())
            half.records = [record._replace(offset=index) for index, record in enumerate(records)]
            half.size = sum(record_size(record.key, record.value, record.headers) for record in records)
            halves.append(half)
        left, right = halves
        batch.halves = left, right
        batch.done.set_result(Placed(batch.partition, -1, -1))  # whoever waits goes on to its half
        queue = self._queues[batch.partition]
        queue.extendleft((right, left))
        self.unsettled += 1

    def settle(self, batch: Batch) -> None:
        """The batch arrived or failed for good."""
        self.buffered -= batch.size
        self.unsettled -= 1

    def expired(self, created_before: float) -> Iterator[Batch]:
        """Take out the waiting batches that are too old."""
        for queue in self._queues.values():
            while queue and queue[0].created < created_before:
                yield queue.popleft()
