"""Which segments of a log are past their retention.

Owns: Kafka's three rules (start offset, size, age) as a pure decision, and the sweep over many logs.
Never knows: files.
Invariants: only a prefix of the segments goes; nothing at or above the high watermark goes; an empty active segment
never goes.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.log.files import StorageFailure

if TYPE_CHECKING:
    from ottla.log.partition_log import PartitionLog
    from ottla.log.settings import LogSettings


class Expirable(Protocol):
    """What the rules need to know of a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int:
        """The greatest record timestamp, or the time of the last write where the records have none."""
        ...


class Bounds(NamedTuple):
    """Where a log begins, ends, and is committed up to."""

    start_offset: int
    end_offset: int
    high_watermark: int


def expired_count(segments: Sequence[Expirable], bounds: Bounds, settings: "LogSettings", now_ms: int) -> int:
    """How many of the oldest segments go now; all of them means that the log rolls first."""
    eligible = _eligible_count(segments, bounds)
    count = 0
    while count < eligible and count + 1 < len(segments) and segments[count + 1].base_offset <= bounds.start_offset:
        count += 1
    if not settings.cleanup_delete:
        return count
    if settings.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - settings.retention_bytes
        while count < eligible and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    if settings.retention_ms >= 0:
        oldest = now_ms - settings.retention_ms
        while count < eligible and segments[count].largest_timestamp < oldest:
            count += 1
    return count


def _eligible_count(segments: Sequence[Expirable], bounds: Bounds) -> int:
    """How many may go at all: those that lie below the high watermark whole, without an empty active one."""
    count = len(segments)
    if count and (segments[-1].size == 0 or bounds.end_offset > bounds.high_watermark):
        count -= 1
    while count and count < len(segments) and segments[count].base_offset > bounds.high_watermark:
        count -= 1
    return count


class Swept(NamedTuple):
    """What a sweep did."""

    segments: int
    bytes: int
    failed: tuple[tuple["PartitionLog", Exception], ...]


def sweep(logs: Iterable["PartitionLog"], now_ms: int) -> Swept:
    """Delete what is expired in these logs; a log whose disk fails is reported and the others go on.

    Costs microseconds for a log that has nothing to give; with thousands of logs call it in slices.
    """
    segments = size = 0
    failed: list[tuple[PartitionLog, Exception]] = []
    for log in logs:
        try:
            expired = log.expired_segments(now_ms)
            if expired:
                freed = sum(segment.size for segment in expired)
                log.delete_segments(expired)
                segments += len(expired)
                size += freed
        except (StorageFailure, OSError) as error:
            failed.append((log, error))
    return Swept(segments, size, tuple(failed))
