"""What is in a log's files, as rows for people and programs, with everything verified on the way.

Owns: reading `.log`, `.index`, `.timeindex`, `.txnindex`, `.snapshot`, `.checkpoint` and `leader-epoch-checkpoint`
files one by one. Never knows: printing, running logs.
Invariants: reads only; damaged content becomes a row that says so, never an exception; memory does not grow with files.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from struct import Struct
from typing import NamedTuple

from ottla.base.ports import Disk, File
from ottla.log.batches import StoredBatch, read_batches
from ottla.log.epochs import EpochHistory
from ottla.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    EPOCH_CHECKPOINT,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_of,
)
from ottla.log.index import OffsetIndex, TimeIndex, TransactionIndex
from ottla.log.snapshots import CorruptSnapshot, decode_snapshot
from ottla.log.transaction_sieve import ABORT, COMMIT, control_type
from ottla.records import codec
from ottla.records.compression import Compression
from ottla.records.header import HEADER_SIZE, BatchHeader, CorruptBatch, checksum, read_header

ENTRIES_AT_ONCE = 4096
LONGEST_SIDE_FILE = 64 * 1024 * 1024
PREALLOCATED = "the rest is space that a running Kafka has set aside"

_MARKERS = {ABORT: "abort", COMMIT: "commit", 2: "leader change", 3: "snapshot header", 4: "snapshot footer"}


class Row(NamedTuple):
    """One line of a dump: what it is of, its fields in order, and what is wrong with it, if anything is."""

    kind: str
    fields: dict[str, object]
    problem: str | None = None


class UnreadableFile(Exception):
    """A file that cannot be dumped; the message is one sentence."""


def dump(disk: Disk, path: str, *, records: bool = False) -> Iterator[Row]:
    """The rows of one file, the last one being a verdict on it. Raises UnreadableFile before the first row."""
    name = os.path.basename(path)
    for suffix in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
        name = name.removesuffix(suffix)
    try:
        file = disk.open(path, read_only=True)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be opened: {error.strerror}.") from error
    with closing(file):
        if name == EPOCH_CHECKPOINT:
            rows = _epochs(file)
        else:
            rows = _by_suffix(disk, file, name, records)
        yield from _judged(path, rows)


def _by_suffix(disk: Disk, file: File, name: str, records: bool) -> Iterator[Row]:
    suffix = os.path.splitext(name)[1]
    if suffix in (LOG_SUFFIX, ".checkpoint"):
        return _log(file, records)
    if suffix == TRANSACTION_INDEX_SUFFIX:
        return _transaction_index(file)
    if suffix == SNAPSHOT_SUFFIX:
        return _snapshot(file)
    base_offset = offset_of(name)
    if suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and base_offset is not None:
        beside = file.path.replace(suffix, LOG_SUFFIX)
        log = disk.open(beside, read_only=True) if disk.exists(beside) else None
        if suffix == INDEX_SUFFIX:
            return _offset_index(file, log, base_offset)
        return _time_index(file, log, base_offset)
    raise UnreadableFile(
        f"{file.path} is not a file of a log; give a .log, .index, .timeindex, .txnindex, .snapshot or .checkpoint "
        f"file or {EPOCH_CHECKPOINT}."
    )


def _judged(path: str, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows, and after them one with their number and that of the problems."""
    counts: dict[str, int] = {}
    problems = 0
    try:
        for row in rows:
            if row.kind in _PLURALS:
                counts[row.kind] = counts.get(row.kind, 0) + 1
            problems += row.problem is not None
            yield row
    except (CorruptBatch, OSError) as error:
        problems += 1
        yield Row("problem", {}, f"the file cannot be read further: {error}")
    fields: dict[str, object] = {"file": path, **{_PLURALS[kind]: number for kind, number in counts.items()}}
    yield Row("verdict", {**fields, "problems": problems})


_PLURALS = {
    "batch": "batches",
    "record": "records",
    "entry": "entries",
    "producer": "producers",
    "epoch": "epochs",
    "transaction": "transactions",
}


