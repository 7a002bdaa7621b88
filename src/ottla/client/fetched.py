"""Records out of the bytes a fetch brought.

Owns: a list of records for a consumer, and where it goes on. Never knows: requests, brokers. Invariant: the next
position never goes back, and passes every whole batch that was looked at, also those of which nothing is shown.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.ports import ByteView
from ottla.records.batch import read_records
from ottla.records.record import Record
from ottla.records.visible import Aborted, sift_batches

__all__ = ["Aborted", "Visible", "visible_records"]


class Visible(NamedTuple):
    """What a consumer sees of a fetch, and where it goes on."""

    records: list[Record]
    next_offset: int


def visible_records(data: ByteView, position: int, aborted: Iterable[Aborted] = ()) -> Visible:
    """The records at or after `position`; CorruptBatch when a checksum or a record is wrong."""
    records: list[Record] = []
    for start, header, shown in sift_batches(data, position, aborted):
        if shown:
            found = read_records(data, header, start)
            if found and found[0].offset < position:
                found = [record for record in found if record.offset >= position]
            records += found
        position = header.next_offset
    return Visible(records, position)
