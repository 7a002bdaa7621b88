"""Ranges and limits: nothing is lost, nothing is read twice, nobody starves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.vocabulary import TopicPartition
from ottla.spark.plan import Range, cut, limit_bytes, limit_rows, ranges_between

A, B, C = (TopicPartition("t", number) for number in range(3))


def sizes(ranges: list[Range]) -> list[int]:
    return [each.size for each in ranges]


def test_partitions_in_which_nothing_lies_are_left_out() -> None:
    assert ranges_between({A: 5, B: 5}, {A: 5, B: 7, C: 9}) == [Range(B, 5, 7)]


def test_a_limit_is_shared_as_the_partitions_have_records() -> None:
    assert limit_rows({A: 0, B: 100}, {A: 100, B: 400}, 40) == {A: 10, B: 130}


def test_a_small_partition_is_not_starved_by_large_ones() -> None:
    assert limit_rows({A: 0, B: 0}, {A: 1, B: 1_000_000}, 10)[A] == 1


def test_a_limit_above_what_waits_changes_nothing() -> None:
    assert limit_rows({A: 0, B: 2}, {A: 3, B: 2}, 100) == {A: 3, B: 2}


def test_bytes_are_shared_by_what_records_weigh() -> None:
    ends = limit_bytes({A: 0, B: 0}, {A: 1000, B: 1000}, 55_000, {A: 100.0, B: 10.0})
    assert ends == {A: 500, B: 500}


def test_no_task_gets_more_records_than_allowed() -> None:
    assert sizes(cut([Range(A, 0, 10)], most_rows=4)) == [3, 3, 4]


def test_large_ranges_are_cut_until_there_are_enough_tasks() -> None:
    pieces = cut([Range(A, 0, 900), Range(B, 0, 100)], least=10)
    assert len(pieces) >= 10
    assert max(sizes(pieces)) <= 101


numbers = st.integers(0, 500)


@given(st.dictionaries(st.sampled_from([A, B, C]), st.tuples(numbers, numbers)), st.integers(1, 600))
def test_limits_move_forward_and_never_too_far(partitions: dict[TopicPartition, tuple[int, int]], rows: int) -> None:
    starts = {partition: start for partition, (start, _) in partitions.items()}
    ends = {partition: start + more for partition, (start, more) in partitions.items()}
    for limited in (limit_rows(starts, ends, rows), limit_bytes(starts, ends, rows, dict.fromkeys(ends, 3.0))):
        assert all(starts[each] <= limited[each] <= ends[each] for each in ends)
        if starts != ends:
            assert limited != starts
        assert sum(limited.values()) - sum(starts.values()) <= rows + len(ends)


@given(
    st.dictionaries(st.sampled_from([A, B, C]), st.tuples(numbers, st.integers(1, 500))),
    st.integers(0, 40),
    st.integers(0, 100),
)
def test_cutting_keeps_every_offset_exactly_once(
    partitions: dict[TopicPartition, tuple[int, int]], least: int, most: int
) -> None:
    ranges = [Range(partition, start, start + more) for partition, (start, more) in partitions.items()]
    pieces = cut(ranges, least, most)
    offsets = [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.end)]
    wanted = [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert sorted(offsets) == sorted(wanted)
    assert not most or max(sizes(pieces), default=0) <= most
