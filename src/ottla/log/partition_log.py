"""One partition's log at work: append, read, look up.

Owns: the rules by which batches are written and found. Never knows: requests, replication. It is the `StoredLog` with
what clients do to it, and belongs to the event-loop thread like that.
Invariant: an append either is in the file whole, with producers and indexes told, or has left no trace.
"""

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.log.cached_reads import CachedReads, ColdLookUp, NotCached
from ottla.log.files import StorageFailure
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker, KeptBatch, ProducerRefusal
from ottla.log.replay import replay
from ottla.log.segment import FileRange, Segment
from ottla.log.stored_log import ROLL_TIME_UNKNOWN, LoadedLog, StoredLog
from ottla.log.timestamps import TimeSearch
from ottla.records.check import LABORIOUS, BatchRefusal, Checked, check
from ottla.records.control import EndTransaction, build_control
from ottla.records.header import (
    LOG_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    assign,
    checksum,
    iterate_headers,
    read_header,
)

__all__ = ["UNCHECKED", "AppendOutcome", "LoadedLog", "PartitionLog", "StorageFailure"]

_RECENT = 32
"""How many of the last batches are found without an index."""

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


UNCHECKED = AppendOutcome(_NONE, -1, -1, -1)
"""Nothing was appended: whether the batch may be is for a thread to find out. Told from others by identity."""


