"""One partition's log: append, read, roll, cut, flush.

Owns: the order of segments, the offsets of the partition (start, end, high watermark, recovery point) and the rules by
which batches are written. Never knows: requests, replication, which thread syncs. The whole of it belongs to the
event-loop thread; only `FlushTicket.run` and `Removal.run` are made for others.
Invariants: start_offset ≤ high_watermark ≤ end_offset; the last segment takes the appends; an append either is in the
file whole, with producers and indexes told, or has left no trace.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.log.epochs import EpochHistory
from ottla.log.files import LARGEST_RELATIVE_OFFSET, StorageFailure, World
from ottla.log.flushing import FlushTicket, Removal
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker, KeptBatch, ProducerTable, Refusal
from ottla.log.replay import rebuild, replay
from ottla.log.retention import Bounds, expired_count
from ottla.log.segment import FileRange, Segment
from ottla.log.segment_run import SegmentRun
from ottla.log.settings import LogSettings
from ottla.log.snapshots import SnapshotFiles
from ottla.log.timestamps import TimedOffset, first_at_or_after, latest
from ottla.records.check import Rejection, check
from ottla.records.control import EndTransaction, build_control
from ottla.records.header import (
    BatchHeader,
    CorruptBatch,
    assign,
    checksum,
    iterate_headers,
    read_header,
)

__all__ = ["AppendOutcome", "LoadedLog", "PartitionLog", "StorageFailure"]

_RECENT = 32
"""How many of the last batches are found without an index."""
_UNKNOWN = -(1 << 63)
"""A roll time that sends every append the long way, which works the real one out."""

_new = tuple.__new__  # half the time of a named tuple's own constructor
_NONE = ErrorCode.NONE


class AppendOutcome(NamedTuple):
    """What became of one append; a repeated batch answers the offset of its first writing."""

    error: ErrorCode
    base_offset: int
    log_append_time: int
    log_start_offset: int
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


class LoadedLog(NamedTuple):
    """What is known of a log when it is opened."""

    segments: list[Segment]
    start_offset: int
    end_offset: int
    recovery_point: int
    producers: ProducerTable
    snapshots: SnapshotFiles
    epochs: EpochHistory


class PartitionLog:
    """See the module."""

    __slots__ = (
        "_active",
        "_generation",
        "_high_watermark",
        "_last_fitting",
        "_recent_offsets",
        "_recent_positions",
        "_roll_after",
        "_rules",
        "_run",
        "_segment_bytes",
        "_settings",
        "_snapshots",
        "_world",
        "directory",
        "end_offset",
        "epochs",
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
        self._snapshots = loaded.snapshots
        self._high_watermark = self.start_offset
        self._generation = 0
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []
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
        self._roll_after = _UNKNOWN

    def _activate(self) -> None:
        """The last segment has become another one, or another length."""
        self._active = self._run.items[-1]
        self._last_fitting = self._active.base_offset + LARGEST_RELATIVE_OFFSET
        self._roll_after = _UNKNOWN
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

    # Appending

    def append_as_leader(
        self, data: memoryview, leader_epoch: int, now_ms: int, *, origin_client: bool = True
    ) -> AppendOutcome:
        """Append one batch from a writable buffer: its offset and epoch are set there, and that buffer is written."""
        checked = check(data, self._rules, now_ms, self.topic_partition, from_client=origin_client)
        if isinstance(checked, Rejection):
            return AppendOutcome(checked.error, -1, -1, self.start_offset, checked.message, checked.record_errors)
        batch, header, log_append_time = checked
        base_offset = self.end_offset
        producer_id = header[9]
        if producer_id >= 0:
            verdict = self.producers.examine(header, base_offset, sequenced=origin_client)
            if verdict is not None:
                return self._not_written(verdict)
        assign(batch, 0, base_offset, leader_epoch)
        failed = self._store(batch, header, base_offset, now_ms)
        if failed is not None:
            return failed
        if leader_epoch != self.epochs.latest_epoch and leader_epoch >= 0:
            self.epochs.assign(leader_epoch, base_offset)
        if producer_id >= 0:
            self.producers.note(header, base_offset)
        return _new(AppendOutcome, (_NONE, base_offset, log_append_time, self.start_offset, None, ()))

    def append_control(self, marker: EndMarker, leader_epoch: int, now_ms: int) -> AppendOutcome:
        """Append the end of a transaction."""
        base_offset = self.end_offset
        refusal = self.producers.examine_marker(marker, base_offset)
        if refusal is not None:
            return self._not_written(refusal)
        batch = build_control(
            EndTransaction(marker.commit, marker.coordinator_epoch),
            offset=base_offset,
            timestamp=now_ms,
            leader_epoch=leader_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        failed = self._store(batch, read_header(batch), base_offset, now_ms)
        if failed is not None:
            return failed
        if leader_epoch != self.epochs.latest_epoch and leader_epoch >= 0:
            self.epochs.assign(leader_epoch, base_offset)
        aborted = self.producers.note_marker(marker, base_offset, now_ms)
        if aborted is not None:
            self._active.transaction_index.append(aborted)
        return AppendOutcome(_NONE, base_offset, -1, self.start_offset)

    def append_as_follower(self, data: memoryview) -> AppendOutcome:
        """Append whole batches as the leader wrote them, with their offsets and epochs; a partial last one is left."""
        try:
            found = list(iterate_headers(data))
            for position, header in found:
                if checksum(data, position, header.size) != header.crc:
                    raise CorruptBatch(position, "the checksum is wrong")
        except CorruptBatch as damage:
            return self._refused(ErrorCode.CORRUPT_MESSAGE, f"from the leader of {self.topic_partition}: {damage}")
        if not found:
            return AppendOutcome(_NONE, self.end_offset, -1, self.start_offset)
        expected = self.end_offset
        for _, header in found:
            if header.base_offset < expected:
                return self._refused(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"A batch at {header.base_offset} cannot follow the end {expected} of {self.topic_partition}.",
                )
            expected = header.next_offset
        now_ms = self._world.clock.now_ms()
        for position, header in found:
            base_offset = header.base_offset
            batch = data[position : position + header.size]
            failed = self._store(batch, header, base_offset, now_ms)
            if failed is not None:
                return failed
            if header.leader_epoch >= 0:
                self.epochs.assign(header.leader_epoch, base_offset)
            aborted = replay(self.producers, header, batch)
            if aborted is not None:
                self._active.transaction_index.append(aborted)
        return AppendOutcome(_NONE, found[0][1].base_offset, -1, self.start_offset)

    def _store(
        self, batch: memoryview | bytearray, header: BatchHeader, base_offset: int, now_ms: int
    ) -> AppendOutcome | None:
        """Write one batch that has its offset, rolling first when it is time; answers only when that fails."""
        size = header[1] + 12
        last_offset = base_offset + header[6]
        timestamp = header[8]
        segment = self._active
        try:
            if (
                segment.size + size > self._segment_bytes
                or timestamp > self._roll_after
                or last_offset > self._last_fitting
                or segment.full
            ):
                if size > self._segment_bytes:
                    return self._refused(
                        ErrorCode.RECORD_LIST_TOO_LARGE,
                        f"A batch of {size} bytes is larger than segment.bytes of {self.topic_partition} allows.",
                    )
                segment = self._make_room(size, last_offset, timestamp, now_ms, base_offset)
            position = segment.write(batch, size)
        except OSError as error:
            return self._write_failed(StorageFailure.of(segment.path, error))
        except StorageFailure as failure:
            return self._write_failed(failure)
        segment.note(position, size, last_offset, timestamp)
        offsets = self._recent_offsets
        if base_offset != self.end_offset:
            # Behind a gap the batch before does not reach up to this one.
            offsets.clear()
            self._recent_positions.clear()
        offsets.append(base_offset)
        self._recent_positions.append(position)
        if len(offsets) > _RECENT:
            del offsets[: _RECENT // 2]
            del self._recent_positions[: _RECENT // 2]
        self.end_offset = self.producers.end_offset = last_offset + 1
        return None

    def _make_room(self, size: int, last_offset: int, timestamp: int, now_ms: int, base_offset: int) -> Segment:
        """The segment that takes this batch: a new one when the active one is full, old, or too far below."""
        segment = self._active
        lifetime = self._settings.roll_ms - segment.jitter_ms
        first = segment.first_timestamp
        aged = (timestamp - first if first >= 0 else now_ms - segment.created_ms) > lifetime
        if (
            segment.size + size > self._segment_bytes
            or (segment.size and aged)
            or last_offset > self._last_fitting
            or (segment.size and segment.full)
        ):
            segment = self.roll(base_offset)
        if not segment.size:
            first = timestamp
        # A segment whose first batch has no timestamp rolls by the clock, which only this way can tell.
        self._roll_after = first + lifetime if first >= 0 else _UNKNOWN
        return segment

    def _not_written(self, verdict: KeptBatch | Refusal) -> AppendOutcome:
        if isinstance(verdict, Refusal):
            return self._refused(verdict.error, verdict.message)
        _, _, first_offset, _, timestamp = verdict
        return AppendOutcome(_NONE, first_offset, timestamp, self.start_offset)

    def _refused(self, error: ErrorCode, message: str) -> AppendOutcome:
        return AppendOutcome(error, -1, -1, self.start_offset, message)

    def _write_failed(self, failure: StorageFailure) -> AppendOutcome:
        if not failure.out_of_space:
            raise failure
        return self._refused(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No room on the disk to append to {self.topic_partition} ({failure}); nothing was written.",
        )

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
        self._activate()
        return segment

    # Reading

    def read(self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool) -> FileRange | ErrorCode | None:
        """The bytes from the batch that holds `offset`, within one segment and below the batch of `upper_offset`.

        At most `max_bytes`, which may cut the last batch; the first one comes whole when `at_least_one`, or not at all.
        None when there is nothing (yet).
        """
        if offset < self.start_offset or offset > self.end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset >= upper_offset:
            return None
        recent = self._recent_offsets
        if not recent or offset < recent[0]:
            return self._read_indexed(offset, max_bytes, upper_offset, at_least_one)
        positions = self._recent_positions
        slot = bisect_right(recent, offset)
        segment = self._active
        position = positions[slot - 1]
        end = segment.size
        first = (positions[slot] if slot < len(positions) else end) - position
        if upper_offset < self.end_offset:
            end = positions[bisect_right(recent, upper_offset) - 1]
        if first > max_bytes:
            if not at_least_one:
                return None
            max_bytes = first
        length = end - position
        if length > max_bytes:
            length = max_bytes
        return _new(FileRange, (segment.file, position, length)) if length else None

    def _read_indexed(
        self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
    ) -> FileRange | ErrorCode | None:
        segments = self._run.items
        slot = self._run.slot(offset)
        segment = segments[slot]
        try:
            located = segment.locate(offset)
            # Compaction may have left nothing at or above the offset in its own segment.
            while located is None:
                slot += 1
                if slot == len(segments):
                    return None
                segment = segments[slot]
                located = segment.locate(offset)
            position, first, _ = located
            end = segment.size
            if upper_offset < (self._run.following(slot) or self.end_offset):
                bound = segment.locate(upper_offset)
                if bound is not None:
                    end = bound.position
            if first > max_bytes:
                if not at_least_one:
                    return None
                max_bytes = first
            length = min(end - position, max_bytes)
            return FileRange(segment.file, position, length) if length > 0 else None
        except CorruptBatch:
            return ErrorCode.CORRUPT_MESSAGE
        except OSError as error:
            raise StorageFailure.of(segment.path, error) from error

    def aborted_transactions(self, from_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Those whose records may lie in [from_offset, upper_offset), for readers that skip them."""
        found: list[AbortedTransaction] = []
        for segment in self._run.items[self._run.slot(from_offset) :]:
            some, complete = segment.transaction_index.overlapping(from_offset, upper_offset)
            found += some
            if complete:
                break
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """The first record at least this new."""
        try:
            return first_at_or_after(self.segments, timestamp, self.start_offset)
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error

    def max_timestamp(self) -> TimedOffset | None:
        """The first record with the greatest timestamp."""
        try:
            return latest(self.segments)
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error

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
        return _NONE

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
        self.expire_producers(self._world.clock.now_ms())
        rebuild(self.producers, self._run.items, self.start_offset, self.end_offset)
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
        retired = [self._snapshots.retire(segment.base_offset) for segment in going]
        paths = [path for path in retired if path is not None]
        self._run.remove(going, self._settings.file_delete_delay_ms, paths)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Swap neighbouring sealed segments for what compaction made of them (synced, named `.cleaned`)."""
        kept = {segment.base_offset for segment in new}
        retired = [self._snapshots.retire(segment.base_offset) for segment in old if segment.base_offset not in kept]
        paths = [path for path in retired if path is not None]
        self._run.replace(new, old, self._settings.file_delete_delay_ms, paths)

    def take_removals(self) -> list[Removal]:
        """Files that wait for their removal; the taker runs each in a thread when it is due."""
        return self._run.take_removals()

    # Flushing and closing

    @property
    def has_unflushed_sealed(self) -> bool:
        """Whether a segment that was closed by a roll still waits for its flush."""
        return self.recovery_point < self._active.base_offset

    def begin_flush(self, *, sealed_only: bool = False) -> FlushTicket | None:
        """What to sync so that everything up to the end (or up to the active segment) lasts; None when it does."""
        offset = self._active.base_offset if sealed_only else self.end_offset
        return self._ticket(offset) if offset > self.recovery_point else None

    def _ticket(self, offset: int) -> FlushTicket:
        first = self._run.slot(self.recovery_point)
        try:
            files = [
                (segment, file)
                for segment in self._run.items[first:]
                if segment.base_offset < offset
                for file in segment.files_to_sync()
            ]
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error
        epochs = self.epochs.text() if self.epochs.dirty else None
        self.epochs.dirty = False
        snapshots = self._snapshots.unsynced
        self._snapshots.unsynced = []
        return FlushTicket(offset, self._generation, self._world.disk, self.directory, files, snapshots, epochs)

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
        if self._active.size:
            self._active.seal()
        self._snapshots.take(self.producers)
        if self.end_offset > self.recovery_point or self._snapshots.unsynced or self.epochs.dirty:
            ticket = self._ticket(self.end_offset)
            ticket.run()
            self.finish_flush(ticket)
        self._run.close()

    def abandon(self) -> None:
        """Let the files go without writing anything, when the directory cannot be trusted."""
        self._run.close()
