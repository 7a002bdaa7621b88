"""A batch's records as bytes.

Owns: building them once and putting producer id, epoch and sequence number into what is built already. Never knows:
queues, requests.
"""

from typing import NamedTuple

from ottla.client.producer.delivery import NO_SEQUENCE, ProducerBatch, Row
from ottla.records.batch import read_records
from ottla.records.builder import write_header
from ottla.records.codec import encode
from ottla.records.compression import Compression, compress
from ottla.records.header import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    set_producer,
)


class BatchForm(NamedTuple):
    """What batches look like."""

    compression: Compression = Compression.NONE
    level: int | None = None
    transactional: bool = False


def write_batch(batch: ProducerBatch, form: BatchForm) -> bytearray:
    """The bytes of a batch with its number in them; ValueError when a record cannot be written."""
    identity = (*batch.identity, batch.base_sequence) if batch.base_sequence != NO_SEQUENCE else (-1, -1, -1)
    data = batch.data
    if data is not None:
        set_producer(data, 0, identity, form.transactional)
        return data
    rows = batch.rows
    base_timestamp = rows[0][1]
    data, latest = encode(rows, 0, base_timestamp, HEADER_SIZE)  # type: ignore[arg-type]  # a row is what Record is
    attributes = int(form.compression)
    if attributes:
        data[HEADER_SIZE:] = compress(attributes, memoryview(data)[HEADER_SIZE:], form.level)
    if form.transactional:
        attributes |= TRANSACTIONAL
    length, last = len(data) - LOG_OVERHEAD, len(rows) - 1
    write_header(
        data, BatchHeader(0, length, -1, MAGIC, 0, attributes, last, base_timestamp, latest, *identity, len(rows))
    )
    return data


def rows_of(batch: ProducerBatch) -> list[Row]:
    """The records of a batch, also of one that came as bytes."""
    if batch.rows:
        return batch.rows
    assert batch.data is not None
    rows: list[Row] = list(read_records(batch.data, read_header(batch.data)))
    return rows
