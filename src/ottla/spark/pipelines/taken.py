"""What a finished batch took from its sources, by the query's own checkpoint.

Owns: finding the records of a batch between two ends, and cutting them into portions. Pure. Never knows: Spark,
clusters, what the records are wanted for. Invariants: a portion has a bounded number of offsets; portions come in the
same order each time, so that one who was interrupted finds the place where to go on.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.spark.pipelines.definition import Source
from ottla.spark.pipelines.offset_log import BatchOffsets
from ottla.spark.plan import Range, cut, ranges_between
from ottla.spark.positions import Offsets, Reached, from_checkpoint


class Taken(NamedTuple):
    """What a batch took from a source."""

    source: Source
    ranges: tuple[Range, ...]
    ids: Mapping[str, str]
    """Of the topics, as far as they are known."""


class Portion(NamedTuple):
    """Some of it, to be seen to at a time."""

    source: Source
    ranges: tuple[Range, ...]

    @property
    def last(self) -> list[str | int]:
        """What tells it from others, in JSON."""
        partition, _, end = self.ranges[-1]
        return [self.source.name, *partition, end]


def taken_by(sources: Sequence[Source], before: BatchOffsets, batch: BatchOffsets) -> list[Taken]:
    """Which records of which sources came in a batch."""
    found: list[Taken] = []
    for position, form in enumerate(batch.ends):
        if form is None:
            continue
        reached = from_checkpoint(form)
        earlier = before.ends[position] if position < len(before.ends) else None
        ranges = tuple(ranges_between(_starts(earlier, reached), reached.offsets))
        for source in sources:
            new = Taken(source, ranges, reached.ids)
            if ranges and _reads(source, reached) and new not in found:
                found.append(new)
    return found


def _starts(earlier: Mapping[str, Mapping[str, int]] | None, reached: Reached) -> Offsets:
    """A partition of which nothing is told was new in the batch of an earlier version, and read from its beginning; of
    the first batch of such a query nobody knows where it began."""
    if reached.initial:
        return reached.offsets
    if earlier is None:
        return dict(reached.begun)
    return dict.fromkeys(reached.offsets, 0) | from_checkpoint(earlier).offsets | dict(reached.begun)


def _reads(source: Source, reached: Reached) -> bool:
    topics = {partition.topic for partition in reached.offsets}
    pattern = source.options.get("subscribePattern")
    if pattern is not None:
        return all(re.fullmatch(pattern, topic) for topic in topics)
    return {name.strip() for name in source.topics.split(",")} == topics


def portions(taken: Sequence[Taken], most: int) -> Iterator[Portion]:
    """All of it, so many offsets at a time."""
    for source, ranges, _ in taken:
        gathered: list[Range] = []
        for piece in cut(ranges, most_rows=most):
            if gathered and sum(each.size for each in gathered) + piece.size > most:
                yield Portion(source, tuple(gathered))
                gathered = []
            gathered.append(piece)
        if gathered:
            yield Portion(source, tuple(gathered))


def rest_behind(all_of_them: Sequence[Portion], last: object) -> Sequence[Portion]:
    """What is left behind the portion that `last` names; everything where there is no such portion any more."""
    for number, each in enumerate(all_of_them):
        if each.last == last:
            return all_of_them[number + 1 :]
    return all_of_them
