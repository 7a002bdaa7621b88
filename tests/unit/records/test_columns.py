"""Fetched bytes become columns: the right rows, the right position afterwards, and never a crash."""

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from kit.wire.column_twins import TWINS, serving
from ottla.records import _pure_columns
from ottla.records.builder import build_batch, empty_batch
from ottla.records.columns import COLUMNS, HEADERS_TYPE, ColumnReader, Most
from ottla.records.compression import Compression
from ottla.records.control import EndTransaction, build_control
from ottla.records.header import HEADER, CorruptBatch, checksum, read_header
from ottla.records.record import Record
from ottla.records.visible import Aborted

START = 1_700_000_000_000


@pytest.fixture(autouse=True, params=TWINS, ids=lambda twin: twin.__name__.rpartition(".")[2])
def _twin(request: pytest.FixtureRequest) -> Iterator[None]:
    twin: ModuleType = request.param
    with serving(twin):
        yield


def batch(first: int, count: int, *, producer: int = -1, **fields: Any) -> bytes:
    records = [Record(first + step, START + step, b"k", b"%d" % (first + step)) for step in range(count)]
    numbers = -1 if producer < 0 else 0
    transactional = producer >= 0
    return bytes(
        build_batch(
            records,
            base_offset=first,
            producer_id=producer,
            producer_epoch=numbers,
            base_sequence=numbers,
            transactional=transactional,
            **fields,
        )
    )


def marker(offset: int, producer: int, *, committed: bool) -> bytes:
    return bytes(
        build_control(
            EndTransaction(committed, 0),
            offset=offset,
            timestamp=START,
            leader_epoch=0,
            producer_id=producer,
            producer_epoch=0,
        )
    )


def offsets(data: bytes, position: int, **options: Any) -> tuple[list[int], int]:
    reader = ColumnReader()
    added = reader.add(data, position, **options)
    found = reader.finish().column("offset").to_pylist()
    assert len(found) == added.rows
    return found, added.next_offset


RECORDS = [
    Record(100, START, b"key", b"value", (("h", b"x"), ("nothing", None), ("empty", b""))),
    Record(101, START + 1, None, b"keyless"),
    Record(105, START - 1000, b"gone", None),
    Record(106, -1, b"", b"", (("ü", b"\x00"),)),
]


@pytest.mark.parametrize("compression", list(Compression))
def test_every_field_of_a_record_has_its_column(compression: Compression) -> None:
    reader = ColumnReader([*COLUMNS, "headers"])
    data = build_batch(RECORDS, base_offset=100, compression=compression)
    added = reader.add(data, 0, topic="orders", partition=3)
    assert added == (4, 107, len(data), False)
    found = reader.finish()
    found.validate(full=True)
    assert found.schema == reader.schema
    assert found.column("offset").to_pylist() == [100, 101, 105, 106]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [START, START + 1, START - 1000, -1]
    assert found.column("timestamp").type == pa.timestamp("ms", tz="UTC")
    assert found.column("key").to_pylist() == [b"key", None, b"gone", b""]
    assert found.column("value").to_pylist() == [b"value", b"keyless", None, b""]
    assert found.column("topic").to_pylist() == ["orders"] * 4
    assert found.column("partition").to_pylist() == [3] * 4
    assert found.column("timestamp_type").to_pylist() == [0] * 4
    assert found.column("headers").to_pylist() == [
        [{"key": name, "value": content} for name, content in record.headers] for record in RECORDS
    ]


def test_only_the_columns_asked_for_are_made_and_in_that_order() -> None:
    reader = ColumnReader(["value", "offset"])
    reader.add(batch(0, 2), 0)
    assert reader.finish().to_pydict() == {"value": [b"0", b"1"], "offset": [0, 1]}
    with pytest.raises(ValueError, match="colour"):
        ColumnReader(["colour"])
    with pytest.raises(ValueError, match="each once"):
        ColumnReader(["key", "key"])


def test_partitions_of_several_topics_share_one_record_batch() -> None:
    reader = ColumnReader(["topic", "partition", "offset"])
    assert reader.add(batch(0, 2), 0, topic="a", partition=0).rows == 2
    assert reader.add(batch(7, 1), 0, topic="b", partition=5).rows == 1
    assert reader.add(batch(3, 1), 9, topic="c", partition=6).rows == 0
    assert reader.add(batch(2, 1), 0, topic="a", partition=1).rows == 1
    assert reader.rows == 4
    found = reader.finish()
    assert found.column("topic").to_pylist() == ["a", "a", "b", "a"]
    assert found.column("topic").dictionary.to_pylist() == ["a", "b"]
    assert found.column("partition").to_pylist() == [0, 0, 5, 1]
    assert found.column("offset").to_pylist() == [0, 1, 7, 2]


