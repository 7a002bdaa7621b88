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
from typing import Any, NamedTuple, TypeAlias

from ottla.client.blocking.background import Background
from ottla.client.errors import BufferFull, ClientError, DeadlineExceeded, fresh
from ottla.client.producer import Placed, Producer, Record

MOST_RECORDS = 10_000
MOST_BYTES = 4 * 1024 * 1024
_UNKNOWN_SIZE = 100
"""What an object counts for whose size only its serializer knows."""

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
            if not self.done():
                self._callbacks = [*(self._callbacks or ()), callback]
                return
        callback(self._placed, self._failure)

    def settle(self, placed: Placed | None, failure: ClientError | None) -> None:
        """Called by the producer, once."""
        self._placed, self._failure = placed, failure
        if self._gate.waiting:
            self._gate.open()
        with self._gate.lock:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(placed, failure)


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


class _Entry(NamedTuple):
    record: Record
    size: int
    delivery: Delivery


class Inbox:
    """The queue of one producer."""

    def __init__(self, background: Background, producer: Producer, block_seconds: float) -> None:
        self._background = background
        self._producer = producer
        self._block_seconds = block_seconds
        self._gate = Gate()
        self._entries: deque[_Entry] = deque()
        self._size = 0
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
            self._entries.append(_Entry(record, size, delivery))
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
            raise DeadlineExceeded(f"{len(self._entries)} records wait for room") from None

    def _has_room(self) -> bool:
        return len(self._entries) < MOST_RECORDS and self._size < MOST_BYTES

    # --- on the loop --------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._entries:
                    self._awake = False
                    break
                entry = self._entries.popleft()
                self._size -= entry.size
            try:
                sent = self._producer.send_record(entry.record)
            except BufferFull:
                waiting = self._background.loop.create_task(self._wait(entry))
                waiting.add_done_callback(lambda _: self._drain())
                return
            except ClientError as failure:
                entry.delivery.settle(None, failure)
                continue
            sent.add_callback(entry.delivery.settle)
        if self._gate.waiting:
            self._gate.open()
        waiters, self._emptied = self._emptied, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self, entry: _Entry) -> None:
        if self._gate.waiting:
            self._gate.open()
        topic, value, key, partition, timestamp, headers = entry.record
        try:
            sent = await self._producer.put(
                topic, value, key, partition=partition, timestamp=timestamp, headers=headers
            )
        except ClientError as failure:
            entry.delivery.settle(None, failure)
        except asyncio.CancelledError:
            entry.delivery.settle(None, BufferFull("the producer was closed before there was room"))
            raise
        else:
            sent.add_callback(entry.delivery.settle)


def _size_of(record: Record) -> int:
    size = 0
    for part in (record.key, record.value):
        size += len(part) if isinstance(part, bytes | bytearray | memoryview | str) else _UNKNOWN_SIZE
    return size
