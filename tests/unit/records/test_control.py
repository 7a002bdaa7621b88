"""Control records are Kafka's own bytes, both ways."""

import pytest

from ottla.records.batch import read_records
from ottla.records.control import (
    Control,
    ControlType,
    ElectionVoter,
    Endpoint,
    EndTransaction,
    KraftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    Voters,
    build_control,
    control_record,
    control_type,
    read_control,
)
from ottla.records.header import CorruptBatch, read_header
from ottla.records.record import Record

START = 1_700_000_000_000
DIRECTORY = bytes(range(1, 17))
TIMES = "0000018bcfe568000000018bcfe56800"
NOBODY = "ffffffffffffffffffffffffffff"
MARKER_HEAD = f"000000000000002a0000004200000003%s003000000000{TIMES}00000000000004d20005ffffffff00000001"

# each with its offset, and the batch that Kafka 4.3.1's MemoryRecords makes of it
KNOWN: dict[str, tuple[Control, int, str]] = {
    "commit": (
        EndTransaction(True, 9),
        42,
        MARKER_HEAD % "0235c7b508" + "2000000008000000010c00000000000900",
    ),
    "abort": (
        EndTransaction(False, 9),
        42,
        MARKER_HEAD % "02c1f96340" + "2000000008000000000c00000000000900",
    ),
    "leader change": (
        LeaderChange(1, (ElectionVoter(1), ElectionVoter(2), ElectionVoter(3)), (ElectionVoter(1), ElectionVoter(2))),
        7,
        f"00000000000000070000005e00000002021735ab2b002000000000{TIMES}{NOBODY}00000001"
        "580000000800000002440000000000010400000001000000000200000000030003000000010000000002000000",
    ),
    "snapshot header": (
        SnapshotHeader(START - 5),
        0,
        f"000000000000000000000047000000020227332c9a002000000000{TIMES}{NOBODY}00000001"
        "2a00000008000000031600000000018bcfe567fb0000",
    ),
    "snapshot footer": (
        SnapshotFooter(),
        9,
        f"00000000000000090000003f00000002028f6608e6002000000000{TIMES}{NOBODY}000000011a00000008000000040600000000",
    ),
    "kraft version": (
        KraftVersion(1),
        1,
        f"0000000000000001000000410000000202a89c5586002000000000{TIMES}{NOBODY}00000001"
        "1e00000008000000050a000000010000",
    ),
    "voters": (
        Voters((Voter(3, DIRECTORY, (Endpoint("CONTROLLER", "node-3.example", 65000),), 0, 1),)),
        2,
        f"000000000000000200000079000000020285e085ed002000000000{TIMES}{NOBODY}00000001"
        "8c01000000080000000678000002000000030102030405060708090a0b0c0d0e0f10020b434f4e54524f4c4c4552"
        "0f6e6f64652d332e6578616d706c65fde8000000000100000000",
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_control_batch_is_kafkas_byte_for_byte(name: str) -> None:
    content, offset, expected = KNOWN[name]
    if isinstance(content, EndTransaction):
        data = build_control(
            content, offset=offset, timestamp=START, leader_epoch=3, producer_id=1234, producer_epoch=5
        )
    else:
        data = build_control(content, offset=offset, timestamp=START, leader_epoch=2)
    assert data.hex() == expected


@pytest.mark.parametrize("name", KNOWN)
def test_a_control_batch_of_kafka_is_read(name: str) -> None:
    content, _, raw = KNOWN[name]
    data = bytes.fromhex(raw)
    header = read_header(data)
    assert header.control
    assert [read_control(record) for record in read_records(data, header)] == [content]


def test_a_leader_change_of_version_1_names_directories() -> None:
    content = LeaderChange(2, (ElectionVoter(2, DIRECTORY),), (ElectionVoter(2, DIRECTORY),), version=1)
    record = control_record(content, 0, START)
    assert record.value == b"\x00\x01\x00\x00\x00\x02" + (b"\x02\x00\x00\x00\x02" + DIRECTORY + b"\x00") * 2 + b"\x00"
    assert read_control(record) == content


def test_types_and_tagged_fields_of_a_later_kafka_are_skipped() -> None:
    assert control_type(b"\x00\x00\x00\x63") is None
    assert read_control(Record(0, START, b"\x00\x00\x00\x63", b"whatever")) is None
    voters = control_record(KNOWN["voters"][0], 0, START)
    assert voters.value is not None
    tagged = voters.value[:-2] + b"\x01\x05\x02hi" + voters.value[-1:]
    assert read_control(voters._replace(value=tagged)) == KNOWN["voters"][0]


def test_the_key_alone_tells_the_type() -> None:
    assert [control_type(control_record(content, 0, START).key) for content, _, _ in KNOWN.values()] == [
        ControlType.COMMIT,
        ControlType.ABORT,
        ControlType.LEADER_CHANGE,
        ControlType.SNAPSHOT_HEADER,
        ControlType.SNAPSHOT_FOOTER,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ]


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_a_key_that_is_none_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        read_control(Record(0, START, key, b"\x00\x00\x00\x00\x00\x09"))


@pytest.mark.parametrize("name", KNOWN)
def test_a_value_that_is_cut_off_is_corrupt(name: str) -> None:
    content, _, _ = KNOWN[name]
    record = control_record(content, 0, START)
    assert record.value is not None
    needed = len(record.value) - (0 if isinstance(content, EndTransaction) else 1)  # the tags at the end are not read
    for size in range(needed):
        with pytest.raises(CorruptBatch):
            read_control(record._replace(value=record.value[:size]))
    with pytest.raises(CorruptBatch):
        read_control(record._replace(value=None))
    with pytest.raises(CorruptBatch):
        read_control(record._replace(value=b"\xff\xff" + record.value[2:]))


def test_endless_numbers_and_nulls_are_corrupt() -> None:
    key = control_record(KNOWN["voters"][0], 0, START).key
    for value in (b"\x00\x00" + b"\xff" * 9, b"\x00\x00\x00\x00"):
        with pytest.raises(CorruptBatch):
            read_control(Record(0, START, key, value))
