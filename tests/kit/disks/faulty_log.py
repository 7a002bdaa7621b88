"""A partition's log on a disk that fails, beside a model of what it may not forget.

`FaultyLog` does what a broker does with the logs of one data directory, and notes what was acknowledged. A failure that
is a mere lack of room is passed over, as the broker does; any other one gives the directory up. `compare` holds the log
against the model: records at their offsets, aborted transactions, epochs, producers, indexes, the recovery point.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import NamedTuple

from kit.disks.compacting import CountingRandom, ManualClock
from kit.disks.faulty_disk import in_memory
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.log.checkpoints import Checkpoint
from ottla.log.cleaning import CleanerLimits
from ottla.log.compaction import Compactor
from ottla.log.data_directory import DOUBTED_FILE
from ottla.log.files import NotDurable, StorageFailure, World
from ottla.log.index import AbortedTransaction
from ottla.log.partition_log import AppendOutcome, PartitionLog
from ottla.log.producers import EndMarker
from ottla.log.properties import UnusableDirectory
from ottla.log.retention import sweep
from ottla.log.segment import FileRange
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore, NoUsableDirectory
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.header import BatchHeader, iterate_headers
from ottla.records.record import Record

DATA = "/data"
NAME = TopicPartition("orders", 0)
TOPIC_ID = TopicId(bytes(range(16)))

SMALL = LogSettings(segment_bytes=420, index_interval_bytes=100, file_delete_delay_ms=1000, retention_ms=-1)
KEYED = SMALL._replace(
    cleanup_compact=True, cleanup_delete=False, min_cleanable_ratio=0.0, delete_retention_ms=0, segment_bytes=380
)


class Written(NamedTuple):
    """A record, or the end of a transaction, as it was acknowledged."""

    value: bytes
    epoch: int
    producer: tuple[int, int, int]
    """Its producer's id and epoch and its sequence number."""
    transactional: bool = False
    commit: bool | None = None
    key: bytes | None = None


class Down(Exception):
    """The directory was given up, or the process could not start."""


