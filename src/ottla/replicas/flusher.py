"""Bringing appended records to the disk, in threads.

Owns: which logs are being flushed and who waits for it. Never knows: how a log flushes. Invariants: one flush of a
log at a time; whoever asks during a flush is served by the next one, together with all others who asked meanwhile
(group commit); a failed flush is told to everyone who waited for it.
"""

import logging
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.log.flushing import FlushTicket
from ottla.net.request_times import Times
from ottla.replicas.partitions import Partition
from ottla.replicas.waits import Countdown, first_error

logger = logging.getLogger("ottla.broker")
OnFlushed = Callable[[ErrorCode], None]


class Flusher:
    """All flushes of a broker."""

    def __init__(self, loop: AbstractEventLoop, threads: Executor, failed: Callable[[StorageFailure], None]) -> None:
        self._loop = loop
        self._threads = threads
        self._failed = failed
        self._running: dict[Partition, list[Countdown[Partition]]] = {}
        self._next: dict[Partition, list[Countdown[Partition]]] = {}
        self.times = Times("flush")
        """How long flushes took, the wait for a thread included."""

    def when_flushed(self, partitions: Sequence[Partition], told: OnFlushed) -> None:
        """Flush these; `told` hears the outcome on the loop when everything appended until now is durable."""
        waiter = Countdown(partitions, lambda errors: told(first_error(errors.values())))
        for partition in dict.fromkeys(partitions):
            if partition in self._running:
                self._next.setdefault(partition, []).append(waiter)
            else:
                self._start(partition, [waiter])

    def flush(self, partition: Partition, sealed_only: bool = False) -> None:
        """Flush in the background, unless that is under way; `sealed_only` leaves the active segment to the system."""
        if partition not in self._running:
            self._start(partition, [], sealed_only)

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def _start(self, partition: Partition, waiters: list[Countdown[Partition]], sealed_only: bool = False) -> None:
        log = partition.log
        if log is None:
            self._settle(partition, waiters, StorageFailure(str(partition), 0, "the directory is offline"))
            return
        try:
            ticket = log.begin_flush(sealed_only=sealed_only)
        except StorageFailure as failure:
            self._settle(partition, waiters, failure)
            return
        if ticket is None:
            self._settle(partition, waiters, None)
            return
        self._running[partition] = waiters
        begun = self._loop.time()
        future = self._threads.submit(ticket.run)
        future.add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(self._finish, partition, ticket, begun, done)
        )

    def _finish(self, partition: Partition, ticket: FlushTicket, begun: float, done: "Future[None]") -> None:
        self.times.add(self._loop.time() - begun)
        waiters = self._running.pop(partition)
        problem = done.exception()
        if problem is None and partition.log is not None:
            partition.log.finish_flush(ticket)
        elif problem is not None and not isinstance(problem, StorageFailure):
            logger.error("flushing %s failed", partition, exc_info=problem)
            problem = StorageFailure(ticket.directory, 0, str(problem))
        self._settle(partition, waiters, problem)
        following = self._next.pop(partition, None)
        if following:
            self._start(partition, following)

    def _settle(
        self, partition: Partition, waiters: list[Countdown[Partition]], problem: StorageFailure | None
    ) -> None:
        if problem is not None:
            self._failed(problem)
        for waiter in waiters:
            waiter.arrived(partition, ErrorCode.NONE if problem is None else ErrorCode.KAFKA_STORAGE_ERROR)
