"""The 61 header bytes: what is read, what is walked, what may be patched in place."""

import pytest

from ottla.records.builder import build_batch
from ottla.records.header import (
    CHECKED_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptBatch,
    assign,
    checksum,
    iterate_headers,
    next_sequence,
    read_header,
    set_max_timestamp,
)
from ottla.records.record import Record


def batch(count: int = 3, base_offset: int = 0) -> bytearray:
    return build_batch([Record(base_offset + i, 1000 + i, b"k", b"v") for i in range(count)], base_offset=base_offset)


def header(**fields: int) -> BatchHeader:
    return read_header(batch())._replace(**fields)


def test_a_header_has_61_bytes() -> None:
    assert HEADER.size == HEADER_SIZE == 61


def test_the_fields_say_where_the_batch_stands() -> None:
    data = batch(3, base_offset=70)
    found = read_header(data)
    assert found.size == len(data)
    assert (found.last_offset, found.next_offset) == (72, 73)
    assert (found.base_timestamp, found.max_timestamp, found.records_count) == (1000, 1002, 3)


def test_each_attribute_bit_has_its_own_property() -> None:
    assert [header(attributes=number).compression for number in range(8)] == list(range(8))
    bits = {8: "log_append_time", 16: "transactional", 32: "control"}
    for bit, name in bits.items():
        found = header(attributes=bit)
        assert {other: getattr(found, other) for other in bits.values()} == {
            other: other == name for other in bits.values()
        }


def test_the_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    assert header(attributes=0, base_timestamp=5).delete_horizon is None
    assert header(attributes=64, base_timestamp=5).delete_horizon == 5


def test_the_last_sequence_wraps_to_zero_after_the_largest() -> None:
    assert header(base_sequence=-1, last_offset_delta=4).last_sequence == -1
    assert header(base_sequence=10, last_offset_delta=4).last_sequence == 14
    assert header(base_sequence=2**31 - 1, last_offset_delta=0).last_sequence == 2**31 - 1
    assert header(base_sequence=2**31 - 2, last_offset_delta=3).last_sequence == 1
    assert next_sequence(2**31 - 1, 1) == 0


def test_a_header_that_is_cut_off_is_corrupt() -> None:
    with pytest.raises(CorruptBatch) as caught:
        read_header(batch()[:60])
    assert caught.value.position == 0


def test_walking_gives_every_whole_batch_and_stops_at_a_partial_one() -> None:
    first, second, third = batch(1), batch(2, 1), batch(3, 3)
    whole = bytes(first + second)
    for data in (whole, whole + third[:5], whole + third[:40], whole + third[:-1]):
        found = list(iterate_headers(data))
        assert [position for position, _ in found] == [0, len(first)]
        assert [entry.records_count for _, entry in found] == [1, 2]


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_walking_over_a_length_below_the_headers_is_corrupt(length: int) -> None:
    data = batch()
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch, match="smaller than its header"):
        list(iterate_headers(data))


def test_walking_over_another_magic_is_corrupt_and_names_the_position() -> None:
    first, second = batch(), batch()
    second[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1") as caught:
        list(iterate_headers(first + second))
    assert caught.value.position == len(first)


def test_assigning_offset_and_epoch_leaves_the_checksum_right() -> None:
    data = bytearray(b"before") + batch()
    size = len(data) - 6
    assign(memoryview(data), 6, 1 << 40, 17)
    found = read_header(data, 6)
    assert (found.base_offset, found.leader_epoch) == (1 << 40, 17)
    assert found.crc == checksum(data, 6, size)
    assert data[:6] == b"before"


def test_setting_the_max_timestamp_writes_the_checksum_that_follows() -> None:
    data = batch()
    before = read_header(data)
    crc = set_max_timestamp(data, 0, len(data), LOG_APPEND_TIME, 123456)
    found = read_header(data)
    assert found == before._replace(attributes=LOG_APPEND_TIME, max_timestamp=123456, crc=crc)
    assert crc == checksum(data, 0, len(data)) != before.crc


def test_the_checksum_is_crc32c_of_what_follows_it() -> None:
    data = bytearray(CHECKED_FROM) + b"123456789"
    assert checksum(data, 0, len(data)) == 0xE3069283
