"""Filters: a batch read gets shorter, and never loses a record that passes."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ottla.base.vocabulary import TopicPartition
from ottla.spark.columns import record_columns
from ottla.spark.filters import narrow
from ottla.spark.plan import Range

RANGES = [Range(TopicPartition(topic, number), 0, 100) for topic in ("a", "b") for number in range(2)]

NAMES = {name: name for name in record_columns(True)}


def narrowed(*filters: Filter) -> tuple[list[Range], list[Filter]]:
    narrowing, left = narrow(filters, NAMES)
    return narrowing.apply(RANGES), left


def test_topic_partition_and_offset_are_settled_here() -> None:
    ranges, left = narrowed(
        EqualTo(("topic",), "a"),
        In(("partition",), (1, 7)),
        GreaterThanOrEqual(("offset",), 10),
        LessThan(("offset",), 20),
    )
    assert ranges == [Range(TopicPartition("a", 1), 10, 20)]
    assert left == []


def test_both_ends_of_an_offset_filter_are_exact() -> None:
    assert narrowed(GreaterThan(("offset",), 97), LessThanOrEqual(("offset",), 98))[0][0][1:] == (98, 99)
    assert narrowed(EqualTo(("offset",), 5))[0][0][1:] == (5, 6)


def test_filters_that_exclude_each_other_leave_nothing() -> None:
    assert narrowed(EqualTo(("partition",), 0), EqualTo(("partition",), 1))[0] == []
    assert narrowed(GreaterThan(("offset",), 5), LessThan(("offset",), 5))[0] == []


def test_times_move_the_beginning_and_spark_looks_again() -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    later = GreaterThan(("timestamp",), moment)
    narrowing, left = narrow([later], NAMES)
    assert narrowing.since == int(moment.timestamp() * 1000)
    assert left == [later]


def test_what_is_not_understood_is_left_to_spark() -> None:
    filters: list[Filter] = [
        IsNotNull(("key",)),
        EqualTo(("value",), b"x"),
        Not(EqualTo(("partition",), 1)),
        LessThan(("timestamp",), datetime(2024, 1, 1, tzinfo=UTC)),
        GreaterThan(("partition",), 0),
    ]
    ranges, left = narrowed(*filters)
    assert ranges == RANGES
    assert left == filters


def test_a_column_of_the_value_is_not_taken_for_one_of_the_record() -> None:
    of_value = EqualTo(("partition",), 1)
    narrowing, left = narrow([of_value, EqualTo(("record_partition",), 0)], {"record_partition": "partition"})
    assert left == [of_value]
    assert {each.partition.partition for each in narrowing.apply(RANGES)} == {0}
