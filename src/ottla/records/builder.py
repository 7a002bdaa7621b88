"""Batches made from records.

Owns: filling in a header for given records. Never knows: who may write what; that is `check`.
Invariant: what is built here reads back as the same records and carries a right checksum.
"""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.records.codec import encode
from ottla.records.compression import Compression, compress
from ottla.records.crc import crc32c
from ottla.records.header import (
    CHECKED_FROM,
    CONTROL,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
)
from ottla.records.record import Record


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    compression: int = Compression.NONE,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
    delete_horizon: int | None = None,
) -> bytearray:
    """One batch of at least one record; the records' own offsets say where they stand behind `base_offset`.

    `last_offset` keeps an original batch's range when compaction took its last records away. `log_append_time` gives
    all records that time; `delete_horizon` marks when the tombstones among them may go.
    """
    assert records, "a batch without records is made by empty_batch"
    base_timestamp = records[0].timestamp if delete_horizon is None else delete_horizon
    data, latest = encode(records, base_offset, base_timestamp, HEADER_SIZE)
    if compression:
        data[HEADER_SIZE:] = compress(compression, memoryview(data)[HEADER_SIZE:], level)
    attributes = int(compression)
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        latest = log_append_time
    if delete_horizon is not None:
        attributes |= DELETE_HORIZON
    last = records[-1].offset if last_offset is None else last_offset
    header = BatchHeader(
        base_offset,
        len(data) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last - base_offset,
        base_timestamp,
        latest,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    write_header(data, header)
    return data


def empty_batch(header: BatchHeader) -> bytearray:
    """What compaction leaves of a batch whose records are all gone but whose producer's sequence must be kept."""
    data = bytearray(HEADER_SIZE)
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    write_header(
        data,
        header._replace(length=HEADER_SIZE - LOG_OVERHEAD, attributes=attributes, base_timestamp=-1, records_count=0),
    )
    return data


def replace_payload(header: BatchHeader, payload: ByteView) -> bytearray:
    """The batch with another payload: `header` says everything but the length and the checksum."""
    data = bytearray(HEADER_SIZE)
    data += payload
    write_header(data, header._replace(length=len(data) - LOG_OVERHEAD))
    return data


def write_header(data: bytearray, header: BatchHeader) -> None:
    """Put `header` in front of the payload already in `data`, with the checksum computed rather than taken from it."""
    HEADER.pack_into(data, 0, *header)
    crc = crc32c(memoryview(data)[CHECKED_FROM:])
    data[CRC_POSITION:CHECKED_FROM] = crc.to_bytes(4, "big")
