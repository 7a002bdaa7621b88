"""Records out of the bytes a fetch brought.

Owns: leaving out what a consumer must not see: records before its position, control records, aborted transactions.
Never knows: requests, brokers. Invariant: the next position never goes back, and passes every whole batch that was
looked at, also those of which nothing is shown.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.ports import ByteView
from ottla.records.batch import read_records
from ottla.records.control import ControlType, control_type
from ottla.records.header import BatchHeader, CorruptBatch, checksum, iterate_headers
from ottla.records.record import Record


class Aborted(NamedTuple):
    """A transaction that came to nothing: everything of the producer from this offset to its abort marker."""

    first_offset: int
    producer_id: int


class Visible(NamedTuple):
    """What a consumer sees of a fetch, and where it goes on."""

    records: list[Record]
    next_offset: int


def visible_records(data: ByteView, position: int, aborted: Iterable[Aborted] = ()) -> Visible:
    """The records at or after `position`; CorruptBatch when a checksum or a record is wrong."""
    waiting = sorted(aborted, reverse=True)
    active: set[int] = set()
    records: list[Record] = []
    for start, header in iterate_headers(data):
        while waiting and waiting[-1].first_offset <= header.last_offset:
            active.add(waiting.pop().producer_id)
        if header.last_offset < position:
            continue
        if checksum(data, start, header.size) != header.crc:
            raise CorruptBatch(start, f"the checksum of the batch at offset {header.base_offset} is wrong")
        if header.control:
            if _is_abort(data, header, start):
                active.discard(header.producer_id)
        elif not (header.transactional and header.producer_id in active):
            found = read_records(data, header, start)
            if found and found[0].offset < position:
                found = [record for record in found if record.offset >= position]
            records += found
        position = header.next_offset
    return Visible(records, position)


def _is_abort(data: ByteView, header: BatchHeader, start: int) -> bool:
    markers = read_records(data, header, start)
    return bool(markers) and control_type(markers[0].key) == ControlType.ABORT
