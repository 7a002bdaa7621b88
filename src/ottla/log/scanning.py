"""Reading a segment whose batches nobody vouches for.

Owns: what is a whole batch in its place, what to do with bytes that are not, and formats that ottla does not read.
Never knows: which segments are to be read, or what becomes of those behind a damaged one.
Invariants: nothing is changed before the formats are known to be ottla's; what is cut off a segment lies beside it in a
file of its own before it is cut, unless it is the piece of an append that never ended and there is no room for it; a
scan that fails half-way can be done again.
"""

import logging
import zlib
from struct import Struct

from ottla.base.ports import Disk
from ottla.log.epochs import RetoldEpochs
from ottla.log.files import LARGEST_RELATIVE_OFFSET, out_of_space, sync_open
from ottla.log.producers import ProducerTable
from ottla.log.properties import UnusableDirectory
from ottla.log.replay import replay
from ottla.log.segment import Segment
from ottla.records.crc import crc32c
from ottla.records.header import (
    CHECKED_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    CorruptBatch,
)

_SPAN = Struct(">qi4xB")  # offset, length and format: what batches and the messages of older formats begin with
_OLD_CRC = Struct(">I")
_OLD_CRC_POSITION = 12
_OLD_CHECKED_FROM = 16
_COPY_BYTES = 1 << 20
_UNFINISHED = "an append that never ended"

_logger = logging.getLogger(__name__)


class UnknownFormat(UnusableDirectory):
    """A segment holds records in a format that ottla does not read."""


class Scanner:
    """Reads segments of one log in the order of their offsets, telling producers and epochs what it finds."""

    def __init__(self, disk: Disk, producers: ProducerTable, now_ms: int, *, sparse: bool) -> None:
        self._disk = disk
        self._producers = producers
        self._now_ms = now_ms
        self.sparse = sparse
        """Whether offsets may be missing between batches: compaction leaves such gaps, and who follows a compacted log
        has them too. One that its neighbours confirm says that this log is of that kind."""
        self.epochs: RetoldEpochs | None = None
        """Told of the batches' epochs when it is there."""

    def scan(self, segment: Segment, following: int | None, *, flushed: bool) -> str | None:
        """Read every batch, make the indexes anew and cut at the first byte that is no batch; answers why it was cut.

        `following` is where the next segment begins; what was `flushed` is so again. Raises UnknownFormat and OSError.
        """
        size = segment.size
        view = segment.file.map()
        refuse_unknown_formats(segment.path, view, size)
        segment.begin_scan()
        position, problem = self._walk(segment, view, following)
        if problem is not None:
            self._put_aside(segment.path, view, position, size, problem)
        del view
        segment.end_scan(position, lasting=flushed)
        return problem

    def _walk(self, segment: Segment, view: memoryview, following: int | None) -> tuple[int, str | None]:
        """How many bytes are whole batches in their place, and what is wrong behind them."""
        position, size = 0, segment.size
        expected = segment.base_offset
        largest = segment.base_offset + LARGEST_RELATIVE_OFFSET
        problem = None
        while position < size:
            problem = _fault(view, position, size)
            if problem is not None:
                break
            fields = HEADER.unpack_from(view, position)
            base_offset, length, leader_epoch, _, _, _, delta, _, max_timestamp, producer_id, _, _, _ = fields
            end = position + length + LOG_OVERHEAD
            last_offset = base_offset + delta
            if not expected <= base_offset <= last_offset <= largest:
                problem = f"a batch says that it is at {base_offset}, and {expected} was to come"
                break
            if base_offset > expected:
                problem = self._judge_gap(view, end, size, (expected, last_offset + 1, following))
                if problem is not None:
                    break
            if producer_id >= 0:
                try:
                    aborted = replay(self._producers, BatchHeader._make(fields), view[position:end], self._now_ms)
                except CorruptBatch as damage:
                    problem = damage.reason
                    break
                if aborted is not None:
                    segment.transaction_index.append(aborted)
            segment.note(position, end - position, last_offset, max_timestamp)
            if self.epochs is not None:
                self.epochs.tell(leader_epoch, base_offset, last_offset + 1)
            expected = last_offset + 1
            position = end
        self._producers.end_offset = expected
        return position, problem

    def _judge_gap(self, view: memoryview, position: int, size: int, place: tuple[int, int, int | None]) -> str | None:
        """Whether a batch behind a gap is where it says: its offset is not covered by its checksum."""
        expected, end_offset, following = place
        if position < size and _fault(view, position, size) is None:
            following = _SPAN.unpack_from(view, position)[0]
        elif position < size:
            following = None
        if following is not None and following < end_offset:
            return f"a batch says that it ends at {end_offset}, and the next one begins at {following}"
        if following is None and not self.sparse:
            return f"the last batch ends at {end_offset}, and {expected} was to come"
        self.sparse = True
        return None

    def _put_aside(self, path: str, view: memoryview, position: int, size: int, problem: str) -> None:
        """Keep what is about to be cut off in a file that a person finds."""
        if not any(view[position:size]):
            _logger.warning("%s: %d bytes of nothing at byte %d are cut off", path, size - position, position)
            return
        aside = f"{path}.cut-{position}"
        number = 1
        while self._disk.exists(aside):
            aside = f"{path}.cut-{position}.{number}"
            number += 1
        try:
            file = self._disk.open(aside, create=True)
            try:
                for start in range(position, size, _COPY_BYTES):
                    file.append(view[start : min(start + _COPY_BYTES, size)])
                sync_open(file)
            finally:
                file.close()
        except OSError as error:
            if problem != _UNFINISHED or not out_of_space(error):
                raise
            self._disk.remove(aside)
            aside = "nothing: there was no room"
        _logger.warning(
            "%s: %d bytes from byte %d on cannot be read (%s); they are cut off and kept as %s",
            path,
            size - position,
            position,
            problem,
            aside,
        )


