"""This node's copy of the metadata log: batches in, facts out.

Owns: `__cluster_metadata-0` on disk with its snapshots, how facts become batches and back, which facts have been told.
Never knows: elections, what the facts say.
Invariants: the facts of one decision are one batch, so a torn write loses all of them or none; what is told was
committed, and is told once and in order; the facts of a transaction are told when it ends, or never. What an earlier
process left is written to new files before it counts as stored; the newest snapshot and the log are one history.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from itertools import zip_longest
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import ByteView
from ottla.base.vocabulary import TopicPartition
from ottla.log.batches import read_batches
from ottla.log.files import LOG_SUFFIX, StorageFailure, World, offset_of, offset_path
from ottla.log.flushing import FlushTicket, Removal
from ottla.log.partition_log import AppendOutcome, PartitionLog
from ottla.log.properties import PARTITION_FILE, write_topic_id
from ottla.log.recovery import load_log
from ottla.log.segment import FileRange
from ottla.log.settings import LogSettings
from ottla.log.whole_file import TEMPORARY_SUFFIX, write_again
from ottla.metadata.facts import BadFact, Fact, decode_facts, encode_facts
from ottla.metadata.names import METADATA_TOPIC
from ottla.metadata.quorum_events import Stored, UnreadableMetadata
from ottla.quorum.settings import QuorumSettings
from ottla.quorum.snapshots import Snapshots
from ottla.raft.log_view import Entry, LogPosition, LogView
from ottla.raft.translation import TOPIC_ID
from ottla.raft.voters import VoterSet
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.control import Control, control_record, read_control
from ottla.records.header import CorruptBatch, checksum, iterate_headers
from ottla.records.record import Record
from ottla.wire.stored.metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

_LARGEST_INT = 2**31 - 1
_LARGEST_LONG = 2**63 - 1
_TOLD_AT_ONCE = 500
"""Batches told together, at most."""


class _Recent(NamedTuple):
    """A batch that was written and not told; the leader has its facts at hand, a follower its bytes."""

    base_offset: int
    next_offset: int
    epoch: int
    facts: list[Fact] | None
    data: ByteView


@contextmanager
def _storing(path: str) -> Iterator[None]:
    """Whatever the disk refuses here is a StorageFailure."""
    try:
        yield
    except OSError as error:
        raise StorageFailure.of(path, error) from error


class QuorumLog:
    """The log with its snapshots. Made in `open`; from then on it belongs to the event loop."""

    def __init__(self, world: World, directory: str, settings: QuorumSettings, *, counted_on: bool = True) -> None:
        """`counted_on`: others may rely on what is stored here, as this node can vote. Blocking."""
        self._world = world
        self.directory = directory
        self._settings = settings
        self._log_settings = LogSettings(
            segment_bytes=settings.segment_bytes,
            segment_ms=settings.segment_ms,
            retention_ms=-1,
            max_message_bytes=_LARGEST_INT,
            timestamp_after_max_ms=_LARGEST_LONG // 2,
        )
        self.snapshots = Snapshots(world, directory)
        self._recent: deque[_Recent] = deque()
        self._transaction: list[Fact] | None = None
        self.told_offset = 0
        """Everything before it was told."""
        self._kept: list[LogPosition] = []
        with _storing(directory):
            world.disk.make_directory(directory)
            if not world.disk.exists(f"{directory}/{PARTITION_FILE}"):
                write_topic_id(world.disk, directory, TOPIC_ID)
            self.snapshots.drop_leftovers()
            if counted_on:
                self._write_again()
            self._log = self._open()

    # Bytes of which a sync may have failed are proven by a new file only: design/0022.
    def _write_again(self) -> None:
        """A sync that failed says so once: what the last process wrote may be in memory alone and seem to be stored.

        What a snapshot tells was synced before the snapshot got its name.
        """
        disk, directory = self._world.disk, self.directory
        told = max((position.offset for position in self.snapshots.found()), default=0)
        names = disk.list(directory)
        for name in names:
            if name.endswith(LOG_SUFFIX + TEMPORARY_SUFFIX):
                disk.remove(f"{directory}/{name}")
        bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := offset_of(name)) is not None)
        for base, following in zip_longest(bases, bases[1:], fillvalue=_LARGEST_LONG):
            if following > told:
                write_again(disk, offset_path(directory, base, LOG_SUFFIX))

    def _open(self, end_offset: int = _LARGEST_LONG) -> PartitionLog:
        """The log with nothing behind `end_offset`, and beside it the snapshots that are its history."""
        kept = self.snapshots.found()
        # Names count as well: a snapshot that is used from here on must not be gone after a power cut.
        self._world.disk.sync_directory(self.directory)
        name = TopicPartition(METADATA_TOPIC, 0)
        log = load_log(self._world, name, self.directory, self._log_settings, topic_id=TOPIC_ID)
        try:
            log.truncate_to(end_offset)
            _drop_what_came_back(log, kept[-1].offset if kept else 0)
            if kept and not _goes_on_from(log, kept[-1]):
                # Stopped between the arrival of a snapshot and the end of the log that it replaces.
                log.truncate_fully_and_start_at(kept[-1].offset)
        except (OSError, StorageFailure):
            log.abandon()
            raise
        self._kept = kept
        return log

    # --- how it looks ------------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def synced_offset(self) -> int:
        """Everything before it lasts."""
        return self._log.recovery_point

    @property
    def size(self) -> int:
        return self._log.size

    @property
    def snapshot(self) -> LogPosition | None:
        """The newest."""
        return self._kept[-1] if self._kept else None

    @property
    def interrupted(self) -> bool:
        """Whether what was told ends inside a transaction of facts, which the next leader has to abort."""
        return self._transaction is not None

    def view(self, voters: VoterSet, kraft_version: int) -> LogView:
        """What the machine has to know. Blocking; raises UnreadableMetadata."""
        view = LogView(voters, kraft_version)
        if self._kept:
            view.restart_behind(self._kept[-1], self.snapshots.controls(self._kept[-1]))
        if self._log.start_offset == 0:
            view.begin_at(LogPosition(0, 0))
        else:
            behind = [position for position in self._kept if position.offset >= self._log.start_offset]
            if not behind:
                raise UnreadableMetadata(
                    f"The metadata log in {self.directory} begins at {self._log.start_offset} and there is no snapshot "
                    "of what came before; restore one from another node."
                )
            view.begin_at(behind[0])
        view.append(entry for entry in self._entries() if entry.base_offset >= view.start_offset)
        assert view.end_offset == self._log.end_offset, (view.end_offset, self._log.end_offset)
        return view

    def _entries(self) -> Iterator[Entry]:
        for segment in self._log.segments:
            if not segment.size:
                continue
            with _storing(segment.path):
                view = segment.file.map()
            try:
                for position, header in iterate_headers(view):
                    controls = read_controls(view, position) if header.control else ()
                    yield Entry(header.base_offset, header.next_offset, header.leader_epoch, controls, None)
            except CorruptBatch as problem:
                raise UnreadableMetadata(f"{segment.path} is damaged ({problem}); restore it from a copy.") from problem

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, facts: list[Fact], epoch: int) -> int:
        """Write the facts of one decision; answers the end of the log. On StorageFailure none is there."""
        now = self._world.clock.now_ms()
        base = self.end_offset
        records = [Record(offset, now, None, value) for offset, value in enumerate(encode_facts(facts), base)]
        self._append(build_batch(records, base_offset=base, leader_epoch=epoch), epoch, now)
        self._recent.append(_Recent(base, self.end_offset, epoch, facts, b""))
        return self.end_offset

    def write_controls(self, base_offset: int, epoch: int, controls: tuple[Control, ...]) -> None:
        """Write records of the quorum's own."""
        assert base_offset == self.end_offset, (base_offset, self.end_offset)
        now = self._world.clock.now_ms()
        records = [control_record(control, offset, now) for offset, control in enumerate(controls, base_offset)]
        self._append(build_batch(records, base_offset=base_offset, leader_epoch=epoch, control=True), epoch, now)
        self._recent.append(_Recent(base_offset, self.end_offset, epoch, [], b""))

    def _append(self, batch: bytearray, epoch: int, now: int) -> None:
        with _storing(self.directory):
            outcome = self._log.append_as_leader(memoryview(batch), epoch, now, origin_client=False)
        self._check(outcome)

    def write_entries(self, entries: tuple[Entry, ...]) -> None:
        """Write what the leader sent."""
        for entry in entries:
            assert isinstance(entry.data, bytes | bytearray | memoryview)
            with _storing(self.directory):
                outcome = self._log.append_as_follower(memoryview(entry.data))
            self._check(outcome)
            self._recent.append(_Recent(entry.base_offset, entry.next_offset, entry.epoch, None, entry.data))

    def _check(self, outcome: AppendOutcome) -> None:
        if outcome.error != ErrorCode.NONE:
            # The log answers, rather than raises, when there is merely no room.
            raise StorageFailure(self.directory, ENOSPC, outcome.message or outcome.error.name)

    def truncate(self, offset: int) -> None:
        """Remove what lies at `offset` and above."""
        assert offset >= self.told_offset, (offset, self.told_offset)
        with _storing(self.directory):
            self._log.truncate_to(offset)
        self._forget(offset)

    def _forget(self, offset: int) -> None:
        while self._recent and self._recent[-1].next_offset > offset:
            self._recent.pop()

    def repair(self, end_offset: int, *, exact: bool) -> None:
        """Open it anew after a failure and drop everything behind this offset; `exact`: it must reach that far.

        Where an installation was under way it ends here, one way or the other. Blocking; raises StorageFailure.
        """
        self._log.abandon()
        self._recent.clear()
        with _storing(self.directory):
            self._log = self._open(end_offset)
        if exact and self._log.end_offset < end_offset:
            raise StorageFailure(self.directory, 0, f"facts before offset {end_offset} are missing")
        self.sync()

    def install(self, position: LogPosition) -> None:
        """A snapshot from another node is here whole: it takes the log's place."""
        with _storing(self.directory):
            self._log.truncate_fully_and_start_at(position.offset)
        self._recent.clear()
        self._kept = sorted({*self._kept, position})

    # --- syncing -----------------------------------------------------------------------------------------------------

    def begin_sync(self) -> FlushTicket | None:
        """What to run in an I/O thread so that everything written lasts."""
        with _storing(self.directory):
            return self._log.begin_flush()

    def finish_sync(self, ticket: FlushTicket) -> None:
        self._log.finish_flush(ticket)

    def sync(self) -> None:
        """Both steps at once. Blocking."""
        ticket = self.begin_sync()
        if ticket is not None:
            ticket.run()
            self.finish_sync(ticket)

    def close(self) -> None:
        """Write all down and let the files go. Blocking; raises StorageFailure."""
        self.snapshots.drop_portions()
        with _storing(self.directory):
            self._log.close()

    def abandon(self) -> None:
        """Let the files go as they are. Blocking."""
        self.snapshots.drop_portions()
        self._log.abandon()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_bytes(self, offset: int, most: int) -> bytes:
        """Whole batches from `offset` on; at least one when there is one. The last may be cut."""
        with _storing(self.directory):
            found = self._log.read(offset, most, self.end_offset, at_least_one=True)
            return found.file.read_at(found.position, found.length) if isinstance(found, FileRange) else b""

    def told_snapshot(self, position: LogPosition) -> None:
        """The newest snapshot was told; what is told next comes behind it."""
        self._transaction = None
        self.told_offset = position.offset

    def tell(self, high_watermark: int) -> Iterator[list[Stored]]:
        """What is committed and was not told, in order. Raises UnreadableMetadata."""
        self._log.high_watermark = high_watermark
        told: list[Stored] = []
        for stored, next_offset in self._untold(high_watermark):
            told.append(Stored(self._counting(stored.facts), stored.offset, stored.epoch))
            self.told_offset = next_offset
            if len(told) == _TOLD_AT_ONCE:
                yield told
                told = []
        if told:
            yield told

    def _untold(self, high_watermark: int) -> Iterator[tuple[Stored, int]]:
        first = self._recent[0].base_offset if self._recent else self.end_offset
        if self.told_offset < min(first, high_watermark):
            yield from self._on_disk(self.told_offset, min(first, high_watermark))
        while self._recent and self._recent[0].next_offset <= high_watermark:
            base, next_offset, epoch, facts, data = self._recent.popleft()
            if base < self.told_offset:
                continue
            if facts is None:
                facts = self._decode(memoryview(data))
            yield Stored(facts, next_offset - 1, epoch), next_offset

    def _on_disk(self, offset: int, upper: int) -> Iterator[tuple[Stored, int]]:
        for segment in list(self._log.segments):
            with _storing(segment.path):
                for batch in read_batches(segment.file, end=segment.size):
                    if batch.header.base_offset < offset:
                        continue
                    if batch.header.next_offset > upper:
                        return
                    stored = Stored(self._decode(batch.data), batch.header.last_offset, batch.header.leader_epoch)
                    yield stored, batch.header.next_offset

    def _decode(self, data: memoryview) -> list[Fact]:
        _, header = next(iterate_headers(data))
        try:
            if header.control:
                return []
            return decode_facts(record.value for record in read_records(data, header))
        except (BadFact, CorruptBatch) as problem:
            raise UnreadableMetadata(
                f"A fact between the offsets {header.base_offset} and {header.last_offset} of the metadata log in "
                f"{self.directory} cannot be used: {problem}. "
                "Start the release that wrote it, or restore the log from a copy."
            ) from problem

    def _counting(self, facts: list[Fact]) -> list[Fact]:
        """Those that count now: the facts of a transaction come when it ends."""
        if self._transaction is None and not any(isinstance(fact, BeginTransactionRecord) for fact in facts):
            return facts
        ready: list[Fact] = []
        for fact in facts:
            if isinstance(fact, BeginTransactionRecord):
                self._transaction = []
            elif isinstance(fact, EndTransactionRecord):
                ready += self._transaction or ()
                self._transaction = None
            elif isinstance(fact, AbortTransactionRecord):
                self._transaction = None
            else:
                (ready if self._transaction is None else self._transaction).append(fact)
        return ready

    # --- what is old -------------------------------------------------------------------------------------------------

    def took_snapshot(self, position: LogPosition) -> None:
        """A new snapshot is written."""
        self._kept = sorted({*self._kept, position})

    def trim(self) -> list[Removal]:
        """Old snapshots, and the log before the oldest that stays, may go; what is left to do is for a thread.

        Raises StorageFailure; what was done until then is done.
        """
        while len(self._kept) > 1 and self._is_too_much():
            self.snapshots.remove(self._kept[0])
            del self._kept[0]
            self._log.delete_records_before(self._kept[0].offset)
        with _storing(self.directory):
            self._log.delete_segments(self._log.expired_segments(self._world.clock.now_ms()))
        return self._log.take_removals()

    def _is_too_much(self) -> bool:
        settings = self._settings
        whole = self.size + sum(map(self.snapshots.size, self._kept))
        return 0 <= settings.retention_bytes < whole or 0 <= settings.retention_ms < self.snapshots.age_ms(
            self._kept[0]
        )


