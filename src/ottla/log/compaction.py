"""Which log to compact, how far, and the exchange of its segments.

Owns: Kafka's cleaner's choices (dirty ratio, compaction lags, what may be touched, grouping of small segments), and the
order of steps. Never knows: threads or the event loop; it says what runs where. The filtering itself is `cleaning`.
Invariants: only sealed segments below the last stable offset are read, and never changed; a new segment takes the place
of old ones only if all of those are still in the log; a log that failed is left alone until its owner says otherwise.
"""

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.log.cleaning import (
    Cleaned,
    CleanerLimits,
    CleaningPlan,
    CleaningStopped,
    LastBatch,
    Mapped,
    Pace,
    SealedSource,
    clean_into,
    map_offsets,
)
from ottla.log.files import CLEANED_SUFFIX, LARGEST_RELATIVE_OFFSET, StorageFailure, World, sync_names
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.log.transaction_sieve import TransactionSieve

_logger = logging.getLogger(__name__)


class Dirt(NamedTuple):
    """How much of a log is worth compacting."""

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def worth_it(self) -> bool:
        return (self.overdue and self.dirty_bytes > 0) or self.ratio > self.log.settings.min_cleanable_ratio


def measure(log: PartitionLog, cleaned_offset: int | None, now_ms: int) -> Dirt:
    """Where a log's dirty part begins, where what may be compacted ends, and the bytes on both sides."""
    first_dirty = log.start_offset if cleaned_offset is None else cleaned_offset
    if not log.start_offset <= first_dirty <= log.end_offset:
        # The log was cut, or lost its tail; only the whole of it is certain to be covered.
        first_dirty = log.start_offset
    sealed = log.segments[:-1]
    bases = [segment.base_offset for segment in log.segments]
    limit = min(log.last_stable_offset, bases[-1])
    dirty_from = _slot(bases, first_dirty)
    lag = log.settings.min_compaction_lag_ms
    if lag > 0:
        young = (s.base_offset for s in sealed[dirty_from:] if s.largest_timestamp > now_ms - lag)
        limit = min(limit, next(young, limit))
    # A segment is compacted whole or not at all.
    end = _slot(bases, max(first_dirty, limit))
    return Dirt(
        log,
        first_dirty,
        bases[end],
        sum(segment.size for segment in sealed if segment.base_offset < first_dirty),
        sum(segment.size for segment in sealed[dirty_from:end]),
        _overdue(sealed[dirty_from:], log.settings.max_compaction_lag_ms, now_ms),
    )


def _slot(bases: Sequence[int], offset: int) -> int:
    """The slot of the segment that covers an offset."""
    slot = len(bases) - 1
    while slot and bases[slot] > offset:
        slot -= 1
    return slot


def _overdue(dirty: Sequence[Segment], lag_ms: int, now_ms: int) -> bool:
    latest_start = now_ms - max(lag_ms, 0)
    return latest_start > 0 and any(0 < segment.first_timestamp < latest_start for segment in dirty)


