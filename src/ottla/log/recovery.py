"""Opening a partition's directory, after a clean stop and after a crash.

Owns: what becomes of leftovers of interrupted work, and of bytes nobody vouches for. Never knows: checkpoint files (it
is handed their numbers) and other partitions; it may run in any thread, one at a time for one directory.
Invariants: what was flushed is never touched; after a crash every batch from the recovery point on is read and its
checksum verified, the log ends before the first that is not whole, and the indexes are made anew. After a clean stop
only the tail of the last segment is looked at.
"""

import logging
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.epochs import EpochHistory
from ottla.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    EPOCH_CHECKPOINT,
    INDEX_SUFFIX,
    LARGEST_RELATIVE_OFFSET,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    StorageFailure,
    World,
    offset_of,
    offset_path,
)
from ottla.log.index import CorruptIndex
from ottla.log.partition_log import LoadedLog, PartitionLog
from ottla.log.producers import ProducerTable
from ottla.log.replay import rebuild, replay
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.log.snapshots import SnapshotFiles
from ottla.log.whole_file import read_whole
from ottla.records.crc import crc32c
from ottla.records.header import CHECKED_FROM, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, CorruptBatch

_logger = logging.getLogger(__name__)


class _Remembered(NamedTuple):
    """What the checkpoints say of a log."""

    start_offset: int
    recovery_point: int
    clean: bool


