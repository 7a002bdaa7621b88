"""What a batch took, by its query's checkpoint, and in which portions that is looked at."""

from __future__ import annotations

from typing import Any

from ottla.base.vocabulary import TopicPartition
from ottla.spark.pipelines.definition import Source, source_from
from ottla.spark.pipelines.offset_log import BatchOffsets
from ottla.spark.pipelines.taken import Portion, Taken, portions, rest_behind, taken_by
from ottla.spark.plan import Range

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
NOTHING = BatchOffsets(0, ())


def source(name: str, **given: Any) -> Source:
    problems: list[str] = []
    made = source_from(name, given, problems)
    assert not problems
    return made


ORDERS, PAYMENTS, ALL = source("o", topic="a"), source("p", topic="b"), source("x", pattern="a|b")


def test_a_batch_took_what_lies_between_two_records_of_the_checkpoint() -> None:
    before = BatchOffsets(0, ({"a": {"0": 1}}, {"b": {"0": 4}}))
    besides = {"ids": {"a": "i"}, "begun": {"a": {"1": 1}}}
    after = BatchOffsets(0, ({"": besides, "a": {"0": 3, "1": 2}}, {"b": {"0": 4}}))
    ranges = Range(A, 1, 3), Range(B, 1, 2)
    assert taken_by([ORDERS, PAYMENTS, ALL], before, after) == [
        Taken(ORDERS, ranges, {"a": "i"}),
        Taken(ALL, ranges, {"a": "i"}),
    ]
    assert taken_by([PAYMENTS], before, after) == []


def test_the_first_batch_took_what_its_own_end_says() -> None:
    after = BatchOffsets(0, ({"": {"begun": {"a": {"0": 7}}}, "a": {"0": 9}},))
    assert taken_by([ORDERS], NOTHING, after) == [Taken(ORDERS, (Range(A, 7, 9),), {})]
    assert taken_by([ORDERS], NOTHING, BatchOffsets(0, ({"": {"initial": True}, "a": {"0": 9}},))) == []


def test_of_an_earlier_version_a_new_partition_is_read_from_its_beginning_and_the_first_batch_is_not_guessed() -> None:
    before, after = BatchOffsets(0, ({"a": {"0": 1}},)), BatchOffsets(0, ({"a": {"0": 1, "1": 2}},))
    assert taken_by([ORDERS], before, after) == [Taken(ORDERS, (Range(B, 0, 2),), {})]
    assert taken_by([ORDERS], NOTHING, after) == []


def test_portions_are_bounded_and_together_are_everything() -> None:
    ranges = Range(A, 0, 25), Range(B, 5, 8), Range(TopicPartition("a", 2), 0, 4)
    found = list(portions([Taken(ORDERS, ranges, {}), Taken(ALL, ranges[:1], {})], 10))
    assert all(sum(each.size for each in portion.ranges) <= 10 for portion in found)
    for chosen, whole in ((ORDERS, ranges), (ALL, ranges[:1])):
        pieces = [piece for portion in found if portion.source == chosen for piece in portion.ranges]
        offsets = [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.end)]
        assert offsets == [(each.partition, offset) for each in whole for offset in range(each.start, each.end)]
    for portion in found:
        assert len({piece.partition for piece in portion.ranges}) == len(portion.ranges)


def test_one_who_was_interrupted_goes_on_behind_the_last_portion_and_anew_where_it_is_unknown() -> None:
    found = list(portions([Taken(ORDERS, (Range(A, 0, 30),), {})], 10))
    assert rest_behind(found, ["o", "a", 0, 10]) == found[1:]
    assert rest_behind(found, found[-1].last) == []
    assert rest_behind(found, ["o", "a", 0, 11]) == found
    assert found[0] == Portion(ORDERS, (Range(A, 0, 10),))