def _fault(view: memoryview, position: int, size: int) -> str | None:
    """Why there is no whole batch at a position; None when there is one."""
    if size - position < HEADER_SIZE:
        return _UNFINISHED
    _, length, _, magic, crc, *_ = HEADER.unpack_from(view, position)
    end = position + length + LOG_OVERHEAD
    if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC:
        return "no batch begins here"
    if end > size:
        return _UNFINISHED
    if crc32c(view[position + CHECKED_FROM : end]) != crc:
        return "the checksum of a batch is wrong"
    return None


def refuse_unknown_formats(path: str, view: memoryview | bytes, size: int) -> None:
    """Raise UnknownFormat where records of another format lie; damaged bytes are no format."""
    position = 0
    while position + _SPAN.size <= size:
        _, length, magic = _SPAN.unpack_from(view, position)
        end = position + length + LOG_OVERHEAD
        if length <= 0 or end > size:
            return
        if magic != MAGIC:
            if _vouched(view, position, end, magic):
                raise UnknownFormat(
                    path,
                    f"{path} holds records of message format {magic} at byte {position}, and ottla reads format "
                    f"{MAGIC} only; nothing was changed: copy the topic with a Kafka that reads it, or move the "
                    "directory away.",
                )
            return
        position = end


def _vouched(view: memoryview | bytes, position: int, end: int, magic: int) -> bool:
    """Whether the bytes' own checksum says that this is a format, and not damage."""
    if magic < MAGIC:
        if end - position < _OLD_CHECKED_FROM + 2:
            return False
        (crc,) = _OLD_CRC.unpack_from(view, position + _OLD_CRC_POSITION)
        return bool(zlib.crc32(view[position + _OLD_CHECKED_FROM : end]) == crc)
    if end - position < HEADER_SIZE:
        return False
    return bool(crc32c(view[position + CHECKED_FROM : end]) == HEADER.unpack_from(view, position)[4])


def begins_in_other_format(first: bytes) -> bool:
    """Whether the first bytes of a segment may be of a format that has to be looked at."""
    return len(first) > MAGIC_POSITION and first[MAGIC_POSITION] != MAGIC
