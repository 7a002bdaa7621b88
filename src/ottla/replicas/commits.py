"""Waiting until records are committed: until every replica that counts has them.

Owns: the wait of one answer for several partitions, its deadline, and the flush before it where a log flushes every
message. Never knows: what is answered. Invariants: `done` is called exactly once, unless the wait is forgotten; where
nothing has to be waited for, at once and without a timer.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence

from ottla.base.errors import ErrorCode
from ottla.replicas.flusher import Flusher
from ottla.replicas.partitions import Partition
from ottla.replicas.waits import Countdown, first_error

Errors = dict[Partition, ErrorCode]


def await_commits(
    loop: AbstractEventLoop, wanted: Sequence[tuple[Partition, int]], done: Callable[[Errors], None], seconds: float
) -> Countdown[Partition]:
    """`done` hears which of these partitions failed, when all have committed these offsets or the time is over."""
    highest: dict[Partition, int] = {}
    for partition, offset in wanted:
        highest[partition] = max(offset, highest.get(partition, offset))
    countdown = Countdown(highest, done)
    arrived = countdown.arrived
    countdown.within(loop, seconds, lambda partition: partition.forget_commit(arrived))
    for partition, offset in highest.items():
        partition.when_committed(offset, arrived)
    return countdown


def missing(wanted: Sequence[tuple[Partition, int]]) -> list[tuple[Partition, int]]:
    """Those whose high watermark is below the offset."""
    return [
        (partition, offset)
        for partition, offset in wanted
        if partition.log is None or not partition.leads or partition.log.high_watermark < offset
    ]


class Commits:
    """Answers of one broker that wait until something is committed, flushed before that where a log asks for it."""

    def __init__(self, loop: AbstractEventLoop, flusher: Flusher) -> None:
        self.loop = loop
        self._flusher = flusher

    def when_committed(
        self, wanted: Sequence[tuple[Partition, int]], done: Callable[[ErrorCode], None], seconds: float
    ) -> None:
        """Call `done` when the watermark of each partition is at the offset that goes with it (that after the last
        record).

        It hears NOT_LEADER_OR_FOLLOWER when the leadership went, NOT_ENOUGH_REPLICAS_AFTER_APPEND when too few replicas
        were left in sync, REQUEST_TIMED_OUT at the deadline.
        """
        waiting = missing(wanted)
        for partition, _ in waiting:
            if partition.log is None or not partition.leads:
                done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return
        if not waiting:
            done(ErrorCode.NONE)
            return
        await_commits(self.loop, waiting, lambda errors: done(first_error(errors.values())), seconds)

    def when_safe(
        self, wanted: Sequence[tuple[Partition, int]], done: Callable[[ErrorCode], None], seconds: float
    ) -> None:
        """Call `done` when the partitions are committed up to their offsets; at once, where they are.

        Where a log flushes every message, also on the disk.
        """
        unflushed = [
            partition
            for partition, _ in wanted
            if (log := partition.log) is not None and log.unflushed_messages >= log.settings.flush_messages
        ]
        if not unflushed:
            self.when_committed(wanted, done, seconds)
            return

        def flushed(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                self.when_committed(wanted, done, seconds)
            else:
                done(error)

        self._flusher.when_flushed(unflushed, flushed)

    def when_safe_to_go_on(
        self, wanted: Sequence[tuple[Partition, int]], done: Callable[[ErrorCode], None], seconds: float
    ) -> None:
        """Like `when_safe`, for those who append something then.

        What moves a watermark is often the fetch of a follower that is just being looked at, which would not notice
        what is appended meanwhile. So, where it is not safe at once, `done` has a turn of its own.
        """
        at_once = True

        def safe(error: ErrorCode) -> None:
            if at_once:
                done(error)
            else:
                self.loop.call_soon(done, error)

        self.when_safe(wanted, safe, seconds)
        at_once = False