def test_a_finished_batch_keeps_its_rows_while_the_reader_goes_on() -> None:
    reader = ColumnReader([*COLUMNS, "headers"])
    assert reader.finish().num_rows == 0
    kept = []
    for turn in range(5):
        reader.add(batch(turn * 100, 50), 0)
        kept.append(reader.finish())
        if turn == 2:
            del kept[0]
            gc.collect()
    del reader
    assert [found.column("value").to_pylist()[0] for found in kept] == [b"100", b"200", b"300", b"400"]
    for found in kept:
        found.validate(full=True)


@pytest.mark.parametrize("compression", list(Compression))
def test_reading_may_start_and_end_in_the_middle_of_a_batch(compression: Compression) -> None:
    data = batch(10, 5, compression=compression) + batch(15, 3)
    assert offsets(data, 12) == ([12, 13, 14, 15, 16, 17], 18)
    assert offsets(data, 12, end_offset=14) == ([12, 13], 14)
    assert offsets(data, 12, end_offset=16) == ([12, 13, 14, 15], 16)
    assert offsets(data, 12, end_offset=12) == ([], 12)


@pytest.mark.parametrize("most", [Most(5, 1 << 20), Most(1 << 20, 5)])
def test_a_reader_that_holds_enough_leaves_the_rest_for_the_next_time(most: Most) -> None:
    reader = ColumnReader(["offset", "value"], most=most)
    data = batch(0, 4) + batch(4, 4) + batch(8, 4)
    found, position, full = [], 0, True
    while full:
        _, position, _, full = reader.add(data, position)
        found.append(reader.finish().column("offset").to_pylist())
    assert found == [list(range(8)), list(range(8, 12))]
    assert position == 12


def test_an_end_in_a_gap_of_the_log_is_reached() -> None:
    data = batch(0, 2) + batch(50, 2)
    assert offsets(data, 0, end_offset=40) == ([0, 1], 40)
    assert offsets(batch(50, 2), 10, end_offset=40) == ([], 40)


def test_a_cut_batch_at_the_end_waits_for_the_next_fetch() -> None:
    whole = batch(0, 3)
    reader = ColumnReader()
    assert reader.add(whole + batch(3, 3)[:-1], 0) == (3, 3, len(whole), False)
    assert reader.add(batch(0, 3)[:30], 0) == (0, 0, 0, False)
    assert reader.add(b"", 5) == (0, 5, 0, False)


def test_a_tail_that_compaction_emptied_still_moves_the_position() -> None:
    shorter = bytes(build_batch([Record(4, START, b"k", b"v")], base_offset=4, last_offset=9))
    assert offsets(shorter, 0) == ([4], 10)
    assert offsets(shorter, 5) == ([], 10)
    emptied = bytes(empty_batch(read_header(batch(10, 5, compression=Compression.GZIP))))
    assert offsets(emptied, 10) == ([], 15)


def test_markers_and_aborted_transactions_are_left_out() -> None:
    data = (
        batch(0, 2, producer=9)
        + batch(2, 2, producer=8)
        + marker(4, 9, committed=False)
        + batch(5, 2, producer=9)
        + marker(7, 9, committed=True)
        + marker(8, 8, committed=True)
    )
    assert offsets(data, 0) == ([0, 1, 2, 3, 5, 6], 9)
    assert offsets(data, 0, aborted=[Aborted(0, 9)]) == ([2, 3, 5, 6], 9)
    assert offsets(data, 5, aborted=[Aborted(0, 9)]) == ([5, 6], 9)  # its marker lies before the position
    assert offsets(data, 0, aborted=[Aborted(5, 9)]) == ([0, 1, 2, 3], 9)


def test_log_append_time_is_every_records_time_and_type() -> None:
    reader = ColumnReader(unit="us")
    reader.add(batch(0, 2, log_append_time=77), 0)
    reader.add(batch(2, 1), 0)
    found = reader.finish()
    assert found.column("timestamp").type == pa.timestamp("us", tz="UTC")
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [77_000, 77_000, START * 1000]
    assert found.column("timestamp_type").to_pylist() == [1, 1, 0]


def test_timestamps_past_microseconds_stop_at_the_last() -> None:
    reader = ColumnReader(unit="us")
    reader.add(build_batch([Record(0, 2**62, None, None)]), 0)
    reader.add(build_batch([Record(0, -(2**62), None, None)]), 0)
    assert reader.finish().column("timestamp").cast(pa.int64()).to_pylist() == [2**63 - 1, -(2**63)]


