"""Records of `__consumer_offsets`: bytes that a real Kafka 4.3 wrote, and round trips of everything else."""

from __future__ import annotations

import pytest

from ottla.groups.facts import GroupFact, OffsetFact, StoredGroup, StoredMember, StoredOffset
from ottla.groups.records import BadGroupRecord, is_known, read, written

TOPIC_ID = bytes.fromhex("305c9345ff794fb9b0e21427fd8c9646")

# As found in the topic of a real broker.
FROM_KAFKA = [
    (
        OffsetFact("g-probe", "g-topic", 0, StoredOffset(1, 0, "", 1794778339972, topic_id=TOPIC_ID)),
        b"\x00\x01\x00\x07g-probe\x00\x07g-topic\x00\x00\x00\x00",
        b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x00\x00\x01\xa1\xe1 \x1a\x84\x01\x00\x10"
        + TOPIC_ID,
    ),
    (
        GroupFact("g-probe", StoredGroup(None, 0, None, None, 1794778339724)),
        b"\x00\x02\x00\x07g-probe",
        b"\x00\x03\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x01\xa1\xe1 \x19\x8c\x00\x00\x00\x00",
    ),
    (
        GroupFact(
            "g-probe",
            StoredGroup(
                "consumer",
                1,
                "range",
                "c-1",
                1794778339755,
                (StoredMember("c-1", None, "c", "/127.0.0.1", 300000, 45000, b"sub", b"part"),),
            ),
        ),
        b"\x00\x02\x00\x07g-probe",
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x01\x00\x05range\x00\x03c-1\x00\x00\x01\xa1\xe1 \x19\xab\x00\x00\x00\x01"
        b"\x00\x03c-1\xff\xff\x00\x01c\x00\n/127.0.0.1\x00\x04\x93\xe0\x00\x00\xaf\xc8\x00\x00\x00\x03sub\x00\x00\x00\x04part",
    ),
]


@pytest.mark.parametrize(("fact", "key", "value"), FROM_KAFKA)
def test_records_are_written_and_read_as_kafka_writes_them(
    fact: GroupFact | OffsetFact, key: bytes, value: bytes
) -> None:
    assert written(fact) == (key, value)
    assert read(key, value) == fact


@pytest.mark.parametrize(
    "fact",
    [
        OffsetFact("g", "t", 3, StoredOffset(7, -1, "note", 10, expire_ms=20)),
        OffsetFact("g", "t", 3, None),
        GroupFact("g", None),
        GroupFact("g", StoredGroup("connect", 4, "p", "a", -1, (StoredMember("a", "i", "", "", 1, 2, b"", b""),))),
    ],
)
def test_what_is_written_is_read_again(fact: GroupFact | OffsetFact) -> None:
    assert read(*written(fact)) == fact


def test_the_oldest_formats_are_read() -> None:
    key = b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x00"
    assert read(key, b"\x00\x00" + bytes(7) + b"\x05" + b"\x00\x01n" + bytes(7) + b"\x09") == OffsetFact(
        "g", "t", 0, StoredOffset(5, -1, "n", 9)
    )


def test_records_of_other_kinds_are_not_ours() -> None:
    assert is_known(b"\x00\x01")
    assert is_known(b"\x00\x02")
    assert is_known(b"\x00\x03\x00\x01g")
    assert not is_known(b"\x00\x0a\x00\x01g")
    assert not is_known(b"")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x01\x00\x09g", b"\x00\x04"),
        (b"\x00\x02\x00\x01g", b"\x00\x63"),
        (b"\x00\x02\x00\x01g", b"\x00\x03\x00"),
        (b"\x00\x02\x00\x01g", b""),
    ],
)
def test_damaged_records_are_told_apart(key: bytes, value: bytes) -> None:
    with pytest.raises(BadGroupRecord):
        read(key, value)