def readable(data: bytes | None) -> str | None:
    """Bytes for a person: the text when they are one, else 0x and their hexadecimal digits."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return text if text.isprintable() else "0x" + data.hex()


def _log(file: File, records: bool) -> Iterator[Row]:
    expected = 0
    end = 0
    for batch in read_batches(file):
        header = batch.header
        problem = None
        if checksum(batch.data, 0, len(batch.data)) != header.crc:
            problem = "the checksum does not match"
        elif header.base_offset < expected:
            problem = f"offset {expected} or a later one was expected"
        expected = header.next_offset
        end = batch.position + len(batch.data)
        yield Row("batch", _batch_fields(batch), problem)
        if records and problem is None:
            yield from _records(header, batch)
    left = file.size() - end
    if left:
        yield Row("problem", {"position": end}, f"{left} bytes at the end are no whole batch (recovery cuts them)")


def _batch_fields(batch: StoredBatch) -> dict[str, object]:
    header = batch.header
    fields: dict[str, object] = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.records_count,
        "position": batch.position,
        "size": header.size,
        "time": "LogAppendTime" if header.log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.leader_epoch,
        "compression": Compression(header.compression).name.lower() if header.compression <= 4 else header.compression,
        "crc": header.crc,
    }
    if header.producer_id >= 0:
        fields["producer_id"] = header.producer_id
        fields["producer_epoch"] = header.producer_epoch
        fields["base_sequence"] = header.base_sequence
        fields["last_sequence"] = header.last_sequence
    if header.transactional:
        fields["transactional"] = True
    if header.control:
        fields["control"] = True
    if header.delete_horizon is not None:
        fields["delete_horizon"] = header.delete_horizon
    return fields


def _records(header: BatchHeader, batch: StoredBatch) -> Iterator[Row]:
    try:
        decoded = codec.decode(batch.payload(), header)
    except CorruptBatch as error:
        yield Row("problem", {"base_offset": header.base_offset}, f"the records cannot be read: {error}")
        return
    for record in decoded:
        fields: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp}
        if header.control:
            kind = control_type(record.key)
            fields["marker"] = _MARKERS.get(kind, f"control record of type {kind}")
        fields["key"] = readable(record.key)
        fields["value"] = readable(record.value)
        if record.headers:
            fields["headers"] = {name: readable(value) for name, value in record.headers}
        yield Row("record", fields)


def _entries(file: File, entry: Struct) -> Iterator[tuple[int, ...]]:
    """The entries, a bounded number in memory; CorruptBatch with the position of a torn last one."""
    step = ENTRIES_AT_ONCE * entry.size
    size = file.size()
    for position in range(0, size, step):
        data = file.read_at(position, step)
        whole = len(data) - len(data) % entry.size
        yield from entry.iter_unpack(memoryview(data)[:whole])
        if whole != len(data):
            raise CorruptBatch(position + whole, "the last entry is cut off")


def _offset_index(file: File, log: File | None, base_offset: int) -> Iterator[Row]:
    if log is None:
        yield Row("note", {"note": "there is no .log file beside it, so the entries are not verified"})
    last = -1
    try:
        for relative, position in _entries(file, OffsetIndex.ENTRY):
            if not (relative or position):
                yield Row("note", {"note": PREALLOCATED})
                return
            offset = base_offset + relative
            problem = "the offset is not above the one before" if relative <= last else None
            last = relative
            if problem is None and log is not None:
                problem = _misplaced(log, offset, position)
            yield Row("entry", {"offset": offset, "position": position}, problem)
    finally:
        if log is not None:
            log.close()


def _misplaced(log: File, offset: int, position: int) -> str | None:
    try:
        header = read_header(log.read_at(position, HEADER_SIZE))
    except CorruptBatch:
        return f"there is no batch at byte {position} of the log"
    if header.last_offset != offset:
        return f"the batch there ends with offset {header.last_offset}"
    return None


def _time_index(file: File, log: File | None, base_offset: int) -> Iterator[Row]:
    if log is None:
        yield Row("note", {"note": "there is no .log file beside it, so the entries are not verified"})
    batches = iter(read_batches(log)) if log is not None else iter(())
    last_timestamp = newest = -1
    reached: BatchHeader | None = None
    try:
        for timestamp, relative in _entries(file, TimeIndex.ENTRY):
            if not (timestamp or relative):
                yield Row("note", {"note": PREALLOCATED})
                return
            offset = base_offset + relative
            problem = "the timestamp is not above the one before" if timestamp <= last_timestamp else None
            last_timestamp = timestamp
            while log is not None and (reached is None or reached.last_offset < offset):
                batch = next(batches, None)
                if batch is None:
                    break
                reached = batch.header
                newest = max(newest, reached.max_timestamp)
            if problem is None and log is not None:
                if reached is None or reached.last_offset < offset:
                    problem = "the log ends before this offset"
                elif newest != timestamp:
                    problem = f"the newest record up to there is of {newest}"
            yield Row("entry", {"timestamp": timestamp, "offset": offset}, problem)
    finally:
        if log is not None:
            log.close()


def _transaction_index(file: File) -> Iterator[Row]:
    for version, producer_id, first_offset, last_offset, last_stable_offset in _entries(file, TransactionIndex.ENTRY):
        fields: dict[str, object] = {
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
            "last_stable_offset": last_stable_offset,
        }
        yield Row("transaction", fields, None if version == 0 else f"its version is {version} where 0 was expected")


def _snapshot(file: File) -> Iterator[Row]:
    try:
        states = decode_snapshot(_side_file(file))
    except CorruptSnapshot as error:
        yield Row("problem", {}, f"it is not a snapshot of producers: {error}")
        return
    for state in states:
        fields: dict[str, object] = {
            "producer_id": state.producer_id,
            "producer_epoch": state.epoch,
            "last_sequence": state.last_sequence,
            "last_offset": state.batches[-1][3] if state.batches else -1,
            "last_timestamp": state.last_timestamp,
            "coordinator_epoch": state.coordinator_epoch,
        }
        if state.transaction_first_offset >= 0:
            fields["transaction_first_offset"] = state.transaction_first_offset
        yield Row("producer", fields)


def _epochs(file: File) -> Iterator[Row]:
    try:
        history = EpochHistory.from_text(_side_file(file).decode())
    except ValueError as error:
        yield Row("problem", {}, f"it is not a history of leader epochs: {error}")
        return
    for epoch, start_offset in history.entries:
        yield Row("epoch", {"leader_epoch": epoch, "start_offset": start_offset})


def _side_file(file: File) -> bytes:
    if file.size() > LONGEST_SIDE_FILE:
        raise OSError(errno.EFBIG, f"it is larger than {LONGEST_SIDE_FILE} bytes")
    return file.read_at(0, LONGEST_SIDE_FILE)
