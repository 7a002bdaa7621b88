"""Opening a partition's directory, after a clean stop and after a crash.

Owns: what becomes of leftovers of interrupted work, and of segments nobody vouches for. Never knows: checkpoint files
(it is handed their numbers) and other partitions; it may run in any thread, one at a time for one directory.
Invariants: after a crash every batch from the recovery point on is read and its checksum verified, the log ends before
the first that is not whole, and the indexes are made anew. After a clean stop only the tail of the last segment is
looked at. Nothing is deleted on suspicion: what cannot be read, or cannot follow what is there, is put aside beside it.
A segment that was flushed and is damaged ends early alone. Whatever fails on the way, the next attempt finds all that
this one found.
"""

import logging
from errno import EIO
from itertools import pairwise
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.epochs import EpochHistory, RetoldEpochs
from ottla.log.files import (
    ASIDE_SUFFIX,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    EPOCH_CHECKPOINT,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    StorageFailure,
    World,
    offset_of,
    offset_path,
)
from ottla.log.index import CorruptIndex
from ottla.log.partition_log import LoadedLog, PartitionLog
from ottla.log.producers import ProducerTable
from ottla.log.replay import rebuild
from ottla.log.scanning import Scanner, begins_in_other_format, refuse_unknown_formats
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.log.snapshots import SnapshotFiles
from ottla.log.whole_file import TEMPORARY_SUFFIX, read_whole, write_again
from ottla.records.header import HEADER_SIZE, CorruptBatch, read_header

_logger = logging.getLogger(__name__)


class _Remembered(NamedTuple):
    """What the checkpoints say of a log."""

    start_offset: int
    recovery_point: int
    clean: bool
    cleaned_offset: int | None
    power_kept: bool
    unproven: bool


def load_log(
    world: World,
    topic_partition: TopicPartition,
    directory: str,
    settings: LogSettings,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    start_offset: int = 0,
    cleaned_offset: int | None = None,
    topic_id: TopicId = NO_TOPIC_ID,
    power_kept: bool = False,
    unproven: bool = False,
) -> PartitionLog:
    """The log in a directory, which may be empty; the checkpoints say how far it is to be trusted.

    `power_kept`: nothing that the last process wrote can be missing. `unproven`: a sync of it failed, so what it did
    not flush may be nowhere but in memory, and is written again.
    Blocking; raises StorageFailure and UnknownFormat.
    """
    remembered = _Remembered(start_offset, recovery_point, clean, cleaned_offset, power_kept, unproven)
    try:
        try:
            loaded = _Opening(world, topic_partition, directory, settings, remembered).load()
        except CorruptBatch as damage:
            _logger.warning("%s: a segment that was to be whole is not (%s); all are read", directory, damage)
            loaded = _Opening(world, topic_partition, directory, settings, remembered, thorough=True).load()
    except OSError as error:
        raise StorageFailure.of(directory, error) from error
    except CorruptBatch as damage:
        raise StorageFailure(directory, EIO, f"it cannot be read ({damage}); move the directory away") from damage
    return PartitionLog(world, topic_partition, directory, settings, loaded, topic_id)


