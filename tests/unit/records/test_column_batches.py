"""Columns become batches: every row once, in order, on the partition that Java would choose, within the size asked."""

from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from kit.wire.column_twins import TWINS, serving
from ottla.client.partitioner import partition_for_key
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.column_batches import BadColumns, Encoded, Format, Placement, ProducerHeader, encode_batches
from ottla.records.columns import HEADERS_TYPE, ColumnReader
from ottla.records.compression import Compression
from ottla.records.header import HEADER_SIZE, MAX_SEQUENCE, checksum, read_header, set_producer
from ottla.records.record import Record

NOW = 1_700_000_000_000
ONE = Placement(1, (0,))
ROOMY = Format(1 << 20)


@pytest.fixture(autouse=True, params=TWINS, ids=lambda twin: twin.__name__.rpartition(".")[2])
def twin(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    served: ModuleType = request.param
    with serving(served):
        yield served


def encode(table: Any, placement: Placement = ONE, form: Format = ROOMY, **options: Any) -> list[Encoded]:
    return list(encode_batches(table, placement, form, now=NOW, **options))


def rows(batches: list[Encoded]) -> list[Record]:
    found = []
    for each in batches:
        header = read_header(each.data)
        assert header.crc == checksum(each.data, 0, len(each.data))
        assert header.size == len(each.data)
        assert header.records_count == each.records_count == header.last_offset_delta + 1
        found += read_records(each.data, header)
    return found


def values(batches: list[Encoded]) -> list[bytes | None]:
    return [record.value for record in rows(batches)]


HEADERS = [[("a", b"1"), ("b", None)], None, [], [("ü", b"")]]


def full_table() -> Any:
    return pa.table(
        {
            "key": pa.array([b"k", None, b"", b"long" * 100]),
            "value": pa.array(["text", "", None, "ü"]),
            "timestamp": pa.array([NOW - 5, None, NOW + 70_000, -1], pa.timestamp("ms", tz="UTC")),
            "headers": pa.array(
                [None if row is None else [{"key": k, "value": v} for k, v in row] for row in HEADERS], HEADERS_TYPE
            ),
        }
    )


FULL = [
    Record(0, NOW - 5, b"k", b"text", (("a", b"1"), ("b", None))),
    Record(1, NOW, None, b"", ()),
    Record(2, NOW + 70_000, b"", None, ()),
    Record(3, -1, b"long" * 100, "ü".encode(), (("ü", b""),)),
]


@pytest.mark.parametrize("compression", list(Compression))
def test_columns_are_written_as_the_builder_writes_the_same_records(compression: Compression) -> None:
    (found,) = encode(full_table(), form=Format(1 << 20, compression))
    assert found.data == build_batch(FULL, compression=compression)
    assert found[2:] == (4, 0, 3, NOW + 70_000)


def test_slices_and_chunks_are_read_where_they_are() -> None:
    table = full_table()
    chunked = pa.concat_tables([table, table.slice(2), table.slice(1, 2)])
    expected = [*FULL, *FULL[2:], *FULL[1:3]]
    assert [record[1:] for record in rows(encode(chunked))] == [record[1:] for record in expected]
    piece = table.slice(1, 2).to_batches()[0]
    assert [record[1:] for record in rows(encode(piece))] == [record[1:] for record in FULL[1:3]]
    assert [record[1:] for record in rows(encode(chunked.slice(3, 3)))] == [record[1:] for record in expected[3:6]]


CONTENT = [b"a", None, b"", b"cc"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.string(),
        pa.large_binary(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_bytes_and_text_of_every_layout_are_taken(kind: Any) -> None:
    column = pa.array(CONTENT, pa.binary()).cast(pa.string()).cast(kind)
    assert values(encode(pa.table({"value": column}))) == CONTENT
    assert values(encode(pa.table({"value": column}).slice(1, 2))) == CONTENT[1:3]
    found = rows(encode(pa.table({"key": column.slice(2)}), Placement(1, (0,))))
    assert [(record.key, record.value) for record in found] == [(b"", None), (b"cc", None)]


def test_fixed_sizes_and_nothing_but_nulls_are_taken() -> None:
    fixed = pa.array([b"ab", None, b"cd"], pa.binary(2))
    assert values(encode(pa.table({"value": fixed}).slice(1))) == [None, b"cd"]
    empty = {"key": pa.nulls(2), "value": pa.nulls(2), "timestamp": pa.nulls(2), "headers": pa.nulls(2)}
    assert rows(encode(pa.table(empty))) == [Record(0, NOW, None, None), Record(1, NOW, None, None)]
    assert encode(pa.table({"value": pa.array([], pa.binary())})) == []
    assert encode(full_table().slice(4)) == []


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_timestamps_of_every_unit_become_milliseconds(unit: str, factor: float) -> None:
    column = pa.array([int(NOW * factor)], pa.timestamp(unit))
    assert rows(encode(pa.table({"value": [b""], "timestamp": column})))[0].timestamp == NOW


def test_whole_numbers_are_milliseconds_and_dates_begin_their_day() -> None:
    for column, expected in [(pa.array([7], pa.int32()), 7), (pa.array([1], pa.date32()), 86_400_000)]:
        assert rows(encode(pa.table({"timestamp": column})))[0].timestamp == expected


def test_headers_may_be_maps_and_long_lists() -> None:
    content: list[list[tuple[str, bytes | None]] | None] = [
        [("a", b"1")],
        [("b", b"2"), ("c", None)],
        None,
        [("d", b"4")],
    ]
    expected = [tuple(row or ()) for row in content]
    column = pa.array(content, pa.map_(pa.string(), pa.binary()))
    assert [record.headers for record in rows(encode(pa.table({"headers": column})))] == expected
    sliced = pa.table({"headers": column}).slice(1, 3)
    assert [record.headers for record in rows(encode(sliced))] == expected[1:]
    pairs = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in content]
    long = pa.array(pairs, pa.large_list(HEADERS_TYPE.value_type))
    assert [record.headers for record in rows(encode(pa.table({"headers": long}).slice(1)))] == expected[1:]


def test_keys_land_where_the_hash_of_the_clients_puts_them() -> None:
    keys = [b"%d" % number * (number % 9) for number in range(500)]
    table = pa.table({"key": pa.array(keys), "value": pa.array([b"%d" % number for number in range(500)])})
    for partitions in (1, 7, 64):
        found = encode(table, Placement(partitions), Format(2000))
        for partition in range(partitions):
            mine = [each for each in found if each.partition == partition]
            assert [record.value for record in rows(mine)] == [
                b"%d" % number for number, key in enumerate(keys) if partition_for_key(key, partitions) == partition
            ]


def test_a_named_partition_goes_before_the_key() -> None:
    table = pa.table({"key": [b"a", b"a", b"a"], "partition": pa.array([2, None, 0], pa.int32()), "value": ["x"] * 3})
    placed = sorted((each.first_row, each.partition) for each in encode(table, Placement(8), Format(1)))
    assert placed == [(0, 2), (1, partition_for_key(b"a", 8)), (2, 0)]


def test_keyless_rows_fill_a_batch_before_they_move_to_the_next_partition() -> None:
    table = pa.table({"value": [b"x" * 100] * 1000})
    found = encode(table, Placement(6, (4, 1, 3)), Format(10_000))
    assert {each.partition for each in found} == {4, 1, 3}
    assert sum(each.records_count for each in found) == 1000
    assert sum(each.records_count < 80 for each in found) <= 3  # each partition's last one
    in_order = sorted(found, key=lambda each: each.first_row)
    assert [each.partition for each in in_order[:4]] == [4, 1, 3, 4]


@pytest.mark.parametrize("limit", [1, 62, 200, 5000])
def test_no_batch_is_larger_than_asked_unless_one_row_is(limit: int) -> None:
    table = pa.table({"value": [b"x" * (number % 300) for number in range(200)]})
    found = encode(table, ONE, Format(limit))
    assert values(found) == table.column("value").to_pylist()
    assert all(len(each.data) <= limit or each.records_count == 1 for each in found)
    for left, right in pairwise(found):
        first = read_records(right.data, read_header(right.data))[0]
        assert len(left.data) + len(build_batch([first])) - HEADER_SIZE + 1 > limit - 2


def test_timestamps_too_far_apart_go_to_different_batches() -> None:
    stamps = [-(2**63), 2**63 - 1, 0, -5]
    found = encode(pa.table({"timestamp": pa.array(stamps, pa.int64())}))
    assert [record.timestamp for record in rows(found)] == stamps
    assert [each.records_count for each in found] == [1, 2, 1]


def test_a_producer_numbers_its_batches_and_a_new_one_can_take_them_over() -> None:
    table = pa.table({"partition": pa.array([0, 1] * 20), "value": [b"x" * 40] * 40})
    producer = ProducerHeader(77, 3, True, {1: MAX_SEQUENCE - 5})
    found = encode(table, Placement(2), Format(400), producer=producer)
    expected = {0: 0, 1: MAX_SEQUENCE - 5}
    for each in found:
        header = read_header(each.data)
        assert (header.producer_id, header.producer_epoch, header.transactional) == (77, 3, True)
        assert header.base_sequence == expected[each.partition]
        expected[each.partition] = (header.base_sequence + each.records_count) % (MAX_SEQUENCE + 1)
    assert expected == {0: 20, 1: 14}
    before = values(found)
    for each in found:
        crc = set_producer(each.data, 0, (78, 0, 9), False)
        header = read_header(each.data)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (78, 0, 9)
        assert not header.transactional
        assert header.crc == crc == checksum(each.data, 0, len(each.data))
    assert values(found) == before


def test_what_was_read_can_be_sent_as_it_is() -> None:
    reader = ColumnReader(["key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers"])
    for each in encode(full_table(), Placement(3, (2,))):
        reader.add(each.data, 0, topic="t", partition=each.partition)
    found = reader.finish()
    again = encode(found, Placement(3))
    assert sorted(map(repr, (record[1:] for record in rows(again)))) == sorted(repr(record[1:]) for record in FULL)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"colour": ["red"]}), "colour"),
        (pa.table({"value": [1]}), "column value is int64"),
        (pa.table({"timestamp": ["today"]}), "column timestamp is string"),
        (pa.table({"partition": [1.5]}), "column partition is double"),
        (pa.table({"headers": [["a"]]}), "column headers is list"),
        (pa.table({"partition": [3]}), "row 0 is for a partition that does not exist"),
        (pa.table({"partition": [0, -1]}), "row 1 is for a partition that does not exist"),
        (pa.table({"value": ["x"]}), "row 0 has no key"),
        (pa.table({"timestamp": pa.array([2**64 - 1], pa.uint64()), "key": ["a"]}), "column timestamp"),
        (pa.table({"key": ["a"], "headers": [[{"key": None, "value": b""}]]}), "a header of row 0 has no name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_record_can_be_made_of_is_named(table: Any, reason: str) -> None:
    with pytest.raises(BadColumns, match=reason):
        encode(table, Placement(3))


def test_buffers_that_lie_are_refused_and_never_followed(twin: ModuleType) -> None:
    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(4, "little", signed=True) for value in values)

    for arguments in [
        (2, 0, None, numbers(0, 1), b"a", False),
        (1, 0, None, numbers(0, 1), b"a", True),
        (1, 1, None, numbers(0, 1), b"a", False),
        (-1, 0, None, b"", b"", False),
        (9, 0, b"\xff", numbers(*range(10)), bytes(9), False),
        (1, -1, None, numbers(0, 1, 2), b"ab", False),
    ]:
        with pytest.raises(ValueError):  # noqa: PT011
            twin.FieldColumn(*arguments)
    with pytest.raises(ValueError, match="too short"):
        twin.NumberColumn(2, 0, None, bytes(15))
    fine = twin.FieldColumn(1, 0, None, numbers(0, 1), b"a", False)
    with pytest.raises(ValueError, match="differ in length"):
        twin.RowSource(2, fine, None, None, None, 0)
    for offsets in [(0, 2), (-1, 1), (1, 0)]:
        lying = twin.FieldColumn(1, 0, None, numbers(*offsets), b"a", False)
        with pytest.raises(ValueError, match="lie outside"):
            twin.encode_rows(twin.RowSource(1, None, lying, None, None, 0), numbers(0), 0, 1, 100, 0)
        with pytest.raises(ValueError, match="lie outside"):
            twin.choose_partitions(twin.RowSource(1, lying, None, None, None, 0), None, 1, [], 0)
        headers = twin.HeaderColumn(1, 0, None, numbers(*offsets), fine, fine)
        with pytest.raises(ValueError, match="lie outside"):
            twin.encode_rows(twin.RowSource(1, None, None, None, headers, 0), numbers(0), 0, 1, 100, 0)
    source = twin.RowSource(1, fine, None, None, None, 0)
    for order, start, stop in [((0,), 0, 2), ((0,), 1, 1), ((0,), -1, 1), ((1,), 0, 1), ((-1,), 0, 1)]:
        with pytest.raises(ValueError, match="row"):
            twin.encode_rows(source, numbers(*order), start, stop, 100, 0)
    for chosen in (-1, 2):
        with pytest.raises(ValueError, match="none of them"):
            twin.group_rows(numbers(chosen), 2)
    for partitions, keyless in [(0, []), (2, [2]), (2, [-1])]:
        with pytest.raises(ValueError, match="partitions"):
            twin.choose_partitions(source, None, partitions, keyless, 0)
