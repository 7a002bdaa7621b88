"""One partition's log as it is kept: its segments and offsets, how it rolls, is cut, flushed and closed.

Owns: the order of segments and the offsets of the partition (start, end, high watermark, recovery point). Never knows:
how batches come and go (that is `PartitionLog`, built on this), which thread syncs. All of it belongs to the event-loop
thread; only `FlushTicket.run` and `Removal.run` are made for others.
Invariants: start_offset ≤ high_watermark ≤ end_offset; the last segment takes the appends. Everything below the
recovery point is on stable storage; of the active segment that is the log file only, as recovery makes the indexes of
the segment that holds the recovery point anew.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.epochs import EpochHistory
from ottla.log.files import LARGEST_RELATIVE_OFFSET, StorageFailure, World
from ottla.log.flushing import FlushTicket, Removal
from ottla.log.producers import ProducerTable
from ottla.log.replay import rebuild
from ottla.log.retention import Bounds, expired_count
from ottla.log.segment import Segment
from ottla.log.segment_run import SegmentRun
from ottla.log.settings import LogSettings
from ottla.log.snapshots import SnapshotFiles

ROLL_TIME_UNKNOWN = -(1 << 63)
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


class StoredLog:
    """See the module."""

    __slots__ = (
        "_active",
        "_generation",
        "_high_watermark",
        "_last_fitting",
        "_names_changed",
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
        "directory",
        "end_offset",
        "epochs",
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
        self._high_watermark = self.start_offset
        self._generation = 0
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []
        # Indexes that recovery made anew, or a roll left behind, and that no flush has covered.
        self._sealed = self._run.items[self._run.slot(self.recovery_point) : -1]
        self._names_changed = True
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
    def unflushed_messages(self) -> int:
        return self.end_offset - self.recovery_point

    def roll(self, next_offset: int = 0) -> Segment:
        """Close the active segment and begin another at the end of the log (or further up); raises StorageFailure."""
        active = self._active
        base_offset = max(next_offset, self.end_offset)
        if active.size == 0 and base_offset == active.base_offset:
            return active
        active.seal()
        segment = self._run.create(base_offset, self._settings)
        self.producers.end_offset = base_offset
        self._snapshots.take(self.producers)
        self._run.items.append(segment)
        self._sealed.append(active)
        self._names_changed = True
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
        self.recovery_point = max(self.recovery_point, offset)
        self.epochs.truncate_start(offset)
        self.producers.release_below(offset)
        self.producers.end_offset = max(self.producers.end_offset, offset)

    def truncate_to(self, offset: int) -> bool:
        """Cut the log back to end at `offset` (or before, at a batch's boundary); answers whether that changed it."""
        if offset >= self.end_offset:
            self.epochs.truncate_end(self.end_offset)
            return False
        if offset < self._run.items[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self._generation += 1
        self._remove([segment for segment in self._run.items if segment.base_offset > offset])
        self._activate()
        self._active.truncate(offset, self._world.clock.now_ms())
        self.end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.start_offset = min(self.start_offset, offset)
        self.epochs.truncate_end(offset)
        self._rebuild_producers()
        self.high_watermark = self._high_watermark
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Throw everything away and begin again at `offset`."""
        self._generation += 1
        going = list(self._run.items)
        self._remove(going)
        self._run.items.append(self._run.create(offset, self._settings))
        self._activate()
        self.start_offset = self.end_offset = self.recovery_point = offset
        self.epochs.clear()
        self._snapshots.remove_outside(offset, offset)
        self._rebuild_producers()
        self._high_watermark = offset

    def _rebuild_producers(self) -> None:
        self._snapshots.remove_outside(self.start_offset, self.end_offset)
        self._snapshots.restore(self.producers, self.start_offset, self.end_offset)
        now_ms = self._world.clock.now_ms()
        self.expire_producers(now_ms)
        rebuild(self.producers, self._run.items, self.start_offset, self.end_offset, now_ms)
        self._snapshots.take(self.producers)

    # Segments that go

    def expired_segments(self, now_ms: int) -> list[Segment]:
        """Those that retention gives up, oldest first."""
        bounds = Bounds(self.start_offset, self.end_offset, self._high_watermark)
        return self._run.items[: expired_count(self._run.items, bounds, self._settings, now_ms)]

    def delete_segments(self, going: Sequence[Segment]) -> None:
        """Let the oldest segments go; what is left to do on disk is in `take_removals`."""
        if not going:
            return
        if len(going) == len(self._run.items):
            self.roll()
            going = [segment for segment in going if segment is not self._active]
        following = self._run.items[len(going)].base_offset
        self._raise_start(following)
        self._remove(going)

    def _remove(self, going: Sequence[Segment]) -> None:
        if going:
            self._run.remove(going)
            self._schedule_removal(going, {segment.base_offset for segment in going})

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Swap neighbouring sealed segments for what compaction made of them (synced, named `.cleaned`)."""
        self._run.replace(new, old)
        bases = {segment.base_offset for segment in old} - {segment.base_offset for segment in new}
        self._schedule_removal(old, bases)

    def _schedule_removal(self, segments: Sequence[Segment], snapshot_offsets: set[int]) -> None:
        self._names_changed = True
        retired = [self._snapshots.retire(offset) for offset in snapshot_offsets]
        paths = [path for path in retired if path is not None]
        self._run.schedule(segments, paths, self._settings.file_delete_delay_ms)

    def take_removals(self) -> list[Removal]:
        """Files that wait for their removal; the taker runs each in a thread when it is due."""
        return self._run.take_removals()

    # Flushing and closing

    @property
    def has_unflushed_sealed(self) -> bool:
        """Whether a segment that was closed by a roll still waits for its flush."""
        return bool(self._sealed) or self.recovery_point < self._active.base_offset

    def begin_flush(self, *, sealed_only: bool = False) -> FlushTicket | None:
        """What to sync so that everything up to the end (or up to the active segment) lasts; None when it does."""
        offset = self._active.base_offset if sealed_only else self.end_offset
        return self._ticket(offset) if offset > self.recovery_point or self._sealed else None

    def _ticket(self, offset: int) -> FlushTicket:
        items = self._run.items
        try:
            files = [
                (segment, segment.file)
                for segment in items[self._run.slot(self.recovery_point) :]
                if segment.base_offset < offset
            ]
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error
        paths = [path for segment in self._sealed if segment in items for path in segment.index_paths()]
        epochs = self.epochs.text() if self.epochs.dirty else None
        ticket = FlushTicket(
            offset,
            self._generation,
            self._world.disk,
            self.directory,
            files,
            paths + self._snapshots.unsynced,
            epochs,
            self._names_changed,
        )
        self._sealed = []
        self._snapshots.unsynced = []
        self.epochs.dirty = self._names_changed = False
        return ticket

    def finish_flush(self, ticket: FlushTicket) -> None:
        """The ticket has run: what it covered is durable, unless the log has been cut back since."""
        if ticket.generation == self._generation and ticket.offset > self.recovery_point:
            self.recovery_point = ticket.offset

    def move(self, directory: str) -> None:
        """The partition's directory has been renamed."""
        self.directory = self._snapshots.directory = directory
        self._run.move(directory)

    def close(self) -> None:
        """Write all down and let the files go; the next start needs no scan. Blocking; raises StorageFailure."""
        active = self._active
        if active.size and (active.touched or self.end_offset > self.recovery_point):
            active.seal()
            self._sealed.append(active)
        self._snapshots.take(self.producers)
        if self._sealed or self._snapshots.unsynced or self.epochs.dirty:
            ticket = self._ticket(self.end_offset)
            ticket.run()
            self.finish_flush(ticket)
        self._run.close()

    def abandon(self) -> None:
        """Let the files go without writing anything, when the directory cannot be trusted."""
        self._run.close()