def load_log(
    world: World,
    topic_partition: TopicPartition,
    directory: str,
    settings: LogSettings,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    start_offset: int = 0,
    topic_id: TopicId = NO_TOPIC_ID,
) -> PartitionLog:
    """The log in a directory, which may be empty; the checkpoints say how far it is to be trusted.

    Blocking; raises StorageFailure.
    """
    remembered = _Remembered(start_offset, recovery_point, clean)
    try:
        loaded = _Opening(world, topic_partition, directory, settings, remembered).load()
    except OSError as error:
        raise StorageFailure.of(directory, error) from error
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
    ) -> None:
        self._world = world
        self._disk = world.disk
        self._name = topic_partition
        self._directory = directory
        self._settings = settings
        self._remembered = remembered
        self._producers = ProducerTable(topic_partition)
        self._segments: list[Segment] = []
        self._intact = True

    def load(self) -> LoadedLog:
        names = settle_leftovers(self._disk, self._directory, self._settings)
        self._snapshots = SnapshotFiles(self._disk, self._directory, names)
        self._epochs = self._read_epochs(names)
        suspects = self._load_segments(names)
        self._snapshots.remove_strays(segment.base_offset for segment in self._segments)
        start_offset, recovery_point, clean = self._remembered
        if suspects:
            self._recover(suspects)
        end_offset = self._segments[-1].next_offset() if self._segments else start_offset
        if end_offset < start_offset or not self._segments:
            self._begin_anew(start_offset)
            end_offset = start_offset
        start_offset = max(start_offset, self._segments[0].base_offset)
        self._epochs.truncate_end(end_offset)
        self._epochs.truncate_start(start_offset)
        self._load_producers(start_offset, end_offset, recovered=bool(suspects))
        for segment in self._segments:
            segment.created_ms = self._world.clock.now_ms()
            segment.close()
        return LoadedLog(
            self._segments,
            start_offset,
            end_offset,
            end_offset if clean else max(min(recovery_point, end_offset), start_offset),
            self._producers,
            self._snapshots,
            self._epochs,
            self._intact,
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
        suspects = []
        for slot, base in enumerate(bases):
            segment = Segment.load(self._disk, self._directory, base, self._settings, open_files=self._world.open_files)
            self._segments.append(segment)
            following = bases[slot + 1] if slot + 1 < len(bases) else None
            unflushed = following is None or following > self._remembered.recovery_point
            if unflushed and not self._remembered.clean:
                suspects.append(segment)
            elif segment.size and not self._indexed(segment, present):
                _logger.warning("%s: the indexes are missing or wrong and are made anew", segment.path)
                suspects.append(segment)
        return suspects

    def _indexed(self, segment: Segment, present: set[str]) -> bool:
        if f"{segment.base_offset:020d}{INDEX_SUFFIX}" not in present:
            return False
        try:
            segment.transaction_index.check(segment.base_offset)
        except CorruptIndex:
            return False
        return True

    def _recover(self, suspects: list[Segment]) -> None:
        """Read the batches of the suspects in order; a segment that ends early ends the log."""
        start_offset = self._remembered.start_offset
        # Snapshots further up were not synced yet; they are taken again on the way.
        self._snapshots.remove_outside(-1, suspects[0].base_offset)
        self._snapshots.restore(self._producers, start_offset, suspects[0].base_offset)
        for segment in suspects:
            # Transactions may have begun in the segments before.
            now_ms = self._world.clock.now_ms()
            rebuild(self._producers, self._segments, start_offset, segment.base_offset, now_ms)
            removed = recover_segment(segment, self._producers, self._epochs, now_ms)
            self._snapshots.take(self._producers)
            if removed or self._lost_tail(segment):
                self._end_log_with(segment, removed)
                return

    def _lost_tail(self, segment: Segment) -> bool:
        """Whether batches are missing before the next segment: whole ones at the end leave no trace in the file.

        A compacted log has such gaps by right.
        """
        slot = self._segments.index(segment) + 1
        if slot == len(self._segments) or self._settings.cleanup_compact or self._remembered.clean:
            return False
        return self._producers.end_offset != self._segments[slot].base_offset

    def _end_log_with(self, segment: Segment, removed: int) -> None:
        self._intact = False
        slot = self._segments.index(segment) + 1
        _logger.warning(
            "%s: %d bytes are not whole batches and were cut off, and %d segments behind them",
            segment.path,
            removed,
            len(self._segments) - slot,
        )
        for later in self._segments[slot:]:
            later.delete()
        del self._segments[slot:]

    def _begin_anew(self, start_offset: int) -> None:
        for segment in self._segments:
            self._intact = False
            segment.delete()
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


def recover_segment(segment: Segment, producers: ProducerTable, epochs: EpochHistory, now_ms: int) -> int:
    """Read every batch, make the indexes anew, cut at the first byte that is no whole batch; answers what was cut."""
    segment.index.keep(0)
    segment.time_index.keep(0)
    segment.transaction_index.reset()
    segment.begin_scan()
    size = segment.size
    view = segment.file.map()
    position = 0
    expected = segment.base_offset
    largest = segment.base_offset + LARGEST_RELATIVE_OFFSET
    while size - position >= HEADER_SIZE:
        fields = HEADER.unpack_from(view, position)
        base_offset, length, leader_epoch, magic, crc, _, delta, _, max_timestamp, producer_id, _, _, _ = fields
        end = position + length + LOG_OVERHEAD
        last_offset = base_offset + delta
        if (
            length < HEADER_SIZE - LOG_OVERHEAD
            or end > size
            or magic != MAGIC
            or crc32c(view[position + CHECKED_FROM : end]) != crc
            or not expected <= base_offset <= last_offset <= largest
        ):
            break
        if producer_id >= 0:
            try:
                aborted = replay(producers, BatchHeader._make(fields), view[position:end], now_ms)
            except CorruptBatch:
                break
            if aborted is not None:
                segment.transaction_index.append(aborted)
        segment.note(position, end - position, last_offset, max_timestamp)
        if leader_epoch > epochs.latest_epoch:
            epochs.assign(leader_epoch, base_offset)
        expected = last_offset + 1
        position = end
    del view
    producers.end_offset = expected
    segment.end_scan(position)
    return size - position


def settle_leftovers(disk: Disk, directory: str, settings: LogSettings) -> list[str]:
    """Finish or undo what a crash interrupted, by the second suffixes; answers the names that are left."""
    names = disk.list(directory)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swapped = [name for name in names if name.endswith(SWAP_SUFFIX)]
    deleted = [name for name in names if name.endswith(DELETED_SUFFIX)]
    if not cleaned and not swapped and not deleted:
        return names
    lowest_cleaned = min((offset for name in cleaned if (offset := offset_of(name)) is not None), default=None)
    for name in swapped:
        offset = offset_of(name)
        if lowest_cleaned is not None and offset is not None and offset >= lowest_cleaned:
            deleted.append(name)
    for name in cleaned + deleted:
        disk.remove(f"{directory}/{name}")
    swapped = [name for name in swapped if name not in deleted]
    for name in swapped:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _give_way(disk, directory, settings, name)
    for name in swapped:
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


def _bases(names: list[str], suffix: str) -> list[int]:
    return [base for name in names if name.endswith(suffix) and (base := offset_of(name)) is not None]
