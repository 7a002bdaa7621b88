"""Records on their way from a program's threads to the producer's event loop.

Owns: the bounded queue between the two, its order, and what a thread holds of a record it has sent. Never knows:
batches, requests. Invariants: records enter the producer in the order in which `put` or `offer` took them; the loop is
woken once for many records, not once for each; what waits here is bounded in bytes and in number.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.client.blocking.background import Background
from ottla.client.errors import BufferFull, ClientClosed, ClientError, DeadlineExceeded, fresh
from ottla.client.producer import Placed, Producer, Record

MOST_RECORDS = 10_000
MOST_BYTES = 4 * 1024 * 1024
_UNKNOWN_SIZE = 100
"""What an object counts for whose size only its serializer knows."""

_Entry: TypeAlias = "tuple[Record, Delivery, int]"
"""A record, what its sender holds of it, and its size."""
Callback: TypeAlias = Callable[[Placed | None, ClientError | None], Any]


class Delivery:
    """One record on its way: wait for its place with `result`, give it a callback, or forget it."""

    __slots__ = ("_callbacks", "_failure", "_gate", "_placed")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._placed: Placed | None = None
        self._failure: ClientError | None = None
        self._callbacks: list[Callback] | None = None

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self._placed is not None or self._failure is not None

    def result(self, seconds: float | None = None) -> Placed:
        """Where the record landed; raises what made it fail, DeadlineExceeded when that is not known in time."""
        if not self._gate.wait(self.done, seconds):
            raise DeadlineExceeded("the outcome of a record")
        if self._failure is not None:
            raise fresh(self._failure)
        assert self._placed is not None
        return self._placed

    def add_callback(self, callback: Callback) -> None:
        """`callback(placed, None)` or `callback(None, error)`, once, on the client's thread, which it must not hold up.

        When the outcome is there already it is called at once.
        """
        with self._gate.lock:
            self._callbacks = [*(self._callbacks or ()), callback]
        if self.done():
            self._call()

    def settle(self, placed: Placed | None, failure: ClientError | None) -> None:
        """Called by the producer, once."""
        self._placed, self._failure = placed, failure
        if self._gate.waiting:
            self._gate.open()
        if self._callbacks is not None:
            self._call()

    def _call(self) -> None:
        """Whoever comes second of outcome and callback finds both; the lock hands each callback to one of them."""
        with self._gate.lock:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self._placed, self._failure)


class Gate:
    """Where threads wait for deliveries and for room: one for a producer, so that a record costs no lock of its own."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.waiting = 0

    def wait(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        """Whether the condition came true in time. It must come true before `open` is called."""
        if condition():
            return True
        with self.lock:
            self.waiting += 1
            try:
                return self.lock.wait_for(condition, seconds)
            finally:
                self.waiting -= 1

    def open(self) -> None:
        with self.lock:
            self.lock.notify_all()


class Inbox:
    """The queue of one producer."""

    def __init__(self, background: Background, producer: Producer, block_seconds: float) -> None:
        self._background = background
        self._producer = producer
        self._block_seconds = block_seconds
        self._gate = Gate()
        self._entries: deque[_Entry] = deque()
        """What threads have put; they and the loop hold the lock for it."""
        self._taken: deque[_Entry] = deque()
        """What the loop has taken and works on."""
        self._count = 0
        self._size = 0
        self._left = 0
        """Bytes of what has left since the last look; the loop's alone."""
        self._lock = threading.Lock()
        self._awake = False
        self._emptied: list[asyncio.Future[None]] = []

    def offer(self, record: Record) -> Delivery:
        """Take a record, or raise BufferFull."""
        size = _size_of(record)
        delivery = Delivery(self._gate)
        with self._lock:
            if not self._has_room():
                raise BufferFull("records are sent faster than they are acknowledged; `put` waits for room")
            self._entries.append((record, delivery, size))
            self._count += 1
            self._size += size
            asleep, self._awake = not self._awake, True
        if asleep:
            self._background.soon(self._drain)
        return delivery

    def put(self, record: Record) -> Delivery:
        """Take a record once there is room; BufferFull after `max.block.ms`."""
        end = time.monotonic() + self._block_seconds
        while True:
            try:
                return self.offer(record)
            except BufferFull:
                if not self._gate.wait(self._has_room, end - time.monotonic()):
                    raise

    async def emptied(self, seconds: float | None = None) -> None:
        """Until everything taken so far is in the producer, or DeadlineExceeded; on the loop."""
        if not self._awake:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._emptied.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            raise DeadlineExceeded(f"{self._count} records wait for room") from None

    def _has_room(self) -> bool:
        return self._count < MOST_RECORDS and self._size < MOST_BYTES

    # --- on the loop --------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        send = self._producer.send_record
        while self._take():
            taken = self._taken
            while taken:
                record, delivery, _ = taken[0]
                try:
                    sent = send(record)
                except BufferFull:
                    waiting = self._background.loop.create_task(self._wait(record, delivery))
                    waiting.add_done_callback(self._waited)
                    return
                except ClientError as failure:
                    delivery.settle(None, failure)
                else:
                    sent.add_callback(delivery.settle)
                self._leave()
        waiters, self._emptied = self._emptied, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _take(self) -> bool:
        """Whether there is something to work on; else the next record wakes the loop."""
        if self._taken:
            return True
        with self._lock:
            self._count, self._size = len(self._entries), self._size - self._left
            self._left = 0
            self._awake = bool(self._entries)
            self._taken, self._entries = self._entries, self._taken
        if self._gate.waiting:
            self._gate.open()
        return self._awake

    def _leave(self) -> None:
        """The first of those taken is in the producer; its room is given back with that of the others."""
        self._left += self._taken.popleft()[2]

    def _waited(self, _: asyncio.Task[None]) -> None:
        self._leave()
        self._drain()

    async def _wait(self, record: Record, delivery: Delivery) -> None:
        topic, value, key, partition, timestamp, headers = record
        try:
            sent = await self._producer.put(
                topic, value, key, partition=partition, timestamp=timestamp, headers=headers
            )
        except ClientError as failure:
            delivery.settle(None, failure)
        except asyncio.CancelledError:
            delivery.settle(None, ClientClosed("the client ended before there was room"))
            raise
        else:
            sent.add_callback(delivery.settle)


def _size_of(record: Record) -> int:
    size = 0
    for part in (record.key, record.value):
        size += len(part) if isinstance(part, bytes | bytearray | memoryview | str) else _UNKNOWN_SIZE
    return size
