"""The 61 bytes in front of every record batch (magic 2).

Owns: reading them, walking from one to the next, the checksum, and patching the fields that a broker or a producer may
set in place.
Never knows: the records behind them.

Invariants: base offset and leader epoch lie outside the checksum, so `assign` never touches it; whatever changes bytes
21 and later (`set_max_timestamp`, `set_producer`) writes a new one. Sequence numbers wrap from 2**31-1 to 0.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import NamedTuple

from ottla.base.ports import ByteView
from ottla.records.crc import crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Base offset and length: the bytes that the length field does not count."""
MAGIC = 2
MAGIC_POSITION = 16
CRC_POSITION = 17
CHECKED_FROM = 21
"""The checksum covers the batch from here (the attributes) to its end."""
MAX_TIMESTAMP_POSITION = 35
PRODUCER_POSITION = 43

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAX_SEQUENCE = 0x7FFFFFFF

_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_PRODUCER = Struct(">qhi")


class CorruptBatch(Exception):
    """Bytes that are not a well-formed batch; `position` counts from the start of what was being read."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} (at byte {self.position})"


class BatchHeader(NamedTuple):
    """The fields of a batch header, in the order of their bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon(self) -> int | None:
        """When tombstones and markers of this batch may go: it takes the place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == -1:
            return -1
        return next_sequence(self.base_sequence, self.last_offset_delta)


def next_sequence(sequence: int, increment: int) -> int:
    """`sequence` moved on by `increment`, wrapping to 0 after the largest."""
    if sequence > MAX_SEQUENCE - increment:
        return increment - (MAX_SEQUENCE - sequence) - 1
    return sequence + increment


def read_header(data: ByteView, position: int = 0) -> BatchHeader:
    """The header at `position`; CorruptBatch when there are not 61 bytes of it. Checks nothing else."""
    try:
        return BatchHeader._make(HEADER.unpack_from(data, position))
    except error:
        raise CorruptBatch(position, "a batch header is cut off") from None


def iterate_headers(data: ByteView) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch's position and header; stops at a partial one at the end, CorruptBatch where no batch is."""
    position = 0
    end = len(data)
    while end - position >= LOG_OVERHEAD:
        size = _LENGTH.unpack_from(data, position + 8)[0] + LOG_OVERHEAD
        if size < HEADER_SIZE:
            raise CorruptBatch(position, f"a batch of {size} bytes is smaller than its header")
        if end - position > MAGIC_POSITION and data[position + MAGIC_POSITION] != MAGIC:
            raise CorruptBatch(position, f"magic {data[position + MAGIC_POSITION]} is not a record batch's")
        if size > end - position:
            return
        yield position, BatchHeader._make(HEADER.unpack_from(data, position))
        position += size


def checksum(data: ByteView, position: int, size: int) -> int:
    """What the CRC field of the batch of `size` bytes at `position` ought to hold."""
    return crc32c(memoryview(data)[position + CHECKED_FROM : position + size])


def assign(data: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the two fields that the partition leader gives to a batch; the checksum does not cover them."""
    _BASE_OFFSET.pack_into(data, position, base_offset)
    _LEADER_EPOCH.pack_into(data, position + 12, leader_epoch)


def set_max_timestamp(
    data: bytearray | memoryview, position: int, size: int, attributes: int, max_timestamp: int
) -> int:
    """Write attributes and max timestamp, and the checksum that follows from them, which is also the answer."""
    _ATTRIBUTES.pack_into(data, position + CHECKED_FROM, attributes)
    _MAX_TIMESTAMP.pack_into(data, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    crc = checksum(data, position, size)
    _CRC.pack_into(data, position + CRC_POSITION, crc)
    return crc


def set_producer(
    data: bytearray | memoryview, position: int, producer: tuple[int, int, int], transactional: bool
) -> int:
    """Write producer id, epoch and base sequence, and the checksum that follows from them, which is also the answer."""
    attributes = _ATTRIBUTES.unpack_from(data, position + CHECKED_FROM)[0] & ~TRANSACTIONAL
    _ATTRIBUTES.pack_into(data, position + CHECKED_FROM, attributes | (TRANSACTIONAL if transactional else 0))
    _PRODUCER.pack_into(data, position + PRODUCER_POSITION, *producer)
    crc = checksum(data, position, _LENGTH.unpack_from(data, position + 8)[0] + LOG_OVERHEAD)
    _CRC.pack_into(data, position + CRC_POSITION, crc)
    return crc