def test_header_names_that_are_no_text_are_shown_with_marks() -> None:
    reader = ColumnReader(["headers"])
    reader.add(build_batch([Record(0, 0, None, None, (("\udcff", b"bytes"), ("good", None)))]), 0)
    found = reader.finish().column("headers")
    found.validate(full=True)
    assert found.type == HEADERS_TYPE
    assert found.to_pylist() == [[{"key": "�", "value": b"bytes"}, {"key": "good", "value": None}]]


def test_huge_headers_and_values_grow_the_columns() -> None:
    headers = tuple((f"name-{index}" * 50, bytes([index % 256]) * 500) for index in range(300))
    records = [Record(step, START, b"k" * 70_000, b"v" * 200_000, headers) for step in range(3)]
    reader = ColumnReader(["key", "value", "headers"])
    reader.add(build_batch(records), 0)
    found = reader.finish()
    found.validate(full=True)
    assert found.column("value").to_pylist() == [b"v" * 200_000] * 3
    assert [tuple(pair.values()) for pair in found.column("headers").to_pylist()[2]] == list(headers)


def test_a_damaged_first_batch_is_corrupt_and_leaves_nothing() -> None:
    good, bad = batch(0, 3), bytearray(batch(3, 3))
    bad[-2] ^= 0xFF
    reader = ColumnReader()
    with pytest.raises(CorruptBatch, match="checksum"):
        reader.add(bytes(bad), 3)
    assert reader.rows == 0
    assert reader.add(good, 0).rows == 3
    assert reader.finish().column("offset").to_pylist() == [0, 1, 2]


def test_damage_behind_good_batches_waits_for_the_next_fetch() -> None:
    good, bad = batch(0, 3), bytearray(batch(3, 3))
    bad[-2] ^= 0xFF
    reader = ColumnReader()
    assert reader.add(good + bad, 0) == (3, 3, len(good), False)
    with pytest.raises(CorruptBatch):
        reader.add(good + bad, 3)
    assert reader.add(good + b"\x00" * 40, 0) == (3, 3, len(good), False)


def test_without_the_checksum_a_damaged_record_is_still_corrupt_and_taken_back() -> None:
    records = [Record(step, START, b"k", b"v", (("h", b"x"),)) for step in range(10)]
    bad = build_batch(records)
    bad[-1] ^= 0x40  # the last record's last header, after nine good ones
    bad[-2] = 0x41
    reader = ColumnReader([*COLUMNS, "headers"], check_crc=False)
    with pytest.raises(CorruptBatch):
        reader.add(bad, 0)
    assert reader.rows == reader.size == 0
    reader.add(batch(7, 2), 0)
    found = reader.finish()
    found.validate(full=True)
    assert found.column("value").to_pylist() == [b"7", b"8"]
    assert found.column("headers").to_pylist() == [[], []]


def test_offsets_that_leave_64_bits_are_corrupt() -> None:
    data = build_batch([Record(0, 0, None, None), Record(1, 0, None, None)])
    HEADER.pack_into(data, 0, *read_header(data)._replace(base_offset=2**63 - 2))
    HEADER.pack_into(data, 0, *read_header(data)._replace(crc=checksum(data, 0, len(data))))
    with pytest.raises(CorruptBatch, match="an offset is too large"):
        ColumnReader().add(data, 0)


def test_a_payload_past_its_limit_is_corrupt() -> None:
    data = build_batch([Record(0, 0, None, b"a" * 200_000)], compression=Compression.ZSTD)
    with pytest.raises(CorruptBatch, match="does not decompress within"):
        ColumnReader(limit=100_000).add(data, 0)


def test_full_columns_say_so_and_go_on_after_they_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pure_columns, "MOST", 130)  # the compiled twin's is 2 GiB
    passed = batch(0, 2, producer=9) + marker(2, 9, committed=False)
    data = passed + batch(3, 5, producer=9) + batch(8, 5)
    with serving(_pure_columns):
        reader = ColumnReader(["value", "offset"])
        reader.add(build_batch([Record(0, START, None, b"v" * 90)]), 0)
        added = reader.add(data, 0, aborted=[Aborted(0, 9)])
        assert added[1:] == (3, len(passed), True)
        first = reader.finish().column("offset").to_pylist()
        again = reader.add(data, added.next_offset, aborted=[Aborted(0, 9)])
        assert not again.full
        assert first + reader.finish().column("offset").to_pylist() == [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
