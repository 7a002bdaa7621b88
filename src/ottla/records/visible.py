"""Which batches of a fetch a consumer may see.

Owns: leaving out batches before a position, control batches, and those of aborted transactions, as Kafka's consumers
do it. Never knows: requests, the records behind the headers, except for a marker's kind.
Invariant: every whole batch that reaches the position is named, shown or not: a reader's position passes them all.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.base.ports import ByteView
from ottla.records.batch import read_records
from ottla.records.control import ControlType, control_type
from ottla.records.header import BatchHeader, CorruptBatch, checksum, iterate_headers

LAST_OFFSET = (1 << 63) - 2
"""No record lies beyond it: the offset after the last one must be a number of 64 bits too."""


class Aborted(NamedTuple):
    """A transaction that came to nothing: everything of the producer from this offset to its abort marker."""

    first_offset: int
    producer_id: int


class Sifted(NamedTuple):
    """A whole batch: where it begins, its header, and whether its records are for the consumer."""

    start: int
    header: BatchHeader
    shown: bool


def sift_batches(
    data: ByteView, position: int, aborted: Iterable[Aborted] = (), checked: bool = True
) -> Iterator[Sifted]:
    """The batches that reach `position`, in order; CorruptBatch where there is none, or a checksum is wrong."""
    waiting = sorted(aborted, reverse=True)
    active: set[int] = set()
    for start, header in iterate_headers(data):
        last_offset = header.last_offset
        if last_offset > LAST_OFFSET:
            raise CorruptBatch(start, "an offset is too large")
        while waiting and waiting[-1].first_offset <= last_offset:
            active.add(waiting.pop().producer_id)
        if last_offset < position:
            if active and header.control and _is_abort(data, header, start):
                active.discard(header.producer_id)
            continue
        if checked and checksum(data, start, header.size) != header.crc:
            raise CorruptBatch(start, f"the checksum of the batch at offset {header.base_offset} is wrong")
        position = last_offset + 1
        if header.control:
            if active and _is_abort(data, header, start):
                active.discard(header.producer_id)
            yield Sifted(start, header, False)
        else:
            yield Sifted(start, header, not (active and header.transactional and header.producer_id in active))


def _is_abort(data: ByteView, header: BatchHeader, start: int) -> bool:
    markers = read_records(data, header, start)
    return bool(markers) and control_type(markers[0].key) == ControlType.ABORT
