"""Records gathered into batches, one queue a partition.

Owns: the queues, the memory they may take, when a batch may leave, and taking one apart. Never knows: brokers,
requests, the event loop; times are numbers it is given. Invariants: in a queue batches stand in the order of their
records, also those that came back; `free` is the buffer's size without all batches that are not settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.client.producer.delivery import NO_SEQUENCE, ProducerBatch, Row
from ottla.records.header import next_sequence
from ottla.records.record import Headers

RECORD_OVERHEAD = 12
HEADER_OVERHEAD = 4
BATCH_OVERHEAD = 61
"""About what a record and a header add to their contents, and exactly what a batch adds."""

NO_IDENTITY = (-1, -1)

BETWEEN_BATCHES = 1 << 24
"""How far apart two batches' order numbers are: more than any batch has records, so that its parts fit between."""


class BufferLimits(NamedTuple):
    """Bytes and seconds."""

    batch_bytes: int
    buffer_bytes: int
    linger: float
    delivery: float


class PartitionQueue:
    """The batches of one partition, and how far its sequence numbers are."""

    __slots__ = (
        "flying",
        "identity",
        "joined",
        "last",
        "last_acked",
        "leader",
        "next_sequence",
        "number",
        "open",
        "partition",
        "restart",
        "stuck_since",
        "topic",
        "unresolved",
        "used",
        "waiting",
    )

    def __init__(self, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.partition = TopicPartition(topic, number)
        self.leader = -1
        self.waiting: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        """The last of the waiting ones, while it takes records."""
        self.flying: list[ProducerBatch] = []
        self.last: ProducerBatch | None = None
        """The one that began last, wherever it is by now."""
        self.joined = False
        """Whether the open transaction's coordinator knows of this partition."""
        self.stuck_since: float | None = None
        """Since when a batch could have left but its broker took none."""
        self.used = 0.0
        """When its last batch began."""
        self.identity = NO_IDENTITY
        self.next_sequence = 0
        self.last_acked = NO_SEQUENCE
        self.unresolved = False
        """A batch failed of which nobody knows whether it was written."""
        self.restart = False
        """Sequence numbers begin anew, under another epoch, as soon as nothing is on its way."""

    def put_back(self, batch: ProducerBatch) -> None:
        """A batch that did not arrive goes where its records belong: before all later ones."""
        waiting = self.waiting
        place = 0
        for each in waiting:
            if each.order > batch.order:
                break
            place += 1
        waiting.insert(place, batch)


def content_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """About the bytes a record takes in a batch, before compression."""
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += HEADER_OVERHEAD + len(name) + (len(content) if content else 0)
    return size


class Accumulator:
    """All queues of a producer."""

    def __init__(self, limits: BufferLimits) -> None:
        self.limits = limits
        self.free = limits.buffer_bytes
        self.unsettled = 0
        self.active: dict[PartitionQueue, None] = {}
        """Queues in which something waits, the longest unserved first."""
        self._order = 0

    @property
    def behind_last(self) -> int:
        """An order number that is above all there are and below all that will be."""
        return self._order + BETWEEN_BATCHES - 1

    def begin(self, queue: PartitionQueue, now: float) -> ProducerBatch:
        """A new batch at the end of a queue that takes the records to come."""
        self.close(queue)
        self._order += BETWEEN_BATCHES
        batch = ProducerBatch(queue, now, self._order)
        queue.open = batch
        self._append(batch)
        return batch

    def add_made(self, queue: PartitionQueue, now: float, data: bytearray, count: int) -> ProducerBatch:
        """A batch that was made elsewhere, at the end of a queue."""
        self.close(queue)
        self._order += BETWEEN_BATCHES
        batch = ProducerBatch(queue, now, self._order)
        batch.data = data
        batch.count = count
        batch.size = len(data)
        self.free -= batch.size
        self._append(batch)
        return batch

    def _append(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        queue.used = batch.created
        queue.last = batch
        queue.waiting.append(batch)
        self.active[queue] = None
        self.unsettled += 1

    def close(self, queue: PartitionQueue) -> None:
        """The queue's last batch takes no more records."""
        batch = queue.open
        if batch is not None:
            batch.count = len(batch.rows)
            queue.open = None

    def leaves_at(self, queue: PartitionQueue, *, hurry: bool) -> float:
        """When the first batch of a queue may leave."""
        first = queue.waiting[0]
        if hurry or queue.open is not first or first.size >= self.limits.batch_bytes:
            return first.not_before
        return first.created + self.limits.linger

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """The first batch leaves its queue."""
        batch = queue.waiting[0]
        if queue.open is batch:
            self.close(queue)
        queue.waiting.popleft()
        del self.active[queue]
        if queue.waiting:
            self.active[queue] = None
        return batch

    def put_back(self, batch: ProducerBatch) -> None:
        batch.queue.put_back(batch)
        self.active[batch.queue] = None

    def settled(self, batch: ProducerBatch) -> None:
        """A batch has its outcome: its memory is free again."""
        self.free += batch.size
        self.unsettled -= 1

    def split(self, batch: ProducerBatch, rows: list[Row]) -> tuple[ProducerBatch, ProducerBatch]:
        """The two halves of a batch, in its place in the queue."""
        middle = len(rows) // 2
        assert middle > 0
        halves: list[ProducerBatch] = []
        sequence = batch.base_sequence
        for part in (rows[:middle], rows[middle:]):
            half = ProducerBatch(batch.queue, batch.created, batch.order + (middle if halves else 0))
            half.rows = [(index, *row[1:]) for index, row in enumerate(part)]
            half.count = len(part)
            half.size = sum(content_size(row[2], row[3], row[4]) for row in part)
            half.attempts = 1
            half.doubtful = batch.doubtful
            half.identity = batch.identity
            half.base_sequence = sequence
            if sequence != NO_SEQUENCE:
                sequence = next_sequence(sequence, half.count)
            halves.append(half)
        left, right = halves
        self.unsettled += 1
        self.free += batch.size - left.size - right.size
        queue = batch.queue
        queue.put_back(right)
        queue.put_back(left)
        self.active[queue] = None
        places = [(left, index) for index in range(left.count)] + [(right, index) for index in range(right.count)]
        batch.move(places)
        return left, right

    def expired(self, now: float) -> Iterator[ProducerBatch]:
        """Take out the waiting batches that are too old."""
        horizon = now - self.limits.delivery
        for queue in list(self.active):
            while queue.waiting and queue.waiting[0].created <= horizon:
                yield self.take(queue)

    def take_all(self) -> Iterator[ProducerBatch]:
        """Take out everything that waits."""
        for queue in list(self.active):
            while queue.waiting:
                yield self.take(queue)
