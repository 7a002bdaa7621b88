"""Columns under random input: rows come back as they went in, the twins agree on anything, damage is never a crash."""

from itertools import pairwise
from types import ModuleType
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.wire.column_twins import TWINS, each_twin, needs_compiled, serving
from ottla.client.fetched import visible_records
from ottla.client.partitioner import partition_for_key
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.column_batches import Encoded, Format, Placement, encode_batches
from ottla.records.columns import COLUMNS, HEADERS_TYPE, ColumnReader
from ottla.records.compression import Compression
from ottla.records.control import EndTransaction, build_control
from ottla.records.header import HEADER, HEADER_SIZE, CorruptBatch, checksum, read_header
from ottla.records.record import Record
from ottla.records.visible import Aborted

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

ALL = (*COLUMNS, "headers")
NOW = 1_700_000_000_000

fields = st.none() | st.binary(max_size=150)
times = st.integers(min_value=-1, max_value=2**48)
headers = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=12), fields), max_size=4).map(tuple)
rows = st.tuples(times, fields, fields, headers)
contents = st.lists(rows, min_size=1, max_size=5)
compressions = st.sampled_from(list(Compression))


def numbered(given_rows: list[Row], base: int) -> list[Record]:
    return [Record(base + index, *row) for index, row in enumerate(given_rows)]


def as_records(found: Any) -> list[Record]:
    """A record batch read row by row."""
    columns = as_lists(found)
    return [
        Record(offset, stamp, key, value, tuple((pair["key"], pair["value"]) for pair in pairs))
        for offset, stamp, key, value, pairs in zip(
            *(columns[name] for name in ("offset", "timestamp", "key", "value", "headers")), strict=True
        )
    ]


