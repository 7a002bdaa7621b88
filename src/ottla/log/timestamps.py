"""Look-ups by time in a run of segments.

Owns: which record a timestamp leads to, exactly, inside batches. Never knows: what the answer is used for.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.log.segment import Segment
from ottla.records.batch import find_timestamp, latest_timestamp, read_records
from ottla.records.header import BatchHeader


class TimedOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int) -> TimedOffset | None:
    """The first record from `start_offset` on that is at least this new."""
    for segment in segments:
        # An empty segment holds no time, and its file may not be there yet.
        if segment.size and segment.largest_timestamp >= timestamp:
            # As Kafka: the first segment that can hold it decides.
            return _first_in(segment, timestamp, start_offset)
    return None


def _first_in(segment: Segment, timestamp: int, start_offset: int) -> TimedOffset | None:
    position = segment.index.position_for(max(segment.time_index.offset_for(timestamp), start_offset))
    for header, data in _batches(segment, position):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        found = _find(data(), header, timestamp, start_offset)
        if found is not None:
            return TimedOffset(*found, header.leader_epoch)
    return None


def _find(data: bytes, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    if header.base_offset >= start_offset:
        return find_timestamp(data, header, timestamp)
    for record in read_records(data, header):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None


def latest(segments: Sequence[Segment]) -> TimedOffset | None:
    """The first record that has the greatest timestamp of all."""
    if not segments:
        return None
    segment = max(segments, key=lambda segment: segment.latest[0])
    timestamp, offset = segment.latest
    for header, data in _batches(segment, segment.index.position_for(offset)):
        if header.max_timestamp == timestamp:
            found = latest_timestamp(data(), header)
            if found is not None:
                return TimedOffset(*found, header.leader_epoch)
    return None


class _Content(NamedTuple):
    """Reads a batch only when its header makes it interesting."""

    segment: Segment
    position: int
    size: int

    def __call__(self) -> bytes:
        return self.segment.file.read_at(self.position, self.size)


def _batches(segment: Segment, position: int) -> Iterator[tuple[BatchHeader, _Content]]:
    for at, header in segment.headers(position):
        yield header, _Content(segment, at, header.size)