class _Opening:
    """One directory being opened."""

    def __init__(
        self,
        world: World,
        topic_partition: TopicPartition,
        directory: str,
        settings: LogSettings,
        remembered: _Remembered,
        *,
        thorough: bool = False,
    ) -> None:
        self._world = world
        self._disk = world.disk
        self._name = topic_partition
        self._directory = directory
        self._settings = settings
        self._remembered = remembered
        self._thorough = thorough
        self._producers = ProducerTable(topic_partition)
        self._segments: list[Segment] = []
        self._unflushed: list[Segment] = []
        self._intact = True

    def load(self) -> LoadedLog:
        names = settle_leftovers(self._disk, self._directory, self._settings)
        self._snapshots = SnapshotFiles(self._disk, self._directory, names)
        self._epochs = self._read_epochs(names)
        suspects = self._load_segments(names)
        self._snapshots.remove_strays(segment.base_offset for segment in self._segments)
        start_offset, recovery_point, clean, cleaned_offset, power_kept, _ = self._remembered
        if suspects:
            self._recover(suspects)
        self._drop_empty_leftover()
        if self._unflushed:
            # The file of a segment that was not flushed whole is synced again: the log may have been cut in it.
            recovery_point = min(recovery_point, self._unflushed[0].base_offset)
        end_offset = self._segments[-1].next_offset() if self._segments else start_offset
        if power_kept and self._segments and end_offset < start_offset:
            # Nothing is missing: it was cut below where it began, and nobody has written that down yet.
            start_offset = self._segments[0].base_offset
        if end_offset < start_offset or not self._segments:
            self._begin_anew(start_offset)
            end_offset = recovery_point = start_offset
        start_offset = max(start_offset, self._segments[0].base_offset)
        self._epochs.truncate_end(end_offset)
        self._epochs.truncate_start(start_offset)
        self._load_producers(start_offset, end_offset, recovered=bool(suspects))
        for segment in self._segments:
            segment.created_ms = self._world.clock.now_ms()
            segment.close()
        if cleaned_offset is not None and cleaned_offset > self._segments[-1].base_offset:
            # The active segment is never compacted, so the log was cut, or lost its tail, since this was written;
            # only the whole of it is certain to be covered.
            cleaned_offset = None
        return LoadedLog(
            self._segments,
            start_offset,
            end_offset,
            end_offset if clean else min(recovery_point, end_offset),
            self._producers,
            self._snapshots,
            self._epochs,
            self._intact,
            cleaned_offset,
            self._remembered.recovery_point,
            self._remembered.cleaned_offset or 0,
            clean and not suspects and self._intact,
        )

    def _read_epochs(self, names: list[str]) -> EpochHistory:
        if EPOCH_CHECKPOINT not in names:
            return EpochHistory()
        data = read_whole(self._disk, f"{self._directory}/{EPOCH_CHECKPOINT}") or b""
        try:
            return EpochHistory.from_text(data.decode())
        except ValueError as error:
            _logger.warning("%s: the leader epochs of %s are unreadable (%s)", self._directory, self._name, error)
            return EpochHistory()

    def _load_segments(self, names: list[str]) -> list[Segment]:
        """Fill the list of segments; answers those whose batches have to be read."""
        present = set(names)
        bases = sorted(_bases(names, LOG_SUFFIX))
        known = set(bases)
        for suffix in SEGMENT_SUFFIXES[1:]:
            for base in _bases(names, suffix):
                if base not in known:
                    self._disk.remove(offset_path(self._directory, base, suffix))
        for base in bases:
            segment = Segment.load(self._disk, self._directory, base, self._settings, open_files=self._world.open_files)
            if begins_in_other_format(segment.first_bytes):
                refuse_unknown_formats(segment.path, segment.file.map(), segment.size)
            self._segments.append(segment)
        flushed = len(bases) if self._remembered.clean else self._count_flushed()
        suspects = []
        for slot, segment in enumerate(self._segments):
            if slot >= flushed:
                self._unflushed.append(segment)
                suspects.append(segment)
            elif segment.size and (self._thorough or not self._sound(segment, present)):
                _logger.warning("%s: its end or its indexes are missing or wrong; it is read", segment.path)
                suspects.append(segment)
        return suspects

    def _count_flushed(self) -> int:
        """How many segments lie below the recovery point whole, and need not be read.

        After a power cut the names of segments may be back that were renamed away when the log was cut; what follows a
        break is not what was flushed, and neither is what comes before it certain to be.
        """
        for slot, (segment, following) in enumerate(pairwise(self._segments)):
            if following.base_offset > self._remembered.recovery_point:
                return slot
            if not self._remembered.power_kept and self._broken(segment, following.base_offset):
                return slot
        return max(len(self._segments) - 1, 0)

    def _broken(self, segment: Segment, following: int) -> bool:
        """Whether a segment does not end where the next one begins, or not in the epoch that the history names."""
        last, end = None, 0
        try:
            for position, header in segment.headers(segment.index.last()[1]):
                last, end = header, position + header.size
        except CorruptBatch:
            return True
        if last is None:
            # Compaction may leave nothing of it. An index that leads behind the end is that of another life.
            return segment.size > 0 or not self._compacted
        if end != segment.size:
            # It was cut, and a batch that came then is torn.
            return True
        epoch = self._epochs.epoch_at(last.base_offset)
        return (
            last.next_offset > following
            or (last.next_offset < following and not self._compacted)
            or (last.leader_epoch >= 0 and epoch >= 0 and last.leader_epoch != epoch)
        )

    @property
    def _compacted(self) -> bool:
        return self._settings.cleanup_compact or self._remembered.cleaned_offset is not None

    def _sound(self, segment: Segment, present: set[str]) -> bool:
        """Whether a flushed segment has its indexes and, if it is the last one, whole batches at its end."""
        if not {f"{segment.base_offset:020d}{suffix}" for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)} <= present:
            return False
        try:
            segment.transaction_index.check(segment.base_offset)
        except CorruptIndex:
            return False
        return segment is not self._segments[-1] or segment.ends_whole()

    def _recover(self, suspects: list[Segment]) -> None:
        """Read the batches of the suspects in order; an unflushed segment that ends early ends the log."""
        start_offset = self._remembered.start_offset
        now_ms = self._world.clock.now_ms()
        # Snapshots further up were not synced yet; they are taken again on the way.
        self._snapshots.remove_outside(-1, suspects[0].base_offset)
        self._snapshots.restore(self._producers, start_offset, suspects[0].base_offset)
        scanner = Scanner(self._disk, self._producers, now_ms, sparse=self._compacted)
        for segment in suspects:
            if segment in self._unflushed:
                if not self._follows(segment, scanner):
                    continue
                if self._remembered.unproven and segment.size:
                    write_again(self._disk, segment.path)
                    segment.close()
                scanner.epochs = scanner.epochs or RetoldEpochs(self._epochs, segment.base_offset)
            # Transactions may have begun in the segments before.
            rebuild(self._producers, self._segments, start_offset, segment.base_offset, now_ms)
            # The next start takes what was flushed for flushed, with its indexes.
            problem = scanner.scan(segment, self._following(segment), flushed=segment not in self._unflushed)
            self._snapshots.take(self._producers, self._producers.end_offset)
            if problem is not None:
                self._intact = False
                if segment in self._unflushed:
                    self._end_log_with(segment)
        if scanner.epochs is not None:
            scanner.epochs.end()

    def _following(self, segment: Segment) -> int | None:
        slot = self._segments.index(segment) + 1
        return self._segments[slot].base_offset if slot < len(self._segments) else None

    def _follows(self, segment: Segment, scanner: Scanner) -> bool:
        """Whether an unflushed segment is one of the log, and begins where it can; else it is put aside by now.

        One that begins below the end of the one before it, or in an earlier epoch, was renamed away before a power cut,
        or an older release left it. One that begins above it shows that a power cut took batches: whole ones at the end
        of a file leave no trace. A log in which offsets are missing elsewhere has such gaps by right.
        """
        if segment not in self._segments:
            return False
        slot = self._segments.index(segment)
        if not slot:
            return True
        before, base = self._segments[slot - 1], segment.base_offset
        end = before.next_offset()
        epoch = _first_epoch(segment)
        stale = 0 <= epoch < self._epochs.epoch_at(base)
        by_right = scanner.sparse or self._remembered.power_kept or before not in self._unflushed
        if not stale and (base == end or (base > end and by_right)):
            return True
        _logger.error(
            "%s begins at %d in epoch %d, and %s ends at %d in epoch %d",
            segment.path,
            base,
            epoch,
            before.path,
            end,
            self._epochs.epoch_at(base),
        )
        if base > end or stale:
            self._end_log_with(before)
        else:
            self._put_aside(segment)
            self._segments.remove(segment)
        return False

    def _end_log_with(self, segment: Segment) -> None:
        """What comes behind cannot be joined to it."""
        slot = self._segments.index(segment) + 1
        # The last one first: who stops on the way leaves a log without a hole.
        for later in reversed(self._segments[slot:]):
            self._put_aside(later)
            self._segments.remove(later)

    def _put_aside(self, segment: Segment) -> None:
        """Rename a segment's files to a name that a person finds and no recovery touches."""
        self._intact = False
        suffix, number = ASIDE_SUFFIX, 1
        while self._disk.exists(f"{segment.path}{suffix}"):
            suffix = f"{ASIDE_SUFFIX}.{number}"
            number += 1
        if segment.size:
            _logger.warning("%s is put aside as %s%s", segment.path, segment.path, suffix)
            segment.rename(suffix)
            segment.close()
        else:
            segment.delete()

    def _drop_empty_leftover(self) -> None:
        """A roll of an older release that found no room left an empty segment behind, at an offset that others got."""
        while len(self._segments) > 1 and not self._segments[-1].size:
            if self._segments[-2].next_offset() <= self._segments[-1].base_offset:
                return
            _logger.warning("%s is empty and overlaps the segment before it", self._segments[-1].path)
            self._segments.pop().delete()

    def _begin_anew(self, start_offset: int) -> None:
        for segment in reversed(self._segments):
            self._put_aside(segment)
        first = Segment.lazy(
            self._disk, self._directory, start_offset, self._settings, open_files=self._world.open_files
        )
        self._segments[:] = [first]
        self._epochs.clear()
        self._epochs.dirty = False
        self._snapshots.remove_outside(start_offset, start_offset)
        self._producers.restart((), start_offset)

    def _load_producers(self, start_offset: int, end_offset: int, *, recovered: bool) -> None:
        self._snapshots.remove_outside(start_offset, end_offset)
        if not recovered:
            if self._remembered.clean and self._snapshots.latest is None:
                # No snapshot beside a log that was closed properly: it never had producers to remember.
                self._producers.restart((), end_offset)
            else:
                self._snapshots.restore(self._producers, start_offset, end_offset)
        now_ms = self._world.clock.now_ms()
        self._producers.expire(now_ms, self._settings.producer_expiration_ms)
        rebuild(self._producers, self._segments, start_offset, end_offset, now_ms)


