"""A whole batch read: its header together with the records behind it.

Owns: getting from a batch's bytes to its decompressed payload and to what the codec finds there. Never knows: files,
rules of topics. Everything here costs a look at the records; what the header can tell, take from the header.
"""

from ottla.base.ports import ByteView
from ottla.records import codec
from ottla.records.compression import DECOMPRESSED_LIMIT, decompress
from ottla.records.header import COMPRESSION_MASK, HEADER_SIZE, BatchHeader, CorruptBatch
from ottla.records.record import Record


def read_payload(
    data: ByteView, header: BatchHeader, position: int = 0, limit: int = DECOMPRESSED_LIMIT
) -> memoryview | bytes:
    """The records' bytes of the batch at `position`, decompressed when they are compressed."""
    size = header.size
    if size < HEADER_SIZE or position + size > len(data):
        raise CorruptBatch(position, "a batch is cut off")
    payload = memoryview(data)[position + HEADER_SIZE : position + size]
    kind = header.attributes & COMPRESSION_MASK
    if kind == 0 or header.records_count == 0:  # compaction leaves empty batches without a compressed stream
        return payload
    return decompress(kind, payload, limit)


def read_records(
    data: ByteView, header: BatchHeader, position: int = 0, limit: int = DECOMPRESSED_LIMIT
) -> list[Record]:
    """The records of the batch at `position`."""
    return codec.decode(read_payload(data, header, position, limit), header)


def find_timestamp(data: ByteView, header: BatchHeader, target: int, start: int = 0) -> tuple[int, int] | None:
    """Timestamp and offset of the first record at or after `target`, of those from the offset `start` on; the records
    are read only if they can matter."""
    if header.records_count <= 0 or header.max_timestamp < target:
        return None
    return codec.find_timestamp(read_payload(data, header), header, target, start)


def latest_timestamp(data: ByteView, header: BatchHeader, position: int = 0) -> tuple[int, int] | None:
    """The largest timestamp in the batch and the offset of the first record that has it."""
    if header.records_count <= 0:
        return None
    return codec.latest_timestamp(read_payload(data, header, position), header)