def _drop_what_came_back(log: PartitionLog, settled: int) -> None:
    """Truncate the log where epochs go back: a power cut may undo the removal of segments that a leader had overruled.

    What lies before the offset `settled` was committed, and is never removed.
    """
    epoch = 0
    for segment, following in zip_longest(log.segments, log.segments[1:]):
        if following is not None and following.base_offset <= settled:
            continue
        for _, header in segment.headers():
            if header.leader_epoch < epoch:
                log.truncate_to(header.base_offset)
                return
            epoch = header.leader_epoch


def _goes_on_from(log: PartitionLog, snapshot: LogPosition) -> bool:
    """Whether the log is of the history that the snapshot tells; a record's epoch says so, not its offset."""
    if log.start_offset >= snapshot.offset:
        first = next((header for segment in log.segments for _, header in segment.headers()), None)
        return first is None or first.leader_epoch >= snapshot.epoch
    for segment in reversed(log.segments):
        if segment.base_offset < snapshot.offset:
            located = segment.locate(snapshot.offset - 1)
            return located is not None and next(segment.headers(located.position))[1].leader_epoch == snapshot.epoch
    return False


def read_controls(data: ByteView, position: int) -> tuple[Control, ...]:
    """The control records of the batch there."""
    view = memoryview(data)[position:]
    _, header = next(iterate_headers(view))
    return tuple(content for record in read_records(view, header) if (content := read_control(record)) is not None)


def read_entries(data: ByteView) -> tuple[Entry, ...]:
    """The whole batches in a leader's answer. Raises CorruptBatch."""
    view = memoryview(data)
    entries = []
    for position, header in iterate_headers(view):
        batch = view[position : position + header.size]
        if checksum(batch, 0, header.size) != header.crc:
            raise CorruptBatch(position, "the checksum is wrong")
        controls = read_controls(batch, 0) if header.control else ()
        entries.append(Entry(header.base_offset, header.next_offset, header.leader_epoch, controls, bytes(batch)))
    return tuple(entries)
