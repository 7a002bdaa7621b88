"""Ends of transactions on their way to the partitions that must know of them.

Owns: the order and pace: one transaction after another, for a slice of time, then others have their turn; which broker
is to write which markers; what fails for now is tried again, for ever, with whoever leads the partition by then. Never
knows: who decides. Invariants: a transaction is completed once, after every partition that still exists has its marker,
committed, and on the disk where its log flushes every message.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.base.ports import Clock
from ottla.base.vocabulary import TopicPartition
from ottla.log.producers import EndMarker
from ottla.replicas.partitions import Partition
from ottla.replicas.waits import Countdown

logger = logging.getLogger("ottla.transactions")

SLICE_SECONDS = 0.002
FIRST_RETRY_SECONDS = 0.03
RETRY_SECONDS = 1.0
"""The longest pause."""
LOUD_TRY = 6
"""The try at which a failure is logged: no election takes this many."""
_SETTLED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""The partition knows a later end, or a later coordinator: there is nothing left to tell it."""


class Loop(Protocol):
    """What is needed of the event loop."""

    def call_soon(self, callback: Callable[[], object], /) -> asyncio.Handle: ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle: ...


class MarkerContext(Protocol):
    """What the queue needs of its broker."""

    @property
    def node_id(self) -> int: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def loop(self) -> Loop: ...


class Markers(Protocol):
    """How markers get to the partitions, on this broker or another."""

    def leader_of(self, name: TopicPartition, /) -> int | None:
        """The broker that leads it; negative: nobody for now; None: it does not exist any more."""
        ...

    def write(self, name: TopicPartition, marker: EndMarker, /) -> Partition | ErrorCode:
        """Append the marker to a partition that is led here."""
        ...

    def send(
        self,
        broker_id: int,
        marker: EndMarker,
        names: Sequence[TopicPartition],
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
        /,
    ) -> None:
        """Have another broker append it; `done` hears of the partitions where that failed."""
        ...

    def when_safe(self, places: Sequence[tuple[Partition, int]], done: Callable[[ErrorCode], None], /) -> None:
        """`done` hears when the partitions are committed up to their offsets."""
        ...


class PendingMarkers:
    """One transaction and the partitions that are still to be told."""

    __slots__ = ("elsewhere", "failed", "left", "marker", "name", "tries", "written")

    def __init__(self, name: str, marker: EndMarker, partitions: Sequence[TopicPartition]) -> None:
        self.name = name
        self.marker = marker
        self.left = list(partitions)
        self.failed: list[TopicPartition] = []
        self.written: list[tuple[Partition, int]] = []
        """Partitions that have it, and what must be committed there."""
        self.elsewhere: dict[int, list[TopicPartition]] = {}
        self.tries = 0


class MarkerQueue:
    """Markers that one shard of the transaction coordinator still has to have written."""

    def __init__(self, context: MarkerContext, markers: Markers, complete: Callable[[str], bool]) -> None:
        self._context = context
        self._markers = markers
        self._complete = complete
        self._queue: list[PendingMarkers] = []
        self._handle: asyncio.Handle | None = None
        self._retries: set[asyncio.TimerHandle] = set()
        self._stopped = False

    def add(self, ending: PendingMarkers) -> None:
        """Most ends are told on the spot, before their client can ask for more."""
        if self._stopped:
            return
        self._queue.append(ending)
        if len(self._queue) == 1 and self._handle is None:
            self._work()

    def _work(self) -> None:
        self._handle = None
        clock = self._context.clock
        until = clock.monotonic() + SLICE_SECONDS
        while self._queue and not self._stopped:
            ending = self._queue[0]
            while ending.left:
                self._tell(ending, ending.left.pop())
                if self._stopped:
                    # The disk that did not take the marker also held the coordinator's own log.
                    return
                if ending.left and clock.monotonic() >= until:
                    self._handle = self._context.loop.call_soon(self._work)
                    return
            del self._queue[0]
            self._send(ending)
            if self._queue and clock.monotonic() >= until:
                self._handle = self._context.loop.call_soon(self._work)
                return

    def _tell(self, ending: PendingMarkers, name: TopicPartition) -> None:
        leader = self._markers.leader_of(name)
        if leader == self._context.node_id:
            outcome = self._markers.write(name, ending.marker)
            if isinstance(outcome, Partition):
                assert outcome.log is not None, name
                ending.written.append((outcome, outcome.log.end_offset))
            else:
                self._failed(ending, name, outcome)
        elif leader is None:
            self._failed(ending, name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif leader < 0:
            self._failed(ending, name, ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            ending.elsewhere.setdefault(leader, []).append(name)

    def _failed(self, ending: PendingMarkers, name: TopicPartition, error: ErrorCode) -> None:
        gone = error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._markers.leader_of(name) is None
        if gone or error in _SETTLED:
            logger.info("%s needs no end of transaction %s: %s", name, ending.name, error.name)
            return
        if ending.tries == LOUD_TRY:
            logger.warning("the end of transaction %s still waits for %s: %s", ending.name, name, error.name)
        ending.failed.append(name)

    def _send(self, ending: PendingMarkers) -> None:
        """What is written here becomes safe; the other brokers are asked."""
        written, ending.written = ending.written, []
        elsewhere, ending.elsewhere = ending.elsewhere, {}
        here = self._context.node_id
        told = Countdown((here, *elsewhere), lambda _: self._all_told(ending))
        for broker_id, names in elsewhere.items():
            self._markers.send(broker_id, ending.marker, names, partial(self._answered, ending, told, broker_id))
        if written:
            self._markers.when_safe(written, partial(self._safe, ending, told, written))
        else:
            self._answered(ending, told, here, {})

    def _safe(
        self,
        ending: PendingMarkers,
        told: Countdown[int],
        written: Sequence[tuple[Partition, int]],
        error: ErrorCode,
    ) -> None:
        # A marker that is there twice does no harm.
        failed = written if error != ErrorCode.NONE else ()
        self._answered(ending, told, self._context.node_id, {partition.name: error for partition, _ in failed})

    def _answered(
        self,
        ending: PendingMarkers,
        told: Countdown[int],
        broker_id: int,
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        if self._stopped:
            return
        for name, error in errors.items():
            self._failed(ending, name, error)
        told.arrived(broker_id)

    def _all_told(self, ending: PendingMarkers) -> None:
        if ending.failed or not self._complete(ending.name):
            self._again(ending)

    def _again(self, ending: PendingMarkers) -> None:
        def retry() -> None:
            self._retries.discard(handle)
            ending.left, ending.failed = ending.failed, []
            self.add(ending)

        pause = min(FIRST_RETRY_SECONDS * 2**ending.tries, RETRY_SECONDS)
        ending.tries += 1
        handle = self._context.loop.call_later(pause, retry)
        self._retries.add(handle)

    def stop(self) -> None:
        """Whoever coordinates next begins again from what is stored."""
        self._stopped = True
        self._queue.clear()
        if self._handle is not None:
            self._handle.cancel()
        for retry in self._retries:
            retry.cancel()
