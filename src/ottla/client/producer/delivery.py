"""Records that travel together, and what their senders hold of them.

Owns: a batch's life from its first record to its outcome, and telling everybody who waits for it. Never knows: brokers,
requests, when a batch leaves. Invariants: a batch is settled once; whoever awaits a delivery costs one future, whoever
does not costs none; a batch whose records moved on into others leads there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.client.errors import ClientError, fresh
from ottla.client.producer.record import Placed
from ottla.records.record import Headers

if TYPE_CHECKING:
    from ottla.client.producer.accumulator import PartitionQueue

Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
"""A record in a batch: its position, timestamp, key, value and headers."""
Callback: TypeAlias = Callable[[Placed | None, ClientError | None], Any]
"""Called once: with the place, or with what went wrong."""

NO_SEQUENCE = -1


class ProducerBatch:
    """Records of one partition that travel together."""

    __slots__ = (
        "append_time",
        "attempts",
        "base_sequence",
        "callbacks",
        "count",
        "created",
        "data",
        "done",
        "doubtful",
        "failure",
        "identity",
        "moved",
        "not_before",
        "offset",
        "order",
        "queue",
        "rows",
        "size",
        "timestamps",
        "waiters",
    )

    def __init__(self, queue: PartitionQueue, created: float, order: int) -> None:
        self.queue = queue
        self.created = created
        self.order = order
        """Batches of a partition in the order of their records, whatever happens to them."""
        self.rows: list[Row] = []
        self.count = 0
        """How many records, once it is closed."""
        self.size = 0
        self.data: bytearray | None = None
        self.timestamps: Sequence[int] = ()
        """What is kept of the records after the end."""
        self.attempts = 0
        self.doubtful = False
        """It was sent, and whether it was written nobody said."""
        self.not_before = 0.0
        self.identity = (-1, -1)
        self.base_sequence = NO_SEQUENCE
        self.done = False
        self.offset = -1
        self.append_time = -1
        self.failure: ClientError | None = None
        self.moved: list[tuple[ProducerBatch, int]] | None = None
        """Where each record went when this batch was taken apart."""
        self.waiters: list[asyncio.Future[None]] = []
        self.callbacks: list[tuple[int, Callback]] = []

    def succeed(self, offset: int, append_time: int) -> None:
        self.offset, self.append_time = offset, append_time
        self._settle()

    def fail(self, failure: ClientError) -> None:
        self.failure = failure
        self._settle()

    def move(self, places: list[tuple[ProducerBatch, int]]) -> None:
        """Its records are in other batches from now on."""
        self.moved = places
        for position, callback in self.callbacks:
            batch, place = places[position]
            batch.call(place, callback)
        self.callbacks = []
        self._wake()

    def call(self, position: int, callback: Callback) -> None:
        """Call when the record at `position` has its outcome; at once when it has."""
        if self.done:
            self._tell(position, callback)
        else:
            self.callbacks.append((position, callback))

    def placed(self, position: int) -> Placed:
        """Where a record is; raises what made its delivery fail."""
        if self.failure is not None:
            raise fresh(self.failure)
        timestamp = self.append_time
        if timestamp < 0 and self.timestamps:
            timestamp = self.timestamps[position]
        offset = self.offset + position if self.offset >= 0 else -1
        return Placed(self.queue.topic, self.queue.number, offset, timestamp)

    def _settle(self) -> None:
        assert not self.done, "a batch has one outcome"
        self.done = True
        if self.rows:
            self.timestamps = [row[1] for row in self.rows]
        self.rows = []
        self.data = None
        callbacks, self.callbacks = self.callbacks, []
        for position, callback in callbacks:
            self._tell(position, callback)
        self._wake()

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tell(self, position: int, callback: Callback) -> None:
        try:
            callback(None if self.failure is not None else self.placed(position), self.failure)
        except Exception as problem:  # one caller's mistake must not keep the others' records from ending
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "a delivery callback failed", "exception": problem})


class Delivery:
    """One record on its way. Await it for its place, give it a callback, or forget it."""

    __slots__ = ("_batch", "_position")

    def __init__(self, batch: ProducerBatch, position: int) -> None:
        self._batch = batch
        self._position = position

    def __await__(self) -> Generator[Any, None, Placed]:
        while True:
            batch = self._arrived()
            if batch.done:
                return batch.placed(self._position)
            waiter = asyncio.get_running_loop().create_future()
            batch.waiters.append(waiter)
            yield from waiter

    @property
    def place(self) -> tuple[ProducerBatch, int]:
        """The batch that the record is in and its position there."""
        return self._arrived(), self._position

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self._arrived().done

    def result(self) -> Placed:
        """Where the record landed; raises what made it fail, and InvalidStateError while nobody knows."""
        batch = self._arrived()
        if not batch.done:
            raise asyncio.InvalidStateError("the record is still on its way")
        return batch.placed(self._position)

    def add_callback(self, callback: Callback) -> None:
        """`callback(placed, None)` or `callback(None, error)`, once, on the event loop."""
        self._arrived().call(self._position, callback)

    def _arrived(self) -> ProducerBatch:
        """The batch that the record is in by now."""
        batch = self._batch
        while batch.moved is not None:
            batch, self._position = batch.moved[self._position]
            self._batch = batch
        return batch
