"""The work of compaction: from sealed segments to one that holds the last record of each key.

Owns: what stays of a batch (Kafka's cleaner's rules), and the memory and disk rate it may use. Never knows: which log
is worth it, nor how the new segment takes the place of the old ones; that is `compaction`.
Invariants: runs in an I/O thread and shares nothing that changes with anyone; a batch of which everything stays is
copied as it is; offsets and the range of a kept batch never change; a batch with a wrong checksum is never copied on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.base.ports import Clock, Disk
from ottla.log.batches import StoredBatch, read_batches
from ottla.log.index import AbortedTransaction
from ottla.log.offset_map import OffsetMap
from ottla.log.segment import Segment
from ottla.log.transaction_sieve import TransactionSieve, control_type
from ottla.records import codec
from ottla.records.builder import build_batch, empty_batch
from ottla.records.header import BatchHeader, CorruptBatch, checksum

SLICE_SECONDS = 0.0005
BREATH_SECONDS = 0.0001
RECORDS_AT_ONCE = 128
"""After so many records of one batch the clock is looked at again."""


class CleaningStopped(Exception):
    """The work was called off."""


class MapTooSmall(Exception):
    """Not even one batch's keys fit in the memory for offsets."""


class CleanerLimits(NamedTuple):
    """What one cleaner may use: `log.cleaner.*`."""

    map_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    buffer_bytes: int = 512 * 1024
    bytes_per_second: float = float("inf")


class Pace:
    """Keeps the work below its rate, stops it on demand, and lets others have the interpreter now and then."""

    __slots__ = ("_clock", "_rate", "_sliced", "_spent", "_started", "_wait", "stopped")

    def __init__(self, rate: float, clock: Clock, wait: Callable[[float], None]) -> None:
        self.stopped = False
        self._rate = rate
        self._clock = clock
        self._wait = wait
        self._started = self._sliced = clock.monotonic()
        self._spent = 0

    def spend(self, size: int) -> None:
        """Account for so many bytes read or written, and wait if that was too fast. Raises CleaningStopped."""
        if self.stopped:
            raise CleaningStopped
        self._spent += size
        now = self._clock.monotonic()
        ahead = self._spent / self._rate - (now - self._started)
        if ahead > 0:
            self._wait(ahead)
        elif now - self._sliced > SLICE_SECONDS:
            # Pure Python work holds the interpreter; without a breath the event loop would wait for its turn.
            self._wait(BREATH_SECONDS)
        else:
            return
        self._sliced = self._clock.monotonic()


class SealedSource(NamedTuple):
    """One sealed segment, as values: where its bytes are and how many count."""

    base_offset: int
    next_base_offset: int
    path: str
    size: int


class Mapped(NamedTuple):
    """The last offset of every key up to an offset."""

    offsets: OffsetMap
    latest_offset: int


class LastBatch(NamedTuple):
    """The batch that holds an active producer's state: by its last offset, or (-1) its last marker by epoch."""

    last_offset: int
    epoch: int


class CleaningPlan(NamedTuple):
    """What the filter holds every batch against."""

    mapped: Mapped
    sieve: TransactionSieve
    producers: Mapping[int, LastBatch]
    upper_offset: int
    now_ms: int
    delete_retention_ms: int


class Cleaned(NamedTuple):
    """Sizes before and after."""

    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int


def map_offsets(
    disk: Disk,
    sources: Sequence[SealedSource],
    start_offset: int,
    aborted: Sequence[AbortedTransaction],
    limits: CleanerLimits,
    pace: Pace,
) -> Mapped:
    """Walk the dirty segments until they end or the memory is full. Raises MapTooSmall, CorruptBatch, OSError."""
    span = sources[-1].next_base_offset - start_offset
    capacity = min(span, OffsetMap.affordable(limits.map_bytes, limits.load_factor))
    offsets = OffsetMap(capacity, limits.load_factor)
    sieve = TransactionSieve([transaction for transaction in aborted if transaction.last_offset >= start_offset])
    latest = start_offset - 1
    for source in sources:
        file = disk.open(source.path, read_only=True)
        try:
            for batch in read_batches(file, 0, source.size, limits.buffer_bytes):
                pace.spend(len(batch.data))
                if batch.header.last_offset < start_offset:
                    continue
                if not _map_batch(batch, start_offset, offsets, sieve, pace):
                    if latest < start_offset:
                        raise MapTooSmall(
                            f"the batch at offset {batch.header.base_offset} has more keys than log.cleaner."
                            f"dedupe.buffer.size has room for ({capacity}); raise it."
                        )
                    return Mapped(offsets, latest)
                latest = batch.header.last_offset
        finally:
            file.close()
        # Offsets may be missing at the end of a segment.
        latest = max(latest, source.next_base_offset - 1)
    return Mapped(offsets, latest)


def _map_batch(batch: StoredBatch, start_offset: int, offsets: OffsetMap, sieve: TransactionSieve, pace: Pace) -> bool:
    """Remember the offsets of a batch's keys; False when there was no room for all."""
    header = batch.header
    _verify(batch)
    if header.control:
        sieve.drops_marker(header, _marker(batch))
        return True
    if sieve.drops_data(header) or not header.records_count:
        return True
    base_offset = header.base_offset
    put = offsets.put
    scanned = codec.scan(batch.payload(), header.records_count)
    for start in range(0, len(scanned), RECORDS_AT_ONCE):
        pace.spend(0)
        for delta, _, key, _ in scanned[start : start + RECORDS_AT_ONCE]:
            if key is not None and base_offset + delta >= start_offset and not put(key, base_offset + delta):
                return False
    return True