class FaultyLog:
    """See the module."""

    def __init__(self, settings: LogSettings) -> None:
        self.settings = settings
        self.clock = ManualClock(1_700_000_000_000)
        self.disk = in_memory(self.clock.now_ms)
        self.starts = 0
        self.store: LogStore | None = None
        self.log: PartitionLog | None = None
        self.epoch = 1
        self.sequences: dict[int, int] = {}
        self.now: dict[int, Written] = {}
        """What was acknowledged and neither cut off nor given up by retention."""
        self.start = self.furthest_start = 0
        """What was below where the log ever began is forgotten (its epochs, the transactions that began there), also
        when the records come back."""
        self._before_cuts = 0
        """The same, without what cuts made of it: a power cut may undo them."""
        self.maybe: dict[int, set[Written]] = {}
        """What may be there again after a restart: an operation that takes it away was not finished, or one that would
        have brought it failed in the middle."""
        self.ever: dict[int, set[Written]] = {}
        self.lasting = 0
        """Everything below it was told to be durable."""
        self.superseded: set[int] = set()
        """Offsets of records that a compaction may have taken away, since later ones had their keys."""
        self.compacted_to = 0
        """Where the log ended when it was last compacted."""
        self.machine_doubted = False

    # What happens to the process

    def boot(self, *, boot: str = "") -> None:
        """Start, as after any end. Raises Down."""
        self.starts += 1
        world = World(self.disk, self.clock, CountingRandom(), boot=boot)
        store = LogStore([DATA], world, recovery_threads=1)
        try:
            store.open(1)
            store.load(lambda name: self.settings)
            store.mark_running(7)
        except (StorageFailure, NoUsableDirectory, UnusableDirectory, OSError) as problem:
            store.release()
            raise Down(str(problem)) from problem
        self.store = store
        self.log = store.get(NAME)
        if self.log is not None:
            self.log.high_watermark = self.log.end_offset

    def stop(self) -> None:
        """A clean stop, as far as the disk lets it."""
        if self.store is not None:
            self.store.close(7)
            self._noted(self.store.directories[0].failure)
        self.store = None

    def _noted(self, failure: Exception | None) -> None:
        """Who cannot even note that a sync failed asks for another start of the machine."""
        if isinstance(failure, NotDurable) and not self.disk.inner.exists(f"{DATA}/{DOUBTED_FILE}"):
            self.machine_doubted = True

    def end(self, ending: str, chance: int) -> bool:
        """How the process ends, or does not; answers whether the power was lost. The disk is well afterwards."""
        if self.log is not None:
            self.lasting = self.log.recovery_point
        if ending == "stops":
            self.stop()
        if ending in ("loses power", "loses power by chance") or self.machine_doubted:
            self.machine_doubted = False
            self.furthest_start = self._before_cuts
            self.disk.cut_power(Random(chance) if ending == "loses power by chance" else None)
            self.store = None
            return True
        if ending != "goes on" or self.store is None:
            self.disk.kill()
            self.store = None
        self.disk.heal()
        return False

    # What a broker does

    def attempt(self, work: Callable[[PartitionLog], object]) -> bool:
        """Do something to the log as it is done on the loop; answers whether it came to its end. Raises Down."""
        assert self.log is not None
        try:
            work(self.log)
        except StorageFailure as failure:
            self.failed(failure)
            return False
        return True

    def failed(self, failure: StorageFailure) -> None:
        """What `Broker.storage_failed` does."""
        if failure.out_of_space:
            return
        assert self.store is not None
        if self.log is not None:
            self.lasting = self.log.recovery_point
        with suppress(NoUsableDirectory):
            self.store.take_offline(self.store.directories[0], failure)
        self._noted(failure)
        self.store = None
        raise Down(str(failure))

    def make(self) -> None:
        """Have the log made, trying again while there is no room."""
        assert self.store is not None
        self.log = self.store.get(NAME)
        for _ in range(3):
            if self.log is not None:
                return
            try:
                self.log = self.store.create(NAME, TOPIC_ID, self.settings)
            except StorageFailure as failure:
                self.failed(failure)
            except NoUsableDirectory as problem:
                self.store = None
                raise Down(str(problem)) from problem

    def append(
        self, value: bytes, *, producer: int = -1, transactional: bool = False, key: bytes | None = None
    ) -> AppendOutcome | None:
        """As the leader of the present epoch; None when it was not written."""
        if self.log is None:
            return None
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        written = Written(value, self.epoch, (producer, 0 if producer >= 0 else -1, sequence), transactional, None, key)
        data = memoryview(self._batch(0, written))
        self.clock.now += 10
        before = self.log.end_offset
        outcome = self._write(written, lambda log: log.append_as_leader(data, self.epoch, self.clock.now))
        if outcome is None:
            return None
        assert outcome.base_offset == before, "no offset is given twice"
        self._took(before, written)
        if producer >= 0:
            self.sequences[producer] = sequence + 1
        return outcome

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        """Written again until it is written, as a coordinator does."""
        if self.log is None:
            return
        written = Written(b"", self.epoch, (producer, 0, -1), True, commit)
        marker = EndMarker(producer, 0, 1, commit)
        for _ in range(3):
            before = self.log.end_offset
            if self._write(written, lambda log: log.append_control(marker, self.epoch, self.clock.now)):
                self._took(before, written)
                return

    def follow(self, count: int) -> None:
        """Take batches of a leader, one at a time."""
        for _ in range(count):
            if self.log is None:
                return
            before = self.log.end_offset
            written = Written(b"from epoch %d at %d" % (self.epoch, before), self.epoch, (-1, -1, -1))
            data = memoryview(self._batch(before, written))
            if self._write(written, partial(PartitionLog.append_as_follower, data=data)):
                self._took(before, written)

    def _batch(self, offset: int, written: Written) -> bytearray:
        return build_batch(
            [Record(offset, self.clock.now, written.key, written.value, ())],
            base_offset=offset,
            leader_epoch=written.epoch,
            producer_id=written.producer[0],
            producer_epoch=written.producer[1],
            base_sequence=written.producer[2],
            transactional=written.transactional,
        )

    def _write(self, written: Written, work: Callable[[PartitionLog], AppendOutcome]) -> AppendOutcome | None:
        """The outcome, if it was written."""
        assert self.log is not None
        end = self.log.end_offset
        self.ever.setdefault(end, set()).add(written)
        try:
            outcome = work(self.log)
        except StorageFailure as failure:
            self.maybe.setdefault(end, set()).add(written)
            self.failed(failure)
            raise
        return outcome if outcome.error is ErrorCode.NONE else None

    def _took(self, offset: int, written: Written) -> None:
        assert self.log is not None
        self.maybe.clear()
        self.now[offset] = written
        self.ever.setdefault(offset, set()).add(written)
        self.log.high_watermark = self.log.end_offset

    def flush(self) -> None:
        def work(log: PartitionLog) -> None:
            ticket = log.begin_flush()
            if ticket is not None:
                ticket.run()
                log.finish_flush(ticket)

        if self.log is not None:
            self.attempt(work)

    def checkpoint(self) -> None:
        assert self.store is not None
        work = self.store.begin_checkpoint(*Checkpoint)
        work.run()
        try:
            self.store.finish_checkpoint(work)
        except NoUsableDirectory as problem:
            self.store = None
            raise Down(str(problem)) from problem

    def cut(self, offset: int) -> None:
        """Cut the log back, trying again while there is no room."""
        for _ in range(3):
            if self.log is None or self.log.end_offset <= offset:
                return
            self._cut(lambda log: log.truncate_to(offset))

    def begin_anew(self, offset: int) -> None:
        for _ in range(3):
            if self.log is None or self.log.start_offset == offset:
                return
            self._cut(lambda log: log.truncate_fully_and_start_at(offset))

    def _cut(self, work: Callable[[PartitionLog], object]) -> None:
        log = self.log
        assert log is not None
        try:
            done = self.attempt(work)
        except Down:
            self._doubt(self.now)
            self._shrink(log)
            raise
        gone = {offset: written for offset, written in self.now.items() if offset >= log.end_offset}
        if done:
            self.maybe.clear()
        else:
            self._doubt(gone if log.start_offset <= self.start else self.now)
        self._shrink(log)

    def _doubt(self, gone: dict[int, Written]) -> None:
        for offset, written in gone.items():
            self.maybe.setdefault(offset, set()).add(written)

    def _shrink(self, log: PartitionLog) -> None:
        self.start = log.start_offset
        kept = {at: each for at, each in self.now.items() if self.start <= at < log.end_offset}
        self._lost({at: each for at, each in self.now.items() if at >= log.end_offset})
        self.now = kept
        self.superseded = {at for at in self.superseded if at < log.end_offset}
        self.lasting = min(self.lasting, log.end_offset)
        self.furthest_start = min(self.furthest_start, log.end_offset)

    def _lost(self, gone: dict[int, Written]) -> None:
        """Producers send again what the log has no more; it may have forgotten who they are, but they have not."""
        for each in gone.values():
            producer, _, sequence = each.producer
            if each.commit is None and producer >= 0:
                self.sequences[producer] = min(self.sequences.get(producer, sequence), sequence)

    def delete_before(self, offset: int) -> None:
        """DeleteRecords, and what retention makes of it."""
        if self.log is None:
            return
        log = self.log
        log.delete_records_before(min(offset, log.high_watermark))
        self.sweep(log)

    def sweep(self, log: PartitionLog) -> None:
        """Retention."""
        failed = sweep([log], self.clock.now).failed
        self.start = log.start_offset
        self.furthest_start = max(self.furthest_start, self.start)
        self._before_cuts = max(self._before_cuts, self.furthest_start)
        self.now = {at: each for at, each in self.now.items() if at >= self.start}
        for _, problem in failed:
            if isinstance(problem, OSError):
                problem = StorageFailure.of(log.directory, problem)
            assert isinstance(problem, StorageFailure), problem
            self.failed(problem)

    def remove_files(self) -> None:
        """What was renamed away goes for good."""
        assert self.store is not None
        self.clock.now += self.settings.file_delete_delay_ms
        for removal in self.store.due_removals(self.clock.now):
            try:
                removal.run()
            except StorageFailure as failure:
                if failure.out_of_space:
                    self.store.try_again(removal)
                self.failed(failure)

    def compact(self) -> None:
        for _ in self.compaction():
            pass

    def compaction(self) -> Iterator[None]:
        """A compaction, step by step. Raises Down."""
        if self.log is None or self.store is None:
            return
        world = World(self.disk, self.clock, CountingRandom())
        compactor = Compactor(world, CleanerLimits(map_bytes=24 * 200), lambda seconds: None)
        self.log.high_watermark = self.log.end_offset
        running = compactor.begin([self.log], self.clock.now)
        if running is None:
            return
        self.compacted_to = self.log.end_offset
        newest = {each.key: offset for offset, each in sorted(self.now.items())}
        self.superseded |= {at for at, each in self.now.items() if each.key is None or newest[each.key] != at}
        error: Exception | None = None
        try:
            for step in running.steps():
                step()
                yield
        except Exception as problem:
            error = problem
        try:
            compactor.end(running, error)
        except StorageFailure as failure:
            self.failed(failure)
        assert not compactor.uncleanable, compactor.uncleanable

    def delete(self) -> None:
        """The topic goes; tried again while there is no room."""
        assert self.store is not None
        for _ in range(3):
            if self.log is None:
                return
            try:
                self.store.delete(NAME)
            except StorageFailure as failure:
                self.failed(failure)
                continue
            self.log = None
            self.forget()

    def forget(self) -> None:
        """There is no log, and none is missed."""
        self.now.clear()
        self.maybe.clear()
        self.sequences.clear()
        self.superseded.clear()
        self.compacted_to = 0
        self.start = self.furthest_start = self._before_cuts = self.lasting = 0

    # Comparing

    def batches(self) -> list[tuple[BatchHeader, list[Record]]]:
        """The log as a client that fetches again and again sees it."""
        log = self.log
        assert log is not None
        position = log.start_offset
        found = []
        while position < log.end_offset:
            answer = log.read(position, 1 << 20, log.end_offset, True)
            if answer is None:
                break
            assert isinstance(answer, FileRange), answer
            data = answer.file.read_at(answer.position, answer.length)
            before = position
            for start, header in iterate_headers(data):
                found.append((header, read_records(data, header, start)))
                position = header.next_offset
            assert position > before, "a read must bring the reader forward"
        return found

    def compare(self, *, power_lost: bool) -> None:
        """Everything that was acknowledged is there, and nothing is told that is not so."""
        log = self.log
        if log is None:
            assert not self.now or (power_lost and not self.lasting)
            return
        log.settle()
        batches = self.batches()
        there = {header.base_offset: _written(header, records) for header, records in batches}
        self._compare_records(there, power_lost=power_lost)
        self._compare_transactions(there)
        for header, _ in batches:
            if header.base_offset >= self.furthest_start:
                assert log.epochs.epoch_at(header.base_offset) == header.leader_epoch, (log.epochs.entries, header)
        assert log.epochs.latest_epoch <= self.epoch
        if log.start_offset == log.segments[0].base_offset:
            # Otherwise a time may lead to what was deleted.
            self._compare_look_ups(batches)
        assert log.recovery_point <= log.end_offset
        assert log.start_offset <= log.high_watermark <= log.end_offset

    def _compare_records(self, there: dict[int, Written], *, power_lost: bool) -> None:
        log = self.log
        assert log is not None
        for offset, written in there.items():
            before = power_lost or offset < self.start
            known = self.ever[offset] if before else {self.now.get(offset), *self.maybe.get(offset, ())}
            assert _emptied(written, known), (offset, written, known)
        # Where nothing was told to be durable a power cut may leave any part of what was there.
        assert log.start_offset <= self.start or (power_lost and self.lasting <= self.start), log.start_offset
        expected = {at: each for at, each in self.now.items() if not (power_lost and at >= self.lasting)}
        assert log.end_offset > max(expected, default=-1), (log.end_offset, max(expected))
        for offset, written in expected.items():
            if offset not in self.superseded:
                assert there.get(offset) == written, (offset, written, there.get(offset))
        if not self.settings.cleanup_compact:
            missing = set(range(max(self.start, log.start_offset), log.end_offset)) - there.keys()
            assert not missing, missing

    def _compare_transactions(self, there: dict[int, Written]) -> None:
        log = self.log
        assert log is not None
        opened: dict[int, list[int]] = {}
        told = {(each.producer_id, each.last_offset): each.first_offset for each in self._told_aborted()}
        for offset, written in sorted(there.items()):
            producer = written.producer[0]
            if written.commit is None:
                if written.transactional:
                    opened.setdefault(producer, []).append(offset)
                continue
            batches = opened.pop(producer, None)
            if batches is not None and not written.commit:
                self._compare_aborted(batches, told.pop((producer, offset), None))
        # The records show nothing of what began in what was deleted.
        assert all(first < max(log.start_offset, self.furthest_start) for first in told.values()), told
        log.high_watermark = log.end_offset
        known = [batches[0] for batches in opened.values() if batches[0] >= self.furthest_start]
        assert log.last_stable_offset <= min(known, default=log.end_offset)

    def _told_aborted(self) -> list[AbortedTransaction]:
        log = self.log
        assert log is not None
        told = log.aborted_transactions(log.start_offset, log.end_offset)
        assert len({(each.producer_id, each.last_offset) for each in told}) == len(told), told
        return told

    def _compare_aborted(self, batches: list[int], told: int | None) -> None:
        """An aborted transaction with these batches is told from this offset on.

        One that began in what was deleted is told with its beginning there, and the records show only the rest of it.
        Where the records came back the log may have forgotten the beginning, and tells it from a later batch on.
        """
        log = self.log
        assert log is not None
        remembered = [offset for offset in batches if offset >= self.furthest_start]
        if told is None:
            assert not remembered, batches
        elif told >= log.start_offset:
            assert told in batches, (told, batches)
            assert not remembered or told <= remembered[0], (told, batches)

    def _compare_look_ups(self, batches: list[tuple[BatchHeader, list[Record]]]) -> None:
        log = self.log
        assert log is not None
        newest = -1
        for header, records in batches:
            answer = log.read(header.base_offset, 1, log.end_offset, True)
            assert isinstance(answer, FileRange), (header, answer)
            assert answer.length == header.size, (header, answer)
            for record in records:
                if record.timestamp > newest and not header.control:
                    found = log.time_search(record.timestamp).run()
                    assert found is not None, (header, record.timestamp)
                    assert found.offset <= record.offset, (header, found)
                newest = max(newest, record.timestamp)

    def go_on(self) -> None:
        """The log takes part again: a retried batch is known, the next one is taken, and what is flushed lasts."""
        log = self.log
        assert log is not None
        self.checkpoint()
        there = {header.base_offset: _written(header, records) for header, records in self.batches()}
        last: dict[int, tuple[int, Written]] = {}
        opened: set[int] = set()
        for offset, written in sorted(there.items()):
            producer = written.producer[0]
            state = log.producers.state(producer)
            # What the log has forgotten of records that came back, nobody can expect; what it knows has to be true.
            if producer >= 0 and (offset >= self.furthest_start or (state is not None and state.batches)):
                opened.discard(producer)
                if written.commit is None:
                    last[producer] = (offset, written)
                    opened |= {producer} if written.transactional else set()
        for producer, (offset, written) in list(last.items()):
            state = log.producers.state(producer)
            if self.settings.cleanup_compact and state is not None and state.last_sequence > written.producer[2]:
                # A cut took away what compaction had believed to be this producer's last batch.
                self.sequences[producer] = state.last_sequence + 1
                del last[producer]
                continue
            # What compaction emptied had a key once, and would not be taken without one.
            emptied = self.settings.cleanup_compact and written.key is None
            data = self._batch(0, written._replace(key=b"any") if emptied else written)
            outcome = log.append_as_leader(memoryview(data), self.epoch, self.clock.now)
            assert outcome.error is ErrorCode.NONE, (producer, outcome)
            # A power cut may leave a batch, cut off since, before one that came in its place. Where nothing of both was
            # durable, nobody can tell that what lay between is missing.
            found = there.get(outcome.base_offset) if outcome.base_offset >= self.lasting else None
            assert outcome.base_offset == offset or (found and found.producer == written.producer), (producer, outcome)
        self._lost({offset: written for offset, written in self.now.items() if offset >= log.end_offset})
        self.now = there
        self.maybe.clear()
        self.start = log.start_offset
        # A snapshot may know a producer whose batches lie below the log's start: it goes on from there, as clients do.
        known = {state.producer_id: state.last_sequence + 1 for state in log.producers.states() if state.batches}
        self.sequences |= known | {producer: written.producer[2] + 1 for producer, (_, written) in last.items()}
        for offset, written in there.items():
            self.ever.setdefault(offset, set()).add(written)
        assert self.append(b"afterwards", key=b"afterwards") is not None
        for producer in opened:
            self.end_transaction(producer, commit=False)
        self.flush()
        self.checkpoint()
        self.compare(power_lost=False)


def _written(header: BatchHeader, records: list[Record]) -> Written:
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    if header.control:
        commit = records[0].key is not None and records[0].key[3] == 1
        return Written(b"", header.leader_epoch, (producer[0], producer[1], -1), True, commit)
    value = records[0].value if records else b""
    key = records[0].key if records else None
    return Written(value or b"", header.leader_epoch, producer, header.transactional, None, key)


def _emptied(written: Written, known: set[Written] | set[Written | None]) -> bool:
    """Whether a record is one of these, or what compaction leaves of one for its producer's sake."""
    return written in known or (not written.value and written.key is None and written.commit is None)