class PartitionLog(StoredLog):
    """One partition's log, for those who append to it and read it."""

    __slots__ = ()

    # Appending

    def append_as_leader(
        self,
        data: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        origin_client: bool = True,
        checked: Checked | BatchRefusal | None = None,
    ) -> AppendOutcome:
        """Append one batch from a writable buffer: its offset and epoch are set there, and that buffer is written.

        UNCHECKED when a client's batch takes long to check: `checker` does that in a thread, and the batch comes again
        with its verdict.
        """
        if checked is None:
            # By position: Python makes a call by name the slow way, and this one is made for every batch.
            checked = check(data, self._rules, now_ms, self.topic_partition, origin_client, not origin_client)
        if isinstance(checked, BatchRefusal):
            if checked is LABORIOUS:
                return UNCHECKED
            return AppendOutcome(checked.error, -1, -1, self.start_offset, checked.message, checked.record_errors)
        batch, header, log_append_time = checked
        base_offset = self.end_offset
        producer_id = header.producer_id
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
            self.producers.note(header, base_offset, now_ms)
        return _new(AppendOutcome, (_NONE, base_offset, log_append_time, self.start_offset, None, ()))

    def checker(self, data: memoryview, now_ms: int) -> Callable[[], Checked | BatchRefusal]:
        """What is to be known of a client's batch that takes long to check; made to run in a thread."""
        return partial(check, data, self._rules, now_ms, self.topic_partition)

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
        aborted = self.producers.note_marker(marker, base_offset, now_ms, now_ms)
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
            aborted = replay(self.producers, header, batch, now_ms)
            if aborted is not None:
                self._active.transaction_index.append(aborted)
        return AppendOutcome(_NONE, found[0][1].base_offset, -1, self.start_offset)

    def _store(
        self, batch: memoryview | bytearray, header: BatchHeader, base_offset: int, now_ms: int
    ) -> AppendOutcome | None:
        """Write one batch that has its offset, rolling first when it is time; answers only when that fails."""
        size = header.length + LOG_OVERHEAD
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
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
            return self._write_failed(segment, StorageFailure.of(segment.path, error))
        except StorageFailure as failure:
            return self._write_failed(segment, failure)
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
        self.settle()
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
        # Once the batch is written nothing may fail, and accounting for it looks at what is newest so far.
        _ = segment.latest, segment.time_index.last()
        if not segment.size:
            first = timestamp
        # A segment whose first batch has no timestamp rolls by the clock, which only this way can tell.
        self._roll_after = first + lifetime if first >= 0 else ROLL_TIME_UNKNOWN
        return segment

    def _not_written(self, verdict: KeptBatch | ProducerRefusal) -> AppendOutcome:
        if isinstance(verdict, ProducerRefusal):
            return self._refused(verdict.error, verdict.message)
        _, _, first_offset, _, timestamp = verdict
        return AppendOutcome(_NONE, first_offset, timestamp, self.start_offset)

    def _refused(self, error: ErrorCode, message: str) -> AppendOutcome:
        return AppendOutcome(error, -1, -1, self.start_offset, message)

    def _write_failed(self, segment: Segment, failure: StorageFailure) -> AppendOutcome:
        if segment.longer and self._run.settled:
            self._owe(segment.shorten)
        if not failure.out_of_space:
            raise failure
        return self._refused(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No room to append to {self.topic_partition} ({failure}); nothing was written.",
        )

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper_offset: int,
        at_least_one: bool,
        cached: CachedReads | None = None,
    ) -> FileRange | ErrorCode | None:
        """The bytes from the batch that holds `offset`, within one segment and below the batch of `upper_offset`.

        At most `max_bytes`, which may cut the last batch; the first one comes whole when `at_least_one`, or not at all.
        None when there is nothing (yet). With `cached` it raises ColdLookUp rather than wait for the disk.
        """
        if offset < self.start_offset or offset > self.end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset >= upper_offset:
            return None
        recent = self._recent_offsets
        if not recent or offset < recent[0]:
            return self._read_indexed(offset, max_bytes, upper_offset, at_least_one, cached)
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
        self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool, cached: CachedReads | None
    ) -> FileRange | ErrorCode | None:
        segments = self._run.items
        slot = self._run.slot(offset)
        segment = segments[slot]
        try:
            located = segment.locate(offset, cached)
            # Compaction may have left nothing at or above the offset in its own segment.
            while located is None:
                slot += 1
                if slot == len(segments):
                    return None
                segment = segments[slot]
                located = segment.locate(offset, cached)
            position, first, _ = located
            end = segment.size
            if upper_offset < (self._run.following(slot) or self.end_offset):
                bound = segment.locate(upper_offset, cached)
                if bound is not None:
                    end = bound.position
            if first > max_bytes:
                if not at_least_one:
                    return None
                max_bytes = first
            length = min(end - position, max_bytes)
            return FileRange(segment.file, position, length) if length > 0 else None
        except CorruptBatch as damage:
            if not self._mend(segment, damage, cached):
                return ErrorCode.CORRUPT_MESSAGE
            return self._read_indexed(offset, max_bytes, upper_offset, at_least_one, cached)
        except NotCached:
            raise self._cold(segment, lambda twin: (twin.locate(offset), twin.locate(upper_offset))) from None
        except OSError as error:
            raise StorageFailure.of(segment.path, error) from error

    def _cold(self, segment: Segment, look_up: Callable[[Segment], object]) -> ColdLookUp:
        """What a thread has to do: the same look-up, on a segment of its own over the same files."""
        twin = segment.twin(self._settings)

        def warm() -> None:
            # Renamed or cut meanwhile, or unreadable: the look-up that follows on the loop meets it, and tells.
            with suppress(OSError, StorageFailure, CorruptBatch):
                look_up(twin.load())

        return ColdLookUp(warm)

    def aborted_transactions(
        self, from_offset: int, upper_offset: int, cached: CachedReads | None = None
    ) -> list[AbortedTransaction]:
        """Those whose records may lie in [from_offset, upper_offset), for readers that skip them, as they began."""
        found: list[AbortedTransaction] = []
        for segment in self._run.items[self._run.slot(from_offset) :]:
            try:
                some, complete = segment.transaction_index.overlapping(from_offset, upper_offset, cached)
            except NotCached:
                raise self._cold(
                    segment, lambda twin: twin.transaction_index.overlapping(from_offset, upper_offset)
                ) from None
            found += some
            if complete:
                break
        found.sort(key=_first_offset)
        return found

    def upper_bound(self, offset: int, answer: FileRange, cached: CachedReads | None = None) -> int:
        """An offset beyond every record in what a read at `offset` answered; not always the lowest such.

        It keeps a reader far behind from being told of all transactions up to the end of the log.
        """
        run = self._run
        end = answer.position + answer.length
        for slot in range(run.slot(offset), len(run.items)):
            segment = run.items[slot]
            if segment.has_open(answer.file):
                try:
                    beyond = segment.index.offset_beyond(end, cached)
                except NotCached:
                    raise self._cold(segment, lambda twin: twin.index.offset_beyond(end)) from None
                following = run.following(slot)
                if beyond is None or beyond <= offset:  # the latter says an index that is wrong
                    return self.end_offset if following is None else following
                return beyond
        return self.end_offset

    def time_search(self, timestamp: int | None) -> TimeSearch:
        """What finds the first record at least this new, or the first one with the greatest timestamp."""
        # An empty segment holds no time, and its file may not be there yet.
        twins = [segment.twin(self._settings) for segment in self.segments if segment.size]
        return TimeSearch(twins, timestamp, self.start_offset, self.generation)

    def searched(self, search: TimeSearch) -> bool:
        """A search has run: keep what it learned; answers whether the log is still the one that was searched."""
        if search.generation != self.generation or search.start_offset != self.start_offset:
            return False
        twins = {twin.base_offset: twin for twin in search.twins}
        for segment in self.segments:
            twin = twins.get(segment.base_offset)
            if twin is not None:
                segment.learn(twin)
        return True


def _first_offset(aborted: AbortedTransaction) -> int:
    return aborted.first_offset
