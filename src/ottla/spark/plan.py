"""Which offsets a batch reads and how tasks share them.

Owns: admission (how far one trigger goes) and cutting ranges into tasks. Never knows: clusters, Spark, time's source.
Invariants: every offset between start and end is in exactly one range; a limit never moves a partition past its end or
before its start, and as long as something is left, it moves something.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.spark.positions import Offsets


class Range(NamedTuple):
    """Offsets of one partition, from `start` up to and without `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[Range]:
    """What lies between; partitions in which nothing does are left out."""
    return [
        Range(partition, starts[partition], end)
        for partition, end in sorted(ends.items())
        if partition in starts and starts[partition] < end
    ]


def limit_rows(starts: Offsets, ends: Offsets, rows: int) -> Offsets:
    """Ends such that about so many offsets lie between, shared among partitions as they have them."""
    waiting = {partition: max(0, end - starts[partition]) for partition, end in ends.items()}
    total = sum(waiting.values())
    if total <= rows:
        return dict(ends)
    limited: Offsets = {}
    for partition, end in ends.items():
        share = waiting[partition] * rows / total
        step = int(share) if share >= 1 else int(share > 0)  # a small partition is not starved by large ones
        limited[partition] = min(end, starts[partition] + step) if waiting[partition] else end
    return limited


def limit_bytes(starts: Offsets, ends: Offsets, size: int, record_bytes: Mapping[TopicPartition, float]) -> Offsets:
    """Ends such that about so many bytes lie between, by the size a record of each partition has on average."""
    waiting = {partition: max(0, end - starts[partition]) for partition, end in ends.items()}
    total = sum(count * record_bytes.get(partition, 1.0) for partition, count in waiting.items())
    if total <= size:
        return dict(ends)
    part = size / total
    return {
        partition: min(end, starts[partition] + max(1, int(waiting[partition] * part))) if waiting[partition] else end
        for partition, end in ends.items()
    }


def cut(ranges: Sequence[Range], least: int = 0, most_rows: int = 0) -> list[Range]:
    """Ranges for tasks: none above `most_rows` offsets, and `least` of them or a little more where there is enough."""
    pieces = [piece for each in ranges for piece in _even(each, -(-each.size // most_rows) if most_rows else 1)]
    total = sum(piece.size for piece in pieces)
    if len(pieces) >= least or not total:
        return pieces
    # as Spark's own source does it: ranges that are smaller than a fair share stay whole, the rest is shared
    fair = total / least
    small = [piece for piece in pieces if piece.size < fair]
    large = [piece for piece in pieces if piece.size >= fair]
    rest = sum(piece.size for piece in large)
    wanted = max(1, least - len(small))
    shared = [part for piece in large for part in _even(piece, max(1, round(piece.size / rest * wanted)))]
    return sorted([*small, *shared])


def _even(whole: Range, parts: int) -> list[Range]:
    parts = max(1, min(parts, whole.size))
    marks = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [Range(whole.partition, first, last) for first, last in pairwise(marks)]
