"""What a batch read leaves out because the query asks for less.

Owns: narrowing ranges by Spark's filters on topic, partition, offset and timestamp. Never knows: clusters.
Invariants: a record that passes the filters is never left out. Filters on topic, partition and offset are settled here;
one on time only moves the beginning (times need not grow with offsets), so Spark looks at it again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import floor
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ottla.base.vocabulary import TopicPartition
from ottla.spark.plan import Range


class Narrowing(NamedTuple):
    """What passes: None is everything."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    end: int = (1 << 63) - 1
    since: int | None = None
    """Milliseconds."""

    def passes(self, partition: TopicPartition) -> bool:
        topic_passes = self.topics is None or partition.topic in self.topics
        return topic_passes and (self.partitions is None or partition.partition in self.partitions)

    def apply(self, ranges: Sequence[Range]) -> list[Range]:
        clipped = [
            Range(each.partition, max(each.start, self.first), min(each.end, self.end))
            for each in ranges
            if self.passes(each.partition)
        ]
        return [each for each in clipped if each.start < each.end]


def narrow(filters: Sequence[Filter], names: Mapping[str, str]) -> tuple[Narrowing, list[Filter]]:
    """What can be done here, and the filters Spark must still apply; `names` say which columns are the record's."""
    narrowing = Narrowing()
    left: list[Filter] = []
    for each in filters:
        narrower = _narrower(narrowing, each, names)
        if narrower is None or narrower.since != narrowing.since:
            left.append(each)
        narrowing = narrower or narrowing
    return narrowing, left


def _narrower(present: Narrowing, each: Filter, names: Mapping[str, str]) -> Narrowing | None:
    column = tuple(names.get(part) for part in getattr(each, "attribute", ()))
    value: Any = getattr(each, "value", None)
    if value is None:
        return None
    if column in (("topic",), ("partition",)):
        values = _values(each, value)
        if values is None:
            return None
        if column == ("topic",):
            return present._replace(topics=values if present.topics is None else present.topics & values)
        return present._replace(partitions=values if present.partitions is None else present.partitions & values)
    if column == ("offset",) and type(value) is int:
        return _by_offset(present, each, value)
    lower = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)
    if column == ("timestamp",) and isinstance(value, datetime) and isinstance(each, lower):
        moment = floor(value.timestamp() * 1000)
        return present._replace(since=moment if present.since is None else max(present.since, moment))
    return None


def _values(each: Filter, value: Any) -> frozenset[Any] | None:
    if isinstance(each, EqualTo | EqualNullSafe):
        return frozenset([value])
    return frozenset(value) if isinstance(each, In) else None


def _by_offset(present: Narrowing, each: Filter, value: int) -> Narrowing | None:
    match each:
        case EqualTo() | EqualNullSafe():
            return present._replace(first=max(present.first, value), end=min(present.end, value + 1))
        case GreaterThan():
            return present._replace(first=max(present.first, value + 1))
        case GreaterThanOrEqual():
            return present._replace(first=max(present.first, value))
        case LessThan():
            return present._replace(end=min(present.end, value))
        case LessThanOrEqual():
            return present._replace(end=min(present.end, value + 1))
    return None
