"""One partition's log as it is kept: its segments and offsets, how it rolls, is cut, flushed and closed.

Owns: the order of segments and the offsets of the partition (start, end, high watermark, recovery point). Never knows:
how batches come and go (that is `PartitionLog`, built on this), which thread syncs. All of it belongs to the event-loop
thread; only `FlushTicket.run` and `Removal.run` are made for others.
Invariants: start_offset ≤ high_watermark ≤ end_offset; the last segment takes the appends. Everything below the
recovery point is on stable storage, and also that nothing is there any more below the start; only a flush moves it up.
Of the active segment that is the log file only, as recovery makes the indexes of the segment that holds it anew.
What fails half-way: an operation first reads and prepares all it needs, then changes memory at once, then has the disk
follow (`SegmentRun.settle`). A failure before the change leaves no trace; after it, the disk is behind, and nothing is
written, flushed or closed before it has caught up. A flush counts when it has run whole, and not at all otherwise.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import EAGAIN
from functools import partial
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.cached_reads import CachedReads, ColdLookUp
from ottla.log.epochs import EpochHistory
from ottla.log.files import LARGEST_RELATIVE_OFFSET, StorageFailure, World
from ottla.log.flushing import FlushTicket, Removal
from ottla.log.mending import Mending
from ottla.log.producers import ProducerTable
from ottla.log.replay import rebuild
from ottla.log.retention import Bounds, expired_count
from ottla.log.segment import Located, Segment
from ottla.log.segment_run import SegmentRun
from ottla.log.settings import LogSettings
from ottla.log.snapshots import SnapshotFiles
from ottla.records.header import CorruptBatch

_logger = logging.getLogger(__name__)

ROLL_TIME_UNKNOWN = -(1 << 64)
"""A roll time that sends every append the long way, which works the real one out."""


class LoadedLog(NamedTuple):
    """What is known of a log when it is opened."""

    segments: list[Segment]
    start_offset: int
    end_offset: int
    recovery_point: int
    producers: ProducerTable
    snapshots: SnapshotFiles
    epochs: EpochHistory
    intact: bool = True
    cleaned_offset: int | None = None
    checkpointed: int = 0
    checkpointed_clean: int = 0
    names_last: bool = True
    """Whether what its directory holds was last synced by who stopped properly, and has not been changed since."""


class StoredLog:
    """One partition's segments, offsets and checkpoints."""

    __slots__ = (
        "_active",
        "_high_watermark",
        "_last_fitting",
        "_lasting_names",
        "_mendings",
        "_names",
        "_recent_offsets",
        "_recent_positions",
        "_roll_after",
        "_rules",
        "_run",
        "_sealed",
        "_segment_bytes",
        "_settings",
        "_snapshots",
        "_world",
        "checkpointed",
        "checkpointed_clean",
        "cleaned_offset",
        "directory",
        "end_offset",
        "epochs",
        "generation",
        "intact",
        "producers",
        "recovery_point",
        "start_offset",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        world: World,
        topic_partition: TopicPartition,
        directory: str,
        settings: LogSettings,
        loaded: LoadedLog,
        topic_id: TopicId = NO_TOPIC_ID,
    ) -> None:
        self._world = world
        self.topic_partition = topic_partition
        self.directory = directory
        self.topic_id = topic_id
        self._run = SegmentRun(world, directory, loaded.segments)
        self.start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.recovery_point = loaded.recovery_point
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.intact = loaded.intact
        """Whether its files were found whole when it was opened: nothing was cut off, put aside or begun anew."""
        self._snapshots = loaded.snapshots
        self.cleaned_offset = loaded.cleaned_offset
        """Up to where it is compacted; None when it never was."""
        self.checkpointed = loaded.checkpointed
        """The recovery point that the checkpoint file may hold; its owner keeps it true."""
        self.checkpointed_clean = loaded.checkpointed_clean
        """The same of how far it is compacted; 0 when the file does not name it."""
        self._high_watermark = self.start_offset
        self.generation = 0
        """Grows whenever the log is cut."""
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []
        # Indexes that recovery made anew, or a roll left behind, and that no flush has covered.
        self._sealed = self._run.items[self._run.slot(self.recovery_point) : -1]
        # Counted up when names in the directory change. Those that were found are synced with the first flush; a clean
        # stop leaves that out only where nobody can have changed any since the last one.
        self._names = 1 if loaded.names_last else 2
        self._lasting_names = 0
        # Of segments whose index seemed wrong since the log was opened, or cut.
        self._mendings: dict[Segment, Mending] = {}
        self.settings = settings
        self._activate()

    @property
    def settings(self) -> LogSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: LogSettings) -> None:
        self._settings = settings
        self._rules = settings.rules()
        self._segment_bytes = settings.segment_bytes
        self._roll_after = ROLL_TIME_UNKNOWN

    def _activate(self) -> None:
        """The last segment has become another one, or another length."""
        self._active = self._run.items[-1]
        self._last_fitting = self._active.base_offset + LARGEST_RELATIVE_OFFSET
        self._roll_after = ROLL_TIME_UNKNOWN
        self._recent_offsets.clear()
        self._recent_positions.clear()

    @property
    def segments(self) -> list[Segment]:
        """In the order of their offsets; the last one takes the appends. To look at, not to change."""
        return self._run.items

    # Offsets

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        """The log is replicated up to here; it never passes the end."""
        if offset > self.end_offset:
            offset = self.end_offset
        self._high_watermark = offset
        self.producers.release_below(offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to here every transaction is decided, and replicated."""
        if self.producers.stable:
            return self._high_watermark
        first = self.producers.first_unstable_offset()
        if first is None or first >= self._high_watermark:
            return self._high_watermark
        return max(first, self.start_offset)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def provable_point(self) -> int:
        """The recovery point as it may be written down: in the last segment whose indexes were not synced, or before.

        Recovery takes a segment that ends at or below it for flushed with its indexes, and a flush of the active
        segment leaves these out: the next roll may be at the very offset that it reached.
        """
        for segment in self._sealed:
            if segment in self._run.items:
                return min(self.recovery_point, segment.base_offset)
        if self.recovery_point > self._active.base_offset:
            return min(self.recovery_point, self.end_offset - 1)
        return self.recovery_point

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - self.recovery_point

    @property
    def truncated_below_checkpoint(self) -> bool:
        """Whether a checkpoint file may speak of records that were cut off since it was written."""
        if self.recovery_point < self.checkpointed or (self.cleaned_offset or 0) < self.checkpointed_clean:
            return True
        # Flushed again up to the very offset, but for the indexes: see `provable_point`.
        return self.checkpointed >= self.end_offset > self._active.base_offset

    def _outdates_checkpoint(self, base_offset: int) -> bool:
        """Whether a roll here would make a checkpoint file that speaks of cut-off records look true at the next start.

        The recovery point: after a power cut the sealed segment would be believed unread. How far the log is compacted:
        an offset in the active segment, which is never compacted, is seen to be outdated; behind a roll, records that
        were never compacted would pass for it, and a tombstone among them would go while the value it deletes stays.
        """
        if base_offset <= self.checkpointed:
            return True
        return (self.cleaned_offset or 0) < self.checkpointed_clean

    def settle(self) -> None:
        """Have the disk catch up with memory after a failure. Raises StorageFailure when it cannot yet."""
        if not self._run.settled:
            self._run.settle()

    def _owe(self, *steps: Callable[[], None]) -> None:
        """Have steps taken before anything else is done to the files; the next append looks whether they were."""
        self._run.owe(*steps)
        self._roll_after = ROLL_TIME_UNKNOWN

    def roll(self, next_offset: int = 0) -> Segment:
        """Close the active segment and begin another at the end of the log (or further up); raises StorageFailure."""
        self.settle()
        active = self._active
        base_offset = max(next_offset, self.end_offset)
        if active.size == 0 and base_offset == active.base_offset:
            return active
        if self._outdates_checkpoint(base_offset):
            raise StorageFailure(self.directory, EAGAIN, "its checkpoints have to be written before it can roll")
        active.seal()
        self._snapshots.take(self.producers, base_offset)
        # The last step that can fail, so that no empty segment is left at an offset the old one then passes.
        segment = self._run.prepare(base_offset, self._settings)
        segment.make()
        self.producers.end_offset = base_offset
        self._run.items.append(segment)
        self._sealed.append(active)
        self._names += 1
        self._activate()
        return segment

    def earliest_epoch(self) -> int:
        """The leader epoch at the start of the log; -1 when it is not known."""
        return self.epochs.epoch_at(self.start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) of the largest epoch up to this one."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def expire_producers(self, now_ms: int) -> int:
        """Forget silent producers; answers how many."""
        return self.producers.expire(now_ms, self._settings.producer_expiration_ms)

    # Cutting

    def delete_records_before(self, offset: int) -> ErrorCode:
        """Let the log begin at an offset up to the high watermark; the segments below go with the next sweep."""
        if offset > self._high_watermark or offset < 0:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self._raise_start(offset)
        return ErrorCode.NONE

    def _raise_start(self, offset: int) -> None:
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self._high_watermark = max(self._high_watermark, offset)
        self.epochs.truncate_start(offset)
        self.producers.release_below(offset)
        self.producers.end_offset = max(self.producers.end_offset, offset)

    def truncate_to(self, offset: int) -> bool:
        """Cut the log back to end at `offset` (or before, at a batch's boundary); answers whether that changed it."""
        self.settle()
        if offset >= self.end_offset:
            self.epochs.truncate_end(self.end_offset)
            return False
        items = self._run.items
        if offset < items[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        kept = self._run.slot(offset) + 1
        active, going = items[kept - 1], items[kept:]
        start_offset = min(self.start_offset, offset)
        try:
            located = self._locate(active, offset)
            position = active.size if located is None else located.position
            producers = self._producers_at(items[:kept], start_offset, offset, located)
        except OSError as error:
            raise StorageFailure.of(active.path, error) from error
        del items[kept:]
        active.cut(position, self._world.clock.now_ms())
        # From the end on: a process that dies on the way leaves a log that is cut less far.
        self._run.retire(going[::-1], (), self._settings.file_delete_delay_ms)
        self._owe(partial(active.finish_cut, offset))
        self._end_at(offset, start_offset, producers)
        self.epochs.truncate_end(offset)
        self.high_watermark = self._high_watermark
        self.settle()
        return True

    def _locate(self, segment: Segment, offset: int) -> Located | None:
        try:
            return segment.locate(offset)
        except CorruptBatch as damage:
            if not self._mend(segment, damage, None):
                raise
            return segment.locate(offset)

    def _mend(self, segment: Segment, damage: CorruptBatch, cached: CachedReads | None) -> bool:
        """A look-up in a segment met what is no batch: have its indexes told anew, which are derived data; answers
        whether that was done, and the look-up is worth another try. It is looked at once in the life of a process.

        With `cached` it raises ColdLookUp, as all batches have to be read. Raises StorageFailure.
        """
        mending = self._mendings.get(segment)
        if mending is None:
            mending = Mending(segment.twin(self._settings))
            self._mendings = {each: known for each, known in self._mendings.items() if each in self._run.items}
            self._mendings[segment] = mending
        if not mending.ran:
            if cached is not None:
                raise ColdLookUp(mending.run) from None
            mending.run()
        rebuilt, mending.found = mending.found, None
        if rebuilt is None or not segment.adopt_indexes(rebuilt):
            return False
        _logger.warning("%s: its index was wrong (%s) and has been made anew", segment.path, damage)
        self._sealed = [each for each in self._run.items if each is segment or each in self._sealed]
        self._owe(segment.seal)
        with suppress(StorageFailure):
            # What cannot be written waits, and whoever writes next says so.
            self.settle()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Throw everything away and begin again at `offset`."""
        self.settle()
        producers = ProducerTable(self.topic_partition)
        producers.restart((), offset)
        fresh = self._run.prepare(offset, self._settings)
        self._run.retire(self._run.items[::-1], (), self._settings.file_delete_delay_ms)
        self._owe(fresh.make)
        self._run.items[:] = [fresh]
        self._end_at(offset, offset, producers)
        self.cleaned_offset = None
        self.epochs.clear()
        self._high_watermark = offset
        self.settle()

    def _end_at(self, offset: int, start_offset: int, producers: ProducerTable) -> None:
        """All that memory knows of what is cut off goes."""
        self.generation += 1
        self._names += 1
        # A power cut may bring back names of segments whose indexes were never synced, and a recovery point above
        # them would vouch for these.
        unproven = [segment.base_offset for segment in self._sealed if segment not in self._run.items]
        self._sealed = [segment for segment in self._sealed if segment in self._run.items[:-1]]
        self.end_offset = offset
        self.start_offset = start_offset
        self.recovery_point = min(self.recovery_point, offset, *unproven)
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)
        self.producers = producers
        self._mendings.clear()
        self._activate()
        self._owe(partial(self._snapshots.remove_outside, start_offset, offset))

    def _producers_at(
        self, segments: Sequence[Segment], start_offset: int, offset: int, first_cut: Located | None
    ) -> ProducerTable:
        """The producers as they were at an offset; the batch that reaches beyond it, if there is one, is cut off."""
        end_offset = offset if first_cut is None else min(offset, first_cut.base_offset)
        table = ProducerTable(self.topic_partition)
        self._snapshots.restore(table, start_offset, end_offset)
        now_ms = self._world.clock.now_ms()
        table.expire(now_ms, self._settings.producer_expiration_ms)
        rebuild(table, segments, start_offset, end_offset, now_ms)
        table.end_offset = offset
        return table

    # Segments that go

    def expired_segments(self, now_ms: int) -> list[Segment]:
        """Those that retention gives up, oldest first."""
        bounds = Bounds(self.start_offset, self.end_offset, self._high_watermark)
        return self._run.items[: expired_count(self._run.items, bounds, self._settings, now_ms)]

    def delete_segments(self, going: Sequence[Segment]) -> None:
        """Let the oldest segments go; what is left to do on disk is in `take_removals`."""
        if not going:
            return
        self.settle()
        if len(going) == len(self._run.items):
            self.roll()
            going = [segment for segment in going if segment is not self._active]
        self._raise_start(self._run.items[len(going)].base_offset)
        del self._run.items[: len(going)]
        self._retire(going, [segment.base_offset for segment in going])
        self.settle()

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Swap neighbouring sealed segments for what compaction made of them (synced, named `.cleaned`).

        Raises StorageFailure; then either the old ones stand, or the new ones do and the disk has to catch up.
        """
        self.settle()
        try:
            self._run.begin_swap(new)
        except StorageFailure:
            self._roll_after = ROLL_TIME_UNKNOWN
            raise
        first = self._run.items.index(old[0])
        self._run.items[first : first + len(old)] = new
        bases = {segment.base_offset for segment in new}
        self._retire(old, [segment.base_offset for segment in old if segment.base_offset not in bases])
        self._owe(*[partial(segment.rename, "", log_last=True) for segment in new])
        self.settle()

    def discard(self, segment: Segment) -> None:
        """What compaction made is not wanted: its files have to go before anything else is done here, so that no later
        recovery takes them for the work of another time."""
        self._owe(segment.delete)
        self.settle()

    def _retire(self, segments: Sequence[Segment], snapshot_offsets: Sequence[int]) -> None:
        self._names += 1
        snapshots = [partial(self._snapshots.retire, offset) for offset in snapshot_offsets]
        self._run.retire(segments, snapshots, self._settings.file_delete_delay_ms)
        self._owe()

    def take_removals(self) -> list[Removal]:
        """Files that wait for their removal; the taker runs each in a thread when it is due."""
        return self._run.take_removals()

    # Flushing and closing

    @property
    def has_unflushed_sealed(self) -> bool:
        """Whether a segment that was closed by a roll still waits for its flush."""
        return bool(self._sealed) or self.recovery_point < self._active.base_offset

    def begin_flush(self, *, sealed_only: bool = False) -> FlushTicket | None:
        """What to sync so that everything up to the end (or up to the active segment) lasts; None when it does.

        Raises StorageFailure.
        """
        self.settle()
        offset = self._active.base_offset if sealed_only else self.end_offset
        return self._ticket(offset) if offset > self.recovery_point or self._sealed else None

    def _ticket(self, offset: int) -> FlushTicket:
        items = self._run.items
        try:
            files = [
                (segment, segment.file)
                for segment in items[self._run.slot(self.provable_point) :]
                if segment.base_offset < offset or segment in self._sealed
            ]
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error
        return FlushTicket(
            offset,
            self.generation,
            self._world.disk,
            self.directory,
            files,
            [segment for segment in self._sealed if segment in items],
            list(self._snapshots.unsynced),
            self.epochs.text() if self.epochs.dirty else None,
            self._names if self._names > self._lasting_names else 0,
        )

    def finish_flush(self, ticket: FlushTicket) -> None:
        """The ticket has run: what it covered is durable, but for what has been changed or cut back since."""
        if ticket.generation == self.generation:
            # Those that retention or compaction took away meanwhile need no flush any more.
            waiting = [segment for segment in self._sealed if segment not in ticket.sealed]
            self._sealed = [segment for segment in waiting if segment in self._run.items] if waiting else waiting
            self._snapshots.unsynced = [path for path in self._snapshots.unsynced if path not in ticket.snapshots]
            if ticket.offset > self.recovery_point:
                self.recovery_point = ticket.offset
        if self.epochs.dirty and ticket.epochs == self.epochs.text():
            self.epochs.dirty = False
        self._lasting_names = max(self._lasting_names, ticket.names)

    def move(self, directory: str) -> None:
        """The partition's directory has been renamed."""
        self.directory = self._snapshots.directory = directory
        self._run.move(directory)

    def close(self) -> None:
        """Write all down and let the files go; the next start needs no scan. Blocking; raises StorageFailure."""
        self.settle()
        active = self._active
        if active.changed or (active.size and self.end_offset > self.recovery_point):
            active.seal()
            if active not in self._sealed:
                self._sealed.append(active)
        self._snapshots.take(self.producers, self.end_offset)
        if (
            self._sealed
            or self._snapshots.unsynced
            or self.epochs.dirty
            or self.end_offset > self.recovery_point
            or self._names > max(self._lasting_names, 1)
        ):
            ticket = self._ticket(self.end_offset)
            ticket.run()
            self.finish_flush(ticket)
        self._run.close()

    def abandon(self) -> None:
        """Let the files go without writing anything, when the directory cannot be trusted."""
        self._run.close()
