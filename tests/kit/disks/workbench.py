"""One log on a bench: opened on a disk that can fail, fed with small batches, read back as records."""

from pathlib import Path

from kit.disks.compacting import CountingRandom, ManualClock
from kit.disks.faulty_disk import Cut, FaultyDisk, lose_unsynced
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.files import World
from ottla.log.open_files import OpenFiles
from ottla.log.partition_log import AppendOutcome, PartitionLog
from ottla.log.recovery import load_log
from ottla.log.segment import FileRange
from ottla.log.settings import LogSettings
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.header import BatchHeader, iterate_headers
from ottla.records.record import Record
from ottla.runtime.disk import RealDisk

NAME = TopicPartition("orders", 3)


class Workbench:
    """A log with everything around it."""

    def __init__(self, directory: Path, settings: LogSettings | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = str(directory)
        self.settings = LogSettings() if settings is None else settings
        self.disk = FaultyDisk(RealDisk())
        self.clock = ManualClock(1_700_000_000_000)
        self.open_files = OpenFiles(2)  # so few that logs of several segments go on without theirs
        self.log = self.load()

    def load(self, *, clean: bool = False, recovery_point: int = 0, start_offset: int = 0) -> PartitionLog:
        world = World(self.disk, self.clock, CountingRandom(), open_files=self.open_files)
        log = load_log(
            world,
            NAME,
            self.directory,
            self.settings,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
        )
        # Whoever keeps this log's recovery point writes it down whenever it changes.
        log.checkpointed = 0
        return log

    def restart(self) -> None:
        """A clean stop and a start."""
        old = self.log
        old.close()
        self.log = self.load(clean=True, recovery_point=old.recovery_point, start_offset=old.start_offset)
        self.log.high_watermark = max(old.high_watermark, self.log.start_offset)

    def crash(self, cut: Cut = lose_unsynced) -> None:
        """A power cut and a start; the checkpoints are as fresh as they can be."""
        old = self.log
        old.abandon()
        self.disk.crash(self.directory, cut)
        self.log = self.load(recovery_point=old.recovery_point, start_offset=old.start_offset)
        self.log.high_watermark = self.log.end_offset

    def flush(self) -> None:
        ticket = self.log.begin_flush()
        if ticket is not None:
            ticket.run()
            self.log.finish_flush(ticket)

    def append(
        self,
        *values: bytes,
        timestamp: int | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
        epoch: int = 0,
    ) -> AppendOutcome:
        """One batch of these values; `producer` is id, epoch and first sequence. The watermark follows."""
        data = batch(
            *values,
            timestamp=self.clock.now if timestamp is None else timestamp,
            producer=producer,
            transactional=transactional,
        )
        outcome = self.log.append_as_leader(memoryview(data), epoch, self.clock.now)
        self.log.high_watermark = self.log.end_offset
        return outcome

    def fill(self, count: int, size: int = 100) -> None:
        for number in range(count):
            outcome = self.append(b"%06d" % number + b"." * size)
            assert outcome.error is ErrorCode.NONE, outcome

    def headers(self, offset: int | None = None, max_bytes: int = 1 << 30) -> list[BatchHeader]:
        """The batches from an offset to the end, whatever segments they are in."""
        return [header for header, _ in self._walk(offset, max_bytes)]

    def records(self, offset: int | None = None, max_bytes: int = 1 << 30) -> list[tuple[int, bytes | None]]:
        """Offset and value of every record from an offset on, as a client that fetches again and again sees them."""
        first = self.log.start_offset if offset is None else offset
        return [
            (record.offset, record.value)
            for header, records in self._walk(offset, max_bytes)
            for record in records
            if record.offset >= first and not header.control
        ]

    def _walk(self, offset: int | None, max_bytes: int) -> list[tuple[BatchHeader, list[Record]]]:
        log = self.log
        position = log.start_offset if offset is None else offset
        found = []
        while position < log.end_offset:
            answer = log.read(position, max_bytes, log.end_offset, True)
            if answer is None:
                break
            assert isinstance(answer, FileRange), answer
            data = answer.file.read_at(answer.position, answer.length)
            assert len(data) == answer.length
            before = position
            for start, header in iterate_headers(data):
                found.append((header, read_records(data, header, start)))
                position = header.next_offset
            assert position > before, "a read must bring the reader forward"
        return found


def batch(
    *values: bytes,
    timestamp: int = 1_700_000_000_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of these values, as a producer sends it (or, with a base offset, as a leader stored it)."""
    producer_id, producer_epoch, sequence = producer
    return build_batch(
        [Record(base_offset + number, timestamp, None, value, ()) for number, value in enumerate(values)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