def group_segments(
    segments: Sequence[Segment], segment_bytes: int, index_bytes: int, upper_offset: int
) -> list[list[Segment]]:
    """Neighbours that together make at most one full segment, so that compaction does not leave crumbs."""
    groups: list[list[Segment]] = []
    size = entries = time_entries = 0
    for slot, segment in enumerate(segments):
        ends = (segments[slot + 1].base_offset if slot + 1 < len(segments) else upper_offset) - 1
        size += segment.size
        entries += segment.index.entries * segment.index.ENTRY.size
        time_entries += segment.time_index.entries * segment.time_index.ENTRY.size
        if (
            groups
            and size <= segment_bytes
            and max(entries, time_entries) <= index_bytes
            and (segment.size == 0 or ends - groups[-1][0].base_offset <= LARGEST_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            continue
        groups.append([segment])
        size = segment.size
        entries = segment.index.entries * segment.index.ENTRY.size
        time_entries = segment.time_index.entries * segment.time_index.ENTRY.size
    return groups


class Compaction:
    """One log being compacted. Everything but the steps themselves belongs to the loop's thread."""

    def __init__(self, dirt: Dirt, world: World, limits: CleanerLimits, pace: Pace) -> None:
        self.dirt = dirt
        self.log = dirt.log
        self.end_offset = dirt.first_dirty_offset
        """Up to here the log is clean once all steps are done."""
        self.cleaned: list[Cleaned] = []
        self._world = world
        self._limits = limits
        self._pace = pace
        self._generation = dirt.log.generation
        self._mapped: Mapped | None = None
        self._target: Segment | None = None
        self._reading: list[tuple[Segment, int]] = []

    @property
    def disturbed(self) -> bool:
        """Whether the log was cut since the work began, or segments that the present step reads went meanwhile.

        A key that was mapped may have lost the record for which an older one would be removed.
        """
        present = self.log.segments
        gone = any(segment not in present or segment.size != size for segment, size in self._reading)
        return gone or self.log.generation != self._generation

    def stop(self) -> None:
        """Call the work off, from any thread: the running step raises CleaningStopped soon."""
        self._pace.stopped = True

    def steps(self) -> Iterator[Callable[[], None]]:
        """Functions to run in an I/O thread, one at a time; ask for the next one on the loop when one has returned."""
        log, dirt = self.log, self.dirt
        # An earlier compaction may be owed the removal of what it made, which has the names that this one will use.
        log.settle()
        upper_offset = dirt.first_uncleanable_offset
        reachable = [segment for segment in log.segments[:-1] if segment.base_offset < upper_offset]
        sources = self._sources(reachable, upper_offset)
        dirty = [source for source in sources if source.next_base_offset > dirt.first_dirty_offset]
        aborted = log.aborted_transactions(reachable[0].base_offset, upper_offset)

        def map_all() -> None:
            self._mapped = map_offsets(
                self._world.disk, dirty, dirt.first_dirty_offset, aborted, self._limits, self._pace
            )

        self._reading = [(segment, segment.size) for segment in reachable]
        yield map_all
        mapped = self._mapped
        assert mapped is not None
        plan = CleaningPlan(
            mapped,
            TransactionSieve(aborted),
            {},
            upper_offset,
            self._world.clock.now_ms(),
            log.settings.delete_retention_ms,
        )
        covered = [segment for segment in reachable if segment.base_offset <= mapped.latest_offset]
        for group in group_segments(covered, log.settings.segment_bytes, log.settings.index_bytes, upper_offset):
            self._reading = [(segment, segment.size) for segment in group]
            yield self._cleaner(group, plan._replace(producers=_last_batches(log)), sources)
            self._exchange(group)
        self._reading = []
        yield self._sync_names
        self.end_offset = mapped.latest_offset + 1

    def _sync_names(self) -> None:
        """Make the renames last before the old files are removed."""
        try:
            sync_names(self._world.disk, self.log.directory)
        except FileNotFoundError as error:
            raise CleaningStopped from error

    @staticmethod
    def _sources(segments: Sequence[Segment], upper_offset: int) -> list[SealedSource]:
        following = [segment.base_offset for segment in segments[1:]] + [upper_offset]
        return [
            SealedSource(segment.base_offset, end, segment.path, segment.size)
            for segment, end in zip(segments, following, strict=True)
        ]

    def _cleaner(
        self, group: Sequence[Segment], plan: CleaningPlan, sources: Sequence[SealedSource]
    ) -> Callable[[], None]:
        world, log = self._world, self.log
        bases = {segment.base_offset for segment in group}
        chosen = [source for source in sources if source.base_offset in bases]

        def clean() -> None:
            target = self._target = Segment.lazy(
                world.disk, log.directory, group[0].base_offset, log.settings, CLEANED_SUFFIX, world.open_files
            )
            target.make()
            self.cleaned.append(clean_into(world.disk, chosen, target, plan, self._limits, self._pace))

        return clean

    def _exchange(self, group: list[Segment]) -> None:
        target = self._target
        assert target is not None
        if self._pace.stopped or self.disturbed:
            raise CleaningStopped
        self._target = None
        self.log.replace_segments([target], group)

    def clear(self) -> None:
        """The work ended early: what it has made and not exchanged goes."""
        target, self._target = self._target, None
        if target is not None:
            self.log.discard(target)


def _last_batches(log: PartitionLog) -> dict[int, LastBatch]:
    """For every active producer the batch that carries its sequence or, after a marker, its epoch."""
    return {
        state.producer_id: LastBatch(state.batches[-1][3] if state.batches else -1, state.epoch)
        for state in log.producers.states()
    }


class Compactor:
    """Chooses the log that needs compaction most; one for all cleaner threads."""

    def __init__(
        self,
        world: World,
        limits: CleanerLimits,
        wait: Callable[[float], None],
    ) -> None:
        self.limits = limits
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs whose compaction failed, and why."""
        self._world = world
        self._wait = wait
        self._running: dict[TopicPartition, Compaction] = {}

    def filthiest(self, logs: Iterable[PartitionLog], now_ms: int) -> Dirt | None:
        """The log with the largest dirty part among those that are worth it."""
        found: Dirt | None = None
        for log in logs:
            name = log.topic_partition
            if not log.settings.cleanup_compact or name in self._running or name in self.uncleanable:
                continue
            dirt = measure(log, log.cleaned_offset, now_ms)
            if dirt.worth_it and (found is None or dirt.ratio > found.ratio):
                found = dirt
        return found

    def begin(self, logs: Iterable[PartitionLog], now_ms: int) -> Compaction | None:
        """Start on the log that needs it most; None when none does. Run its `steps`, then call `end`."""
        dirt = self.filthiest(logs, now_ms)
        if dirt is None:
            return None
        pace = Pace(self.limits.bytes_per_second, self._world.clock, self._wait)
        work = Compaction(dirt, self._world, self.limits, pace)
        self._running[dirt.log.topic_partition] = work
        return work

    def end(self, work: Compaction, error: Exception | None = None) -> None:
        """Close a compaction, with the exception that ended its steps early.

        Raises StorageFailure when the disk failed, so that the directory can be taken offline.
        """
        name = work.log.topic_partition
        del self._running[name]
        if error is None and not work.disturbed:
            work.log.cleaned_offset = work.end_offset
            return
        try:
            work.clear()
        except StorageFailure as failure:
            # Those that go on with the log try again; what stopped the work matters more, if anything did.
            error = error or failure
        if error is None or isinstance(error, CleaningStopped) or work.disturbed:
            # Called off, or something else had the right of way; the log is tried again when its turn comes.
            return
        if isinstance(error, OSError):
            error = StorageFailure.of(work.log.directory, error)
        if isinstance(error, StorageFailure):
            if error.out_of_space:
                _logger.warning("compaction of %s waits for room: %s", name, error)
            elif error.errno == errno.ENOENT:
                _logger.warning("compaction of %s ended early, its files went meanwhile: %s", name, error)
            else:
                raise error
            return
        self.uncleanable[name] = str(error)
        _logger.error("%s cannot be compacted and will be left as it is until the next start: %s", name, error)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is gone or taken away: stop working on it and drop what is known of it."""
        running = self._running.get(topic_partition)
        if running is not None:
            running.stop()
        self.uncleanable.pop(topic_partition, None)

    def stop(self) -> None:
        """Call all work off."""
        for work in self._running.values():
            work.stop()