def clean_into(
    disk: Disk, sources: Sequence[SealedSource], target: Segment, plan: CleaningPlan, limits: CleanerLimits, pace: Pace
) -> Cleaned:
    """Copy what stays of the sources into `target`, then seal and sync it. Raises CorruptBatch, OSError."""
    bytes_read = bytes_kept = records_read = records_kept = 0
    output = bytearray()
    pending: list[tuple[int, int, int, int]] = []

    def write() -> None:
        position = target.write(output, len(output))
        for start, size, last_offset, max_timestamp in pending:
            target.note(position + start, size, last_offset, max_timestamp)
        pace.spend(len(output))
        output.clear()
        pending.clear()

    for source in sources:
        file = disk.open(source.path, read_only=True)
        try:
            for batch in read_batches(file, 0, source.size, limits.buffer_bytes):
                pace.spend(len(batch.data))
                bytes_read += len(batch.data)
                records_read += batch.header.records_count
                kept = _sift(batch, plan, pace)
                if kept is None:
                    continue
                data, header = kept
                pending.append((len(output), len(data), header.last_offset, header.max_timestamp))
                output += data
                bytes_kept += len(data)
                records_kept += header.records_count
                if len(output) >= limits.buffer_bytes:
                    write()
        finally:
            file.close()
        for transaction in plan.sieve.kept:
            target.transaction_index.append(transaction)
        plan.sieve.kept.clear()
    if output:
        write()
    target.seal()
    target.sync()
    return Cleaned(bytes_read, bytes_kept, records_read, records_kept)


_Kept = tuple[memoryview | bytearray, BatchHeader]


def _sift(batch: StoredBatch, plan: CleaningPlan, pace: Pace) -> _Kept | None:
    """What stays of a batch: itself, a smaller one, an empty one for the producer's sake, or nothing."""
    header = batch.header
    _verify(batch)
    horizon = header.delete_horizon
    if header.control:
        droppable = plan.sieve.drops_marker(header, _marker(batch))
        gone = droppable and horizon is not None and horizon <= plan.now_ms
        if not gone and header.records_count:
            if droppable and horizon is None:
                # The transaction's data is gone; the marker follows when readers have had time to pass it.
                return _rebuilt(batch, None, plan.now_ms + plan.delete_retention_ms)
            return batch.data, header
    elif not plan.sieve.drops_data(header):
        if header.base_offset > plan.mapped.latest_offset:
            return batch.data, header
        kept = _wanted(batch, plan, pace)
        if kept.offsets:
            needs_horizon = kept.tombstones and horizon is None
            if len(kept.offsets) == header.records_count and not needs_horizon:
                return batch.data, header
            return _rebuilt(batch, kept.offsets, plan.now_ms + plan.delete_retention_ms if needs_horizon else horizon)
    if _must_remain(header, plan):
        data = empty_batch(header)
        return data, header._replace(records_count=0)
    return None


class _Wanted(NamedTuple):
    offsets: set[int]
    tombstones: bool


def _wanted(batch: StoredBatch, plan: CleaningPlan, pace: Pace) -> _Wanted:
    """The offsets of the records that stay, and whether there is a tombstone among them."""
    header = batch.header
    base_offset = header.base_offset
    latest_offset = plan.mapped.latest_offset
    find = plan.mapped.offsets.get
    horizon = header.delete_horizon
    tombstones_stay = horizon is None or plan.now_ms < horizon
    kept = set()
    tombstones = False
    scanned = codec.scan(batch.payload(), header.records_count)
    for start in range(0, len(scanned), RECORDS_AT_ONCE):
        pace.spend(0)
        for delta, _, key, is_tombstone in scanned[start : start + RECORDS_AT_ONCE]:
            offset = base_offset + delta
            if offset <= latest_offset and (
                # A record without a key cannot be compacted and has no place in such a log.
                key is None or (is_tombstone and not tombstones_stay) or offset < find(key)
            ):
                continue
            kept.add(offset)
            tombstones = tombstones or is_tombstone
    return _Wanted(kept, tombstones)


def _rebuilt(batch: StoredBatch, offsets: set[int] | None, horizon: int | None) -> _Kept:
    """The batch with these records only (None: all), in the same range of offsets and of sequence numbers."""
    header = batch.header
    records = codec.decode(batch.payload(), header)
    if offsets is not None:
        records = [record for record in records if record.offset in offsets]
    data = build_batch(
        records,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        compression=header.compression,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.transactional,
        control=header.control,
        log_append_time=header.max_timestamp if header.log_append_time else None,
        delete_horizon=horizon,
    )
    newest = header.max_timestamp if header.log_append_time else max(record.timestamp for record in records)
    return data, header._replace(max_timestamp=newest, records_count=len(records))


def _must_remain(header: BatchHeader, plan: CleaningPlan) -> bool:
    """Whether a batch stays even without records: for its producer's sequence, or to mark how far cleaning went."""
    last = plan.producers.get(header.producer_id) if header.producer_id >= 0 else None
    if last is not None:
        if last.last_offset >= 0:
            if header.last_offset == last.last_offset:
                return True
        elif header.control and header.producer_epoch == last.epoch:
            return True
    return header.next_offset == plan.upper_offset


def _marker(batch: StoredBatch) -> int | None:
    """The type of a control batch's record; None when an earlier cleaning took it."""
    for _, _, key, _ in codec.scan(batch.payload(), batch.header.records_count):
        return control_type(key)
    return None


def _verify(batch: StoredBatch) -> None:
    if checksum(batch.data, 0, len(batch.data)) != batch.header.crc:
        raise CorruptBatch(batch.position, f"the batch at offset {batch.header.base_offset} has a wrong checksum")
