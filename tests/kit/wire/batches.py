"""Record batches for tests, built and read by hand so that nothing is shared with ottla's own record code.

`batch` builds a correct batch of magic 2; a test that wants a wrong one passes the wrong field. `old_message_set`
builds the formats of magic 0 and 1. `read_batches` reads what a fetch returned, whatever its compression.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import cramjam
import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SNAPPY_JAVA = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
A_MINUTE_AGO = int(time.time() * 1000) - 60_000  # young enough for retention, too old to be taken for the broker's time
COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Rec(NamedTuple):
    """One record to send, or one that was read (then with its offset and absolute timestamp)."""

    value: bytes | None = b"value"
    key: bytes | None = None
    timestamp: int = A_MINUTE_AGO
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return _zigzag(-1) if data is None else _zigzag(len(data)) + data


def _record(delta: int, record: Rec, base_timestamp: int) -> bytes:
    body = (
        b"\x00"
        + _zigzag(record.timestamp - base_timestamp)
        + _zigzag(delta)
        + _sized(record.key)
        + _sized(record.value)
    )
    body += _zigzag(len(record.headers))
    for name, value in record.headers:
        body += _sized(name.encode()) + _sized(value)
    return _zigzag(len(body)) + body


def compress(kind: int, data: bytes) -> bytes:
    if kind == 1:
        return bytes(cramjam.gzip.compress(data))
    if kind == 2:
        return _SNAPPY_JAVA + _java_block(bytes(cramjam.snappy.compress_raw(data)))
    if kind == 3:
        frame = cramjam.lz4.Compressor(block_linked=False)  # Kafka's readers refuse blocks that lean on each other
        frame.compress(data)
        return bytes(frame.finish())
    return bytes(cramjam.zstd.compress(data)) if kind == 4 else data


def _java_block(block: bytes) -> bytes:
    return struct.pack(">i", len(block)) + block


def decompress(kind: int, data: bytes) -> bytes:
    if kind == 1:
        return bytes(cramjam.gzip.decompress(data))
    if kind == 2:
        if not data.startswith(b"\x82SNAPPY\x00"):
            return bytes(cramjam.snappy.decompress_raw(data))
        out, position = bytearray(), 16
        while position < len(data):
            (size,) = struct.unpack_from(">i", data, position)
            out += bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + size]))
            position += 4 + size
        return bytes(out)
    if kind == 3:
        return bytes(cramjam.lz4.decompress(data))
    return bytes(cramjam.zstd.decompress(data)) if kind == 4 else data


def batch(records: Iterable[Rec] = (Rec(),), compression: str = "none", **wrong: Any) -> bytes:
    """A batch of these records; `wrong` replaces header fields by name (length and crc are computed unless given)."""
    rows = list(records)
    base_timestamp = rows[0].timestamp if rows else -1
    kind = COMPRESSIONS[compression]
    payload = compress(kind, b"".join(_record(delta, row, base_timestamp) for delta, row in enumerate(rows)))
    payload = bytes(wrong.get("payload", payload))
    rest = struct.pack(
        ">hiqqqhii",
        wrong.get("attributes", kind) | wrong.get("flags", 0),
        wrong.get("last_offset_delta", len(rows) - 1),
        wrong.get("base_timestamp", base_timestamp),
        wrong.get("max_timestamp", max((row.timestamp for row in rows), default=-1)),
        wrong.get("producer_id", -1),
        wrong.get("producer_epoch", -1),
        wrong.get("base_sequence", -1),
        wrong.get("records_count", len(rows)),
    )
    checked = rest + payload
    head = struct.pack(
        ">qiibI",
        wrong.get("base_offset", 0),
        wrong.get("length", len(checked) + 9),
        wrong.get("leader_epoch", -1),
        wrong.get("magic", 2),
        wrong.get("crc", crc32c.crc32c(checked)),
    )
    return head + checked


def old_message_set(magic: int, value: bytes = b"value", timestamp: int = A_MINUTE_AGO) -> bytes:
    """One message in the format of magic 0 or 1."""
    body = struct.pack(">bb", magic, 0)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


class Batch(NamedTuple):
    """One batch as it came back."""

    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[Rec, ...]


def read_batches(data: bytes | None) -> list[Batch]:
    """The whole batches of a fetch answer; a cut one at the end is left out, a wrong checksum fails."""
    return list(_batches(data or b""))


def _batches(data: bytes) -> Iterator[Batch]:
    position = 0
    while position + _HEADER.size <= len(data):
        base, length, epoch, magic, crc, attributes, last_delta, *rest = _HEADER.unpack_from(data, position)
        base_time, max_time, producer, producer_epoch, sequence, count = rest
        end = position + 12 + length
        if end > len(data):
            return
        assert magic == 2, f"magic {magic}"
        assert crc == int(crc32c.crc32c(data[position + 21 : end])), "wrong checksum"
        payload = decompress(attributes & 7, data[position + _HEADER.size : end])
        stamp = max_time if attributes & 8 else None
        records = tuple(_records(payload, count, base, base_time, stamp))
        yield Batch(
            base, epoch, attributes, last_delta, base_time, max_time, producer, producer_epoch, sequence, records
        )
        position = end


def _records(data: bytes, count: int, base: int, base_time: int, stamp: int | None) -> Iterator[Rec]:
    position = 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)

    def sized() -> bytes | None:
        nonlocal position
        size = number()
        if size < 0:
            return None
        position += size
        return data[position - size : position]

    for _ in range(count):
        end = number() + position
        position += 1
        time = base_time + number()
        offset = base + number()
        key, value = sized(), sized()
        headers = tuple(((sized() or b"").decode(), sized()) for _ in range(number()))
        assert position == end, "a record whose length is wrong"
        yield Rec(value, key, time if stamp is None else stamp, headers, offset)
    assert position == len(data), "bytes left over after the records of a batch"
