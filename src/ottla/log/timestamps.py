"""Look-ups by time in a run of segments.

Owns: which record a timestamp leads to, exactly, inside batches. Never knows: what the answer is used for. Batches are
read and decompressed for it, which takes its time: a `TimeSearch` holds all it needs, and is made to run in a thread.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.log.files import StorageFailure
from ottla.log.segment import Segment, SegmentTwin
from ottla.records.batch import find_timestamp, latest_timestamp
from ottla.records.header import BatchHeader, CorruptBatch


class TimedOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimeSearch(NamedTuple):
    """A look-up of the first record at least as new as `timestamp` (of the greatest one when it is None)."""

    twins: Sequence[SegmentTwin]
    """Of the segments that hold anything, in their order."""
    timestamp: int | None
    start_offset: int
    generation: int
    """Of the log: where it has another one when the search is done, the search may have met what was cut off."""

    def run(self) -> TimedOffset | None:
        """Make it. Blocking; raises StorageFailure, CorruptBatch."""
        path = ""
        try:
            for twin in self.twins:
                # A file is opened only where it is not known to be older.
                if twin.latest is None or (self.timestamp is not None and not 0 <= twin.latest[0] < self.timestamp):
                    segment = twin.load()
                    path = segment.path
                    if self.timestamp is not None and segment.largest_timestamp >= self.timestamp:
                        # As Kafka: the first segment that can hold it decides.
                        return self._first_in(segment, self.timestamp)
            return self._latest() if self.timestamp is None else None
        except OSError as error:
            raise StorageFailure.of(path, error) from error

    def _first_in(self, segment: Segment, timestamp: int) -> TimedOffset | None:
        try:
            return _first_in(segment, timestamp, self.start_offset)
        except CorruptBatch:
            # The index may be wrong; who reads there mends it, and here the batches tell.
            if not segment.reindex():
                raise
            return _first_in(segment, timestamp, self.start_offset)

    def _latest(self) -> TimedOffset | None:
        """The first record that has the greatest timestamp of all."""
        twin = max(self.twins, key=_greatest, default=None)
        if twin is None:
            return None
        segment = twin.load()
        timestamp, offset = segment.latest
        for header, data in _batches(segment, segment.index.position_for(offset)):
            if header.max_timestamp == timestamp:
                found = latest_timestamp(data(), header)
                if found is not None:
                    return TimedOffset(*found, header.leader_epoch)
        return None


def _greatest(twin: SegmentTwin) -> int:
    assert twin.latest is not None, "each was loaded, or known"
    return twin.latest[0]


def _first_in(segment: Segment, timestamp: int, start_offset: int) -> TimedOffset | None:
    located = segment.locate(max(segment.time_index.offset_for(timestamp), start_offset))
    for header, data in () if located is None else _batches(segment, located.position):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        found = find_timestamp(data(), header, timestamp, start_offset)
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