def as_lists(found: Any) -> dict[str, list[Any]]:
    """The columns as Python has them; timestamps as numbers, because Python's own end with the year 9999."""
    found.validate(full=True)
    columns = zip(found.schema.names, found.columns, strict=True)
    return {name: (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist() for name, column in columns}


def as_table(given_rows: list[Row]) -> Any:
    return pa.table(
        {
            "timestamp": pa.array([row[0] for row in given_rows], pa.int64()),
            "key": pa.array([row[1] for row in given_rows], pa.binary()),
            "value": pa.array([row[2] for row in given_rows], pa.large_binary()),
            "headers": pa.array(
                [[{"key": name, "value": content} for name, content in row[3]] for row in given_rows], HEADERS_TYPE
            ),
        }
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[Aborted]]:
    """Some batches of a partition one after another: plain, of transactions, markers, compacted."""
    data = b""
    offset = draw(st.integers(0, 5))
    aborted: list[Aborted] = []
    for _ in range(draw(st.integers(1, 4))):
        producer = draw(st.sampled_from([-1, 7, 8]))
        if producer >= 0 and draw(st.integers(0, 2)) == 0:
            end = EndTransaction(draw(st.booleans()), 0)
            data += build_control(
                end, offset=offset, timestamp=5, leader_epoch=0, producer_id=producer, producer_epoch=0
            )
            offset += 1
            continue
        records = numbered(draw(contents), offset)
        if producer >= 0 and draw(st.booleans()):
            aborted.append(Aborted(offset, producer))
        last = records[-1].offset + draw(st.integers(0, 3))
        kept = [record for record in records if draw(st.integers(0, 4))] or records[:1]
        data += build_batch(
            kept,
            base_offset=offset,
            last_offset=last,
            compression=draw(compressions),
            producer_id=producer,
            producer_epoch=min(producer, 0),
            base_sequence=min(producer, 0),
            transactional=producer >= 0,
            log_append_time=draw(st.sampled_from([None, 99])),
        )
        offset = last + 1 + draw(st.integers(0, 3))
    return data, aborted


@each_twin
@settings(max_examples=60, deadline=None)
@given(log=logs(), position=st.integers(0, 60), end=st.none() | st.integers(0, 80), cut=st.integers(0, 80))
def test_columns_hold_what_reading_record_by_record_shows(
    twin: ModuleType, log: tuple[bytes, list[Aborted]], position: int, end: int | None, cut: int
) -> None:
    data, aborted = log
    data = data[: len(data) - cut]
    records, next_offset = visible_records(data, position, aborted)
    with serving(twin):
        reader = ColumnReader(ALL)
        added = reader.add(data, position, aborted=aborted, end_offset=2**62 if end is None else end)
        found = as_records(reader.finish())
    if end is not None:
        records = [record for record in records if record.offset < end]
        next_offset = max(position, min(next_offset, end))
    assert found == records
    assert added.rows == len(records)
    assert added.next_offset == next_offset
    assert added.used <= len(data)


def columns_of(data: bytes, checked: bool) -> list[Any]:
    """What each twin makes of the bytes: the columns, or the damage."""
    answers: list[Any] = []
    for twin in TWINS:
        with serving(twin):
            reader = ColumnReader(ALL, check_crc=checked, limit=1 << 20)
            reader.add(build_batch([Record(0, 0, b"first", None, (("h", None),))]), 0)
            try:
                answers.append(reader.add(data, 0))
            except CorruptBatch as damage:
                answers.append((damage.position, damage.reason))
            answers[-1] = answers[-1], as_lists(reader.finish())
    return answers


@needs_compiled
@settings(max_examples=150, deadline=None)
@given(
    log=logs(),
    changes=st.lists(st.tuples(st.integers(min_value=0), st.integers(0, 255)), min_size=1, max_size=4),
    tail=st.binary(max_size=30),
    checked=st.booleans(),
)
def test_the_twins_agree_on_batches_that_were_damaged(
    log: tuple[bytes, list[Aborted]], changes: list[tuple[int, int]], tail: bytes, checked: bool
) -> None:
    data = bytearray(log[0])
    for position, byte in changes:
        data[position % len(data)] = byte
    compiled, pure = columns_of(bytes(data + tail), checked)
    assert compiled == pure


@needs_compiled
@settings(max_examples=150, deadline=None)
@given(
    payload=st.binary(max_size=80),
    count=st.integers(min_value=-2, max_value=12),
    base=st.sampled_from([0, 5, 2**62, 2**63 - 9, -(2**63)]),
    stamp=st.sampled_from([0, 2**63 - 1, -(2**63)]),
)
def test_the_twins_agree_on_garbage(payload: bytes, count: int, base: int, stamp: int) -> None:
    data = bytearray(HEADER_SIZE) + payload
    template = read_header(build_batch([Record(0, 0, None, None)]))
    header = template._replace(
        length=len(data) - 12, base_offset=base, base_timestamp=stamp, records_count=count, last_offset_delta=3
    )
    HEADER.pack_into(data, 0, *header)
    HEADER.pack_into(data, 0, *header._replace(crc=checksum(data, 0, len(data))))
    compiled, pure = columns_of(bytes(data), True)
    assert compiled == pure


def encoded(twin: ModuleType, table: Any, placement: Placement, form: Format) -> list[Encoded]:
    with serving(twin):
        return list(encode_batches(table, placement, form, now=NOW))


@settings(max_examples=60, deadline=None)
@given(
    given_rows=st.lists(rows, max_size=15),
    partitions=st.integers(1, 9),
    opened=st.integers(1, 4),
    size=st.integers(1, 2000),
    kind=compressions,
    cuts=st.lists(st.integers(0, 40), max_size=3),
)
def test_rows_that_are_written_read_back_from_their_partitions(
    given_rows: list[Row], partitions: int, opened: int, size: int, kind: Compression, cuts: list[int]
) -> None:
    whole = as_table(given_rows)
    edges = sorted({0, len(given_rows), *(cut for cut in cuts if cut < len(given_rows))})
    pieces = [whole.slice(start, stop - start) for start, stop in pairwise(edges)]
    table = pa.concat_tables(pieces) if pieces else whole
    placement = Placement(partitions, range(min(opened, partitions)))
    answers = [encoded(twin, table, placement, Format(size, kind)) for twin in TWINS]
    assert all(answer == answers[0] for answer in answers)
    expected: dict[int, list[Row]] = {}
    placed = {row: each.partition for each in answers[0] for row in (each.first_row, each.last_row)}
    for index, row in enumerate(given_rows):
        if row[1] is not None:
            expected.setdefault(partition_for_key(row[1], partitions), []).append(row)
        elif index in placed:
            assert placed[index] in placement.keyless
    found: dict[int, list[Row]] = {}
    seen: list[Row] = []
    for each in answers[0]:
        header = read_header(each.data)
        assert header.crc == checksum(each.data, 0, len(each.data))
        for record in read_records(each.data, header):
            seen.append(record[1:])
            if record.key is not None:
                found.setdefault(each.partition, []).append(record[1:])
    assert found == expected
    assert sorted(map(repr, seen)) == sorted(map(repr, given_rows))


@each_twin
@settings(max_examples=60, deadline=None)
@given(given_rows=contents, kind=compressions, log_bytes=st.integers(100, 3000))
def test_columns_go_round_through_batches(
    twin: ModuleType, given_rows: list[Row], kind: Compression, log_bytes: int
) -> None:
    with serving(twin):
        reader = ColumnReader(ALL)
        for each in encode_batches(as_table(given_rows), Placement(1, (0,)), Format(log_bytes, kind), now=NOW):
            assert reader.add(each.data, 0).rows == each.records_count
        found = as_records(reader.finish())
    assert [record[1:] for record in found] == given_rows
