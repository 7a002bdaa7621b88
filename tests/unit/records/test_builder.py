"""Batches made from records equal what Kafka's own classes make of them, and read back."""

import pytest

from ottla.records.batch import find_timestamp, latest_timestamp, read_payload, read_records
from ottla.records.builder import build_batch, empty_batch, replace_payload
from ottla.records.compression import Compression, compress
from ottla.records.header import CorruptBatch, checksum, read_header
from ottla.records.record import Record

START = 1_700_000_000_000
RECORDS = [
    Record(100, START, b"key", b"value", (("h", b"x"), ("nothing", None))),
    Record(101, START + 1, None, b"keyless"),
    Record(102, START - 1000, b"tomb", None),
    Record(103, START + 200, b"", bytes(300)),
]
# RECORDS as Kafka 4.3.1's MemoryRecords writes them at offset 100 and leader epoch 4; the last 300 bytes of a value
# of zeros and the header count behind it are left out of the uncompressed ones
PLAIN_PAYLOAD = (
    "36000000066b65790a76616c756504026802780e6e6f7468696e67011a000202010e6b65796c657373001600cf0f0408746f6d620100"
    "e8040090030600d804"
)
PLAIN = (
    "00000000000000640000019d0000000402424ae94d0000000000030000018bcfe568000000018bcfe568c8"
    "ffffffffffffffffffffffffffff00000004" + PLAIN_PAYLOAD
)
TRANSACTIONAL = (
    "00000000000000640000019d0000000402b2dc16070010000000030000018bcfe568000000018bcfe568c8"
    "000000000000004d00037ffffffe00000004" + PLAIN_PAYLOAD
)
FROM_JAVA = {
    Compression.GZIP: (
        "0000000000000064000000880000000402e20b12310001000000030000018bcfe568000000018bcfe568c8"
        "ffffffffffffffffffffffffffff000000041f8b08000000000000ff3363606060cb4eade42a4bcc294d6561ca60aae0cbcb2fc9c8cc4b"
        "679462606262e4034ae6a416173388319ce767e128c9cf4d626478c1c23081998de1060bc328201e00003d5ede646c010000"
    ),
    Compression.SNAPPY: (
        "0000000000000064000000990000000402b43bdbce0002000000030000018bcfe568000000018bcfe568c8"
        "ffffffffffffffffffffffffffff0000000482534e4150505900000000010000000100000054ec02f04036000000066b65790a76616c75"
        "6504026802780e6e6f7468696e67011a000202010e6b65796c657373001600cf0f0408746f6d620100e8040090030600d8040000fe0200"
        "fe0200fe0200fe0200aa0200"
    ),
    Compression.LZ4: (
        "00000000000000640000008c00000004023a3d57c50003000000030000018bcfe568000000018bcfe568c8"
        "ffffffffffffffffffffffffffff0000000404224d186040824c000000ff3136000000066b65790a76616c756504026802780e6e6f7468"
        "696e67011a000202010e6b65796c657373001600cf0f0408746f6d620100e8040090030600d804000100ff1550000000000000000000"
    ),
    Compression.ZSTD: (
        "0000000000000064000000850000000402ce52c2740004000000030000018bcfe568000000018bcfe568c8"
        "ffffffffffffffffffffffffffff0000000428b52ffd0058440200040436000000066b65790a76616c756504026802780e6e6f7468696e"
        "67011a000202010e6b65796c657373001600cf0f0408746f6d620100e8040090030600d804000100408a0aa2010000"
    ),
}


def test_a_plain_batch_is_kafkas_byte_for_byte() -> None:
    data = build_batch(RECORDS, base_offset=100, leader_epoch=4)
    assert data == bytes.fromhex(PLAIN) + bytes(301)