def settle_leftovers(disk: Disk, directory: str, settings: LogSettings) -> list[str]:
    """Finish or undo what a crash interrupted, by the second suffixes; answers the names that are left."""
    names = disk.list(directory)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swapped = [name for name in names if name.endswith(SWAP_SUFFIX) and offset_of(name) is not None]
    deleted = [name for name in names if name.endswith(DELETED_SUFFIX)]
    deleted += [name for name in names if name.endswith(LOG_SUFFIX + TEMPORARY_SUFFIX)]
    if not cleaned and not swapped and not deleted:
        return names
    lowest_cleaned = min(_bases(cleaned, CLEANED_SUFFIX), default=None)
    finished = set(_bases(swapped, LOG_SUFFIX + SWAP_SUFFIX))
    for name in swapped:
        offset = offset_of(name)
        # The log file is the last one to become a `.swap`, and the last one to lose the name.
        if offset not in finished or (lowest_cleaned is not None and offset >= lowest_cleaned):
            deleted.append(name)
    # What says that a `.swap` does not count goes after it.
    for name in deleted + cleaned:
        disk.remove(f"{directory}/{name}")
    swapped = [name for name in swapped if name not in deleted]
    for name in swapped:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _give_way(disk, directory, settings, name)
    for name in sorted(swapped, key=lambda name: name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return disk.list(directory)


def _give_way(disk: Disk, directory: str, settings: LogSettings, name: str) -> None:
    """Remove the files whose place a finished compacted segment takes."""
    base = offset_of(name)
    assert base is not None, name
    segment = Segment.load(disk, directory, base, settings, SWAP_SUFFIX)
    end = segment.next_offset()
    segment.close()
    for other in disk.list(directory):
        offset = offset_of(other)
        if offset is not None and base <= offset < end and other.endswith(SEGMENT_SUFFIXES):
            disk.remove(f"{directory}/{other}")


def _first_epoch(segment: Segment) -> int:
    """The leader epoch that the first batch of a segment names, whole or not; -1 when there is none."""
    data = segment.file.read_at(0, HEADER_SIZE)
    return read_header(data).leader_epoch if len(data) == HEADER_SIZE else -1


def _bases(names: list[str], suffix: str) -> list[int]:
    return [base for name in names if name.endswith(suffix) and (base := offset_of(name)) is not None]
