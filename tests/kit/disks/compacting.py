"""A log to compact: building keyed histories, compacting without threads, and reading back what is left."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ottla.base.errors import ErrorCode
from ottla.base.ports import Disk
from ottla.base.vocabulary import TopicPartition
from ottla.log.cleaning import CleanerLimits
from ottla.log.compaction import Compaction, Compactor
from ottla.log.files import World
from ottla.log.partition_log import PartitionLog
from ottla.log.recovery import load_log
from ottla.log.segment import FileRange
from ottla.log.settings import LogSettings
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.header import BatchHeader, iterate_headers
from ottla.records.record import Record
from ottla.runtime.disk import RealDisk

NAME = TopicPartition("keyed", 0)
COMPACTED = LogSettings(cleanup_compact=True, cleanup_delete=False, min_cleanable_ratio=0.0, delete_retention_ms=1000)


class ManualClock:
    """A clock that moves when it is told to."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


class CountingRandom:
    """Identities that differ and are the same in every run."""

    def __init__(self) -> None:
        self.count = 0

    def identity(self) -> bytes:
        self.count += 1
        return self.count.to_bytes(16, "big")

    def uniform(self, low: float, high: float) -> float:
        return low


def manual_world(disk: Disk | None = None) -> tuple[World, ManualClock]:
    clock = ManualClock()
    return World(RealDisk() if disk is None else disk, clock, CountingRandom()), clock


def open_log(world: World, directory: Path, settings: LogSettings = COMPACTED) -> PartitionLog:
    directory.mkdir(exist_ok=True)
    return load_log(world, NAME, str(directory), settings)


def append(
    log: PartitionLog,
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    *,
    compression: int = 0,
    timestamp: int = 1000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> int:
    """One batch with these keys and values; answers its base offset. All of it counts as replicated."""
    records = [Record(slot, timestamp + slot, key, value) for slot, (key, value) in enumerate(pairs)]
    producer_id, epoch, sequence = producer
    data = build_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    outcome = log.append_as_leader(memoryview(data), 0, 1_000_000)
    assert outcome.error == ErrorCode.NONE, outcome
    log.high_watermark = log.end_offset
    return outcome.base_offset


def history(log: PartitionLog, *batches: Sequence[tuple[bytes | None, bytes | None]], compression: int = 0) -> None:
    """One segment for each batch, and an empty active one after them."""
    for pairs in batches:
        append(log, pairs, compression=compression)
        log.roll()


def replicated(log: PartitionLog) -> PartitionLog:
    log.high_watermark = log.end_offset
    return log


def compactor(world: World, limits: CleanerLimits = CleanerLimits()) -> Compactor:  # noqa: B008
    return Compactor(world, limits, lambda seconds: None)


def compact(work: Compactor, log: PartitionLog, world: World) -> Compaction | None:
    """One whole compaction of a log, as a host would drive it; None when it is not worth it."""
    running = work.begin([log], world.clock.now_ms())
    if running is not None:
        for step in running.steps():
            step()
        work.end(running)
    return running


def read_batches_from(log: PartitionLog, offset: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Everything a reader gets that starts at an offset, range by range."""
    while True:
        found = log.read(offset, 1 << 20, log.high_watermark, True)
        if found is None:
            return
        assert isinstance(found, FileRange), found
        data = found.file.read_at(found.position, found.length)
        assert data
        for position, header in iterate_headers(data):
            yield header, read_records(data, header, position)
            offset = header.next_offset


def read_from(log: PartitionLog, offset: int) -> list[Record]:
    return [
        record
        for header, records in read_batches_from(log, offset)
        for record in records
        if record.offset >= offset and not header.control
    ]


def latest_values(records: Iterable[Record]) -> dict[bytes, bytes]:
    """The table that a history describes: a tombstone removes its key."""
    table: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_from(log, log.start_offset)]
