"""A consumer sees its records, and neither markers nor what was aborted."""

import pytest

from ottla.client.fetched import Aborted, visible_records
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.control import EndTransaction, build_control
from ottla.records.header import CorruptBatch
from ottla.records.record import Record


def batch(
    first: int, count: int, *, producer: int = -1, transactional: bool = False, compression: int = Compression.NONE
) -> bytes:
    data = build_batch(
        [Record(first + step, 1000 + step, b"k", b"%d" % (first + step)) for step in range(count)],
        base_offset=first,
        compression=compression,
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=-1 if producer < 0 else 0,
        transactional=transactional,
    )
    return bytes(data)


def marker(offset: int, producer: int, *, committed: bool) -> bytes:
    content = EndTransaction(committed, 0)
    return bytes(
        build_control(content, offset=offset, timestamp=2000, leader_epoch=0, producer_id=producer, producer_epoch=0)
    )


def offsets(data: bytes, position: int, aborted: tuple[Aborted, ...] = ()) -> tuple[list[int], int]:
    visible = visible_records(data, position, aborted)
    return [record.offset for record in visible.records], visible.next_offset


@pytest.mark.parametrize("compression", list(Compression))
def test_reading_may_start_in_the_middle_of_a_batch(compression: Compression) -> None:
    data = batch(10, 5, compression=compression) + batch(15, 2)
    assert offsets(data, 12) == ([12, 13, 14, 15, 16], 17)


def test_a_cut_batch_at_the_end_waits_for_the_next_fetch() -> None:
    data = batch(0, 3) + batch(3, 3)[:-1]
    assert offsets(data, 0) == ([0, 1, 2], 3)
    assert offsets(data[:30], 0) == ([], 0)


def test_a_batch_before_the_position_moves_nothing() -> None:
    assert offsets(batch(0, 3), 7) == ([], 7)


def test_markers_are_passed_but_not_shown() -> None:
    data = batch(0, 2, producer=9, transactional=True) + marker(2, 9, committed=True)
    assert offsets(data, 0) == ([0, 1], 3)


def test_aborted_records_are_left_out_until_their_marker() -> None:
    data = (
        batch(0, 2, producer=9, transactional=True)
        + batch(2, 2, producer=8, transactional=True)
        + marker(4, 9, committed=False)
        + batch(5, 2, producer=9, transactional=True)
        + marker(7, 9, committed=True)
    )
    assert offsets(data, 0, (Aborted(0, 9),)) == ([2, 3, 5, 6], 8)
    assert offsets(data, 0) == ([0, 1, 2, 3, 5, 6], 8)


def test_an_aborted_transaction_that_starts_later_hides_nothing_before() -> None:
    data = (
        batch(0, 2, producer=9, transactional=True)
        + marker(2, 9, committed=True)
        + batch(3, 1, producer=9, transactional=True)
    )
    assert offsets(data, 0, (Aborted(3, 9),)) == ([0, 1], 4)


def test_a_damaged_batch_is_refused() -> None:
    data = bytearray(batch(0, 3))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        visible_records(bytes(data), 0)
