"""What of `__consumer_offsets` still holds when it is read back."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.loading import Replay
from ottla.groups.facts import Fact, GroupFact, OffsetFact, StoredGroup, StoredOffset
from ottla.groups.records import written
from ottla.log.segment import FileRange
from ottla.records.builder import build_batch
from ottla.records.control import EndTransaction, build_control
from ottla.records.record import Record

GROUP = GroupFact("g", StoredGroup("consumer", 3, None, None, 5))


class Bytes:
    """A file that is only read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]


def committed(offset: int, partition: int = 0) -> OffsetFact:
    return OffsetFact("g", "t", partition, StoredOffset(offset, -1, "", 1))


def batches(*facts: Fact) -> bytes:
    records = [Record(offset, 0, *written(fact)) for offset, fact in enumerate(facts)]
    return b"".join(bytes(build_batch([record], base_offset=record.offset)) for record in records)


def replayed(data: bytes) -> Replay:
    replay = Replay()
    replay.take(FileRange(Bytes(data), 0, len(data)))  # type: ignore[arg-type]
    return replay


def test_the_last_word_on_each_key_holds_and_groups_come_first() -> None:
    replay = replayed(batches(committed(1), committed(2), GROUP, committed(7, partition=1), committed(3)))
    assert replay.next_offset == 5
    facts = replay.facts()
    assert facts[0] == GROUP
    assert sorted(facts[1:]) == [committed(3), committed(7, partition=1)]


def test_what_was_taken_back_is_gone() -> None:
    replay = replayed(batches(GROUP, committed(1), OffsetFact("g", "t", 0, None), GroupFact("g", None)))
    assert replay.facts() == []


def test_a_cut_off_batch_is_left_for_the_next_reading() -> None:
    data = batches(committed(1), committed(2))
    replay = replayed(data[:-1])
    assert replay.next_offset == 1
    assert replay.facts() == [committed(1)]


def test_foreign_records_and_markers_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    foreign = [
        Record(0, 0, None, b"no key"),
        Record(1, 0, b"\x00\x03\x00\x01g", b"another kind"),
        Record(2, 0, b"\x00\x02\x00\x01g", b"\x00\x03damaged"),
    ]
    end = EndTransaction(True, 0)
    marker = build_control(end, offset=3, timestamp=0, leader_epoch=0, producer_id=1, producer_epoch=0)
    replay = replayed(bytes(build_batch(foreign)) + bytes(marker))
    assert replay.next_offset == 4
    assert replay.facts() == []
    assert "is passed over" in caplog.text