def test_a_transactional_batch_is_kafkas_byte_for_byte() -> None:
    data = build_batch(
        RECORDS,
        base_offset=100,
        leader_epoch=4,
        producer_id=77,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    assert data == bytes.fromhex(TRANSACTIONAL) + bytes(301)
    assert read_header(data).last_sequence == 1


@pytest.mark.parametrize("kind", FROM_JAVA)
def test_compressed_batches_of_kafkas_java_classes_are_read(kind: Compression) -> None:
    data = bytes.fromhex(FROM_JAVA[kind])
    header = read_header(data)
    assert header.crc == checksum(data, 0, header.size)
    assert header.compression == kind
    assert read_records(data, header) == RECORDS


def test_a_snappy_batch_is_kafkas_byte_for_byte() -> None:
    data = build_batch(RECORDS, base_offset=100, leader_epoch=4, compression=Compression.SNAPPY)
    assert data.hex() == FROM_JAVA[Compression.SNAPPY]


@pytest.mark.parametrize("kind", list(Compression))
def test_a_built_batch_reads_back_and_carries_its_checksum(kind: Compression) -> None:
    data = build_batch(RECORDS, base_offset=100, compression=kind)
    header = read_header(data)
    assert header.size == len(data)
    assert header.crc == checksum(data, 0, len(data))
    assert read_records(bytes(9) + data, header, 9) == RECORDS


def test_a_level_changes_the_size() -> None:
    records = [Record(i, START, b"%d" % (i * i), b"some words %d " % i * 9) for i in range(300)]
    sizes = {len(build_batch(records, compression=Compression.ZSTD, level=level)) for level in (-50, 3, 19)}
    assert len(sizes) == 3


def test_log_append_time_is_the_time_of_all_records() -> None:
    header = read_header(data := build_batch(RECORDS, base_offset=100, log_append_time=START + 5000))
    assert header.log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (START, START + 5000)
    assert {record.timestamp for record in read_records(data, header)} == {START + 5000}


def test_a_delete_horizon_becomes_the_base_and_timestamps_stay() -> None:
    header = read_header(data := build_batch(RECORDS, base_offset=100, delete_horizon=START + 10**9))
    assert header.delete_horizon == START + 10**9
    assert header.max_timestamp == START + 200
    assert read_records(data, header) == RECORDS


def test_the_range_of_a_compacted_batch_is_kept() -> None:
    header = read_header(data := build_batch([RECORDS[1]], base_offset=100, last_offset=103, base_sequence=7))
    assert (header.last_offset, header.records_count, header.last_sequence) == (103, 1, 10)
    assert read_records(data, header) == [RECORDS[1]]


def test_an_empty_batch_keeps_the_producer_and_the_range() -> None:
    full = build_batch(
        RECORDS,
        base_offset=100,
        leader_epoch=4,
        compression=Compression.ZSTD,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        transactional=True,
        delete_horizon=1,
    )
    before = read_header(full)
    header = read_header(data := empty_batch(before))
    assert len(data) == header.size == 61
    assert header.crc == checksum(data, 0, 61)
    kept = before._replace(length=49, crc=header.crc, attributes=0x10, base_timestamp=-1, records_count=0)
    assert header == kept
    assert read_records(data, header) == []


def test_a_payload_can_be_replaced_under_the_same_header() -> None:
    plain = build_batch(RECORDS, base_offset=100)
    header = read_header(plain)._replace(attributes=Compression.LZ4)
    data = replace_payload(header, compress(Compression.LZ4, plain[61:]))
    found = read_header(data)
    assert (found.size, found.crc) == (len(data), checksum(data, 0, len(data)))
    assert read_records(data, found) == RECORDS


def test_a_batch_that_is_cut_off_is_corrupt() -> None:
    data = build_batch(RECORDS, base_offset=100)
    header = read_header(data)
    for cut in (data[:-1], data[:61]):
        with pytest.raises(CorruptBatch, match="cut off"):
            read_payload(cut, header)
    with pytest.raises(CorruptBatch, match="cut off"):
        read_payload(data, header._replace(length=10))


@pytest.mark.parametrize("kind", list(Compression))
def test_times_are_found_inside_a_batch(kind: Compression) -> None:
    data = build_batch(RECORDS, base_offset=100, compression=kind)
    header = read_header(data)
    assert find_timestamp(data, header, START + 1) == (START + 1, 101)
    assert find_timestamp(data, header, START + 201) is None
    assert latest_timestamp(data, header) == (START + 200, 103)
    assert latest_timestamp(data, header._replace(records_count=0)) is None
