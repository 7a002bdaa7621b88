"""Producer tables rebuilt from what the log holds.

Owns: what a stored batch says about its producer. Never knows: why it is asked (truncation, recovery, replication).
Invariant: when a batch was first written is not in the log; it counts as written now, so that no producer is forgotten
because of what its records say, and the price of a replay is one more period of remembering.
"""

from collections.abc import Sequence
from itertools import pairwise

from ottla.base.ports import ByteView
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker, ProducerTable
from ottla.log.segment import Segment
from ottla.records.batch import read_records
from ottla.records.control import EndTransaction, read_control
from ottla.records.header import CONTROL, BatchHeader


def replay(table: ProducerTable, header: BatchHeader, batch: ByteView, now_ms: int) -> AbortedTransaction | None:
    """Take a stored batch into the table; answers what belongs in the transaction index, if anything.

    `batch` is looked at for control batches only.
    """
    aborted = None
    if header.producer_id >= 0:
        if header.attributes & CONTROL:
            aborted = _replay_marker(table, header, batch, now_ms)
        else:
            table.note(header, header.base_offset, now_ms)
    table.end_offset = header.next_offset
    return aborted


def _replay_marker(
    table: ProducerTable, header: BatchHeader, batch: ByteView, now_ms: int
) -> AbortedTransaction | None:
    # Compaction leaves a control batch empty when its whole transaction is gone.
    for record in read_records(batch, header):
        content = read_control(record)
        if isinstance(content, EndTransaction):
            marker = EndMarker(header.producer_id, header.producer_epoch, content.coordinator_epoch, content.commit)
            return table.note_marker(marker, record.offset, record.timestamp, now_ms)
    return None


def rebuild(table: ProducerTable, segments: Sequence[Segment], start_offset: int, end_offset: int, now_ms: int) -> None:
    """Carry a table from where it stands up to `end_offset`, reading headers (and markers whole)."""
    table.end_offset = max(table.end_offset, start_offset)
    limits = [following.base_offset for _, following in pairwise(segments)] + [end_offset]
    for segment, limit in zip(segments, limits, strict=True):
        if limit <= table.end_offset or segment.base_offset >= end_offset:
            continue
        located = segment.locate(table.end_offset)
        for position, header in () if located is None else segment.headers(located.position):
            if header.base_offset >= end_offset:
                break
            if header.last_offset < table.end_offset:
                continue
            control = header.producer_id >= 0 and header.attributes & CONTROL
            replay(table, header, segment.file.read_at(position, header.size) if control else b"", now_ms)
    table.end_offset = end_offset
