"""Ends of transactions on their way to the partitions that must know of them.

Owns: the order and pace: one transaction after another, for a slice of time, then others have their turn; what fails
for now is tried again. Never knows: who decides. Invariants: a transaction is completed once, after every partition
that still exists has its marker, on the disk where its log flushes every message.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.base.ports import Clock
from ottla.base.vocabulary import TopicPartition
from ottla.broker.partitions import Partition
from ottla.log.producers import EndMarker

logger = logging.getLogger("ottla.transactions")

SLICE_SECONDS = 0.002
RETRY_SECONDS = 1.0
_SETTLED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)
"""The partition is gone, or knows a later end: there is nothing left to tell it."""


class Loop(Protocol):
    """What is needed of the event loop."""

    def call_soon(self, callback: Callable[[], object], /) -> asyncio.Handle: ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle: ...


class Flusher(Protocol):
    """What is needed of the flusher."""

    def when_flushed(self, partitions: Sequence[Partition], done: Callable[[ErrorCode], None], /) -> None: ...


class Surroundings(Protocol):
    """Where this works: a broker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def loop(self) -> Loop: ...

    @property
    def flusher(self) -> Flusher: ...


class Ending:
    """One transaction and the partitions that are still to be told."""

    __slots__ = ("failed", "left", "marker", "name", "unflushed")

    def __init__(self, name: str, marker: EndMarker, partitions: Sequence[TopicPartition]) -> None:
        self.name = name
        self.marker = marker
        self.left = list(partitions)
        self.failed: list[TopicPartition] = []
        self.unflushed: list[Partition] = []


class Endings:
    """See the module."""

    def __init__(
        self,
        broker: Surroundings,
        write: Callable[[TopicPartition, EndMarker], Partition | ErrorCode],
        complete: Callable[[str], bool],
    ) -> None:
        self._broker = broker
        self._write = write
        self._complete = complete
        self._queue: list[Ending] = []
        self._handle: asyncio.Handle | None = None
        self._retries: set[asyncio.TimerHandle] = set()
        self._stopped = False

    def add(self, ending: Ending) -> None:
        """Most ends are told on the spot, before their client can ask for more."""
        if self._stopped:
            return
        self._queue.append(ending)
        if len(self._queue) == 1 and self._handle is None:
            self._work()

    def _work(self) -> None:
        self._handle = None
        clock = self._broker.clock
        until = clock.monotonic() + SLICE_SECONDS
        while self._queue and not self._stopped:
            ending = self._queue[0]
            while ending.left:
                self._tell(ending, ending.left.pop())
                if ending.left and clock.monotonic() >= until:
                    self._handle = self._broker.loop.call_soon(self._work)
                    return
            del self._queue[0]
            self._told(ending)
            if self._queue and clock.monotonic() >= until:
                self._handle = self._broker.loop.call_soon(self._work)
                return

    def _tell(self, ending: Ending, name: TopicPartition) -> None:
        outcome = self._write(name, ending.marker)
        if isinstance(outcome, Partition):
            log = outcome.log
            if log is not None and log.unflushed_messages >= log.settings.flush_messages:
                ending.unflushed.append(outcome)
        elif outcome in _SETTLED:
            logger.info("%s needs no end of transaction %s: %s", name, ending.name, outcome.name)
        else:
            logger.warning("the end of transaction %s waits for %s: %s", ending.name, name, outcome.name)
            ending.failed.append(name)

    def _told(self, ending: Ending) -> None:
        if ending.unflushed:
            waiting, ending.unflushed = ending.unflushed, []
            self._broker.flusher.when_flushed(waiting, lambda error: self._flushed(ending, waiting, error))
        elif ending.failed or not self._complete(ending.name):
            self._again(ending)

    def _flushed(self, ending: Ending, partitions: Sequence[Partition], error: ErrorCode) -> None:
        if error != ErrorCode.NONE:
            # A marker that is there twice does no harm.
            ending.failed += [partition.name for partition in partitions]
        if not self._stopped:
            self._told(ending)

    def _again(self, ending: Ending) -> None:
        def retry() -> None:
            self._retries.discard(handle)
            ending.left, ending.failed = ending.failed, []
            self.add(ending)

        handle = self._broker.loop.call_later(RETRY_SECONDS, retry)
        self._retries.add(handle)

    def stop(self) -> None:
        """Whoever coordinates next begins again from what is stored."""
        self._stopped = True
        self._queue.clear()
        if self._handle is not None:
            self._handle.cancel()
        for retry in self._retries:
            retry.cancel()
