"""Partitions read from the segment files of a data directory, without a broker.

Owns: choosing partitions, what committed means on disk. Never knows: Spark, clusters; it only reads.
Invariants: batches that are not whole at the end of the last segment are left out, as a broker would cut them; with
`committed_only`, records of aborted transactions and everything from the first open transaction on are left out.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ottla.base.ports import ByteView
from ottla.base.vocabulary import TopicPartition
from ottla.records.batch import read_records
from ottla.records.control import ControlType, control_type
from ottla.records.header import BatchHeader, CorruptBatch, iterate_headers
from ottla.records.visible import Aborted
from ottla.spark.archives import Partitions, SegmentFile, find_segments
from ottla.spark.columns import Gatherer
from ottla.spark.errors import BadOption
from ottla.spark.options import SourceOptions, Topics
from ottla.spark.plan import Range
from ottla.spark.positions import Offsets

_PORTION = 4 * 1024 * 1024
_SET_ASIDE = 1024
_INTERNAL = "__"


class AbortedSpan(NamedTuple):
    """A transaction that came to nothing, with the offset of its marker."""

    transaction: Aborted
    marker: int


class Extent(NamedTuple):
    """Where a partition on disk begins and ends, and which transactions came to nothing."""

    start: int
    end: int
    aborted: tuple[AbortedSpan, ...]


def find_partitions(path: str, topics: Topics) -> Partitions:
    """The chosen partitions of a data directory; without a choice, all but internal ones."""
    found = {each: files for each, files in find_segments(path).items() if _chosen(each, topics)}
    if not found:
        raise BadOption(f"{path} holds no partition of the topics asked for")
    return found


def _chosen(partition: TopicPartition, topics: Topics) -> bool:
    if topics.assigned:
        return partition in topics.assigned
    if topics.pattern:
        return re.fullmatch(topics.pattern, partition.topic) is not None
    return partition.topic in topics.names if topics.names else not partition.topic.startswith(_INTERNAL)


def survey(segments: Sequence[SegmentFile], committed_only: bool) -> Extent:
    """One look at all batch headers."""
    start = segments[0].base_offset
    end = start
    open_since: dict[int, int] = {}
    aborted: list[AbortedSpan] = []
    for file in segments:
        data = file.mapped()
        for position, header in _whole_batches(data):
            end = header.next_offset
            if not committed_only or not header.transactional:
                continue
            if header.control:
                first = open_since.pop(header.producer_id, None)
                if first is not None and _is_abort(data, header, position):
                    aborted.append(AbortedSpan(Aborted(first, header.producer_id), header.base_offset))
            else:
                open_since.setdefault(header.producer_id, header.base_offset)
    return Extent(start, min([end, *open_since.values()]), tuple(aborted))


def extents(options: SourceOptions) -> tuple[Offsets, Offsets]:
    """Beginnings and ends of the chosen partitions."""
    found = find_partitions(options.path, options.topics)
    seen = {partition: survey(segments, options.committed_only) for partition, segments in found.items()}
    return {each: seen[each].start for each in seen}, {each: seen[each].end for each in seen}


def first_at(options: SourceOptions, moments: Offsets) -> Offsets:
    """The first batch that reaches each moment, which is never behind the first record that does."""
    found = find_partitions(options.path, options.topics)
    answers: Offsets = {}
    for partition, moment in moments.items():
        for file in found[partition]:
            reaching = (each.base_offset for _, each in _whole_batches(file.mapped()) if each.max_timestamp >= moment)
            offset = next(reaching, -1)
            if offset >= 0:
                answers[partition] = offset
                break
    return answers


def read_segments(options: SourceOptions, wanted: Range, gathering: Gatherer) -> Iterator[pa.RecordBatch]:
    """The records of the range, as `gathering` takes them."""
    segments = find_partitions(options.path, options.topics)[wanted.partition]
    aborted = survey(segments, True).aborted if options.committed_only else ()
    position = wanted.start
    for number, file in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else wanted.end
        if following <= position or position >= wanted.end:
            continue
        data = memoryview(file.mapped())
        for start, end in _portions(data, position):
            rest = [each.transaction for each in aborted if each.marker >= position]
            full = True
            while full:
                _, reached, _, full = gathering.reader.add(
                    data[start:end], position, partition=wanted.partition.partition, aborted=rest, end_offset=wanted.end
                )
                position = max(position, reached)
                if full or gathering.enough:
                    yield gathering.take()
            if position >= wanted.end:
                break
    if gathering.reader.rows:
        yield gathering.take()


def _portions(data: ByteView, position: int) -> Iterator[tuple[int, int]]:
    """Whole batches of a file that reach the position, some megabytes at a time."""
    begun = end = -1
    for start, header in _whole_batches(data):
        if header.next_offset <= position:
            continue
        begun = start if begun < 0 else begun
        end = start + header.size
        if end - begun >= _PORTION:
            yield begun, end
            begun = -1
    if begun >= 0:
        yield begun, end


def _whole_batches(data: ByteView) -> Iterator[tuple[int, BatchHeader]]:
    try:
        yield from iterate_headers(data)
    except CorruptBatch as problem:
        if any(data[problem.position : problem.position + _SET_ASIDE]):
            raise
        # space that a running broker has set aside


def _is_abort(data: ByteView, header: BatchHeader, position: int) -> bool:
    markers = read_records(data, header, position)
    return bool(markers) and control_type(markers[0].key) == ControlType.ABORT
