"""The records inside a batch, in plain Python: the reference twin of `_codec.pyx`.

Owns: the bytes between a batch's header and its end, once decompressed. Never knows: headers, compression, checksums.

Invariants: whatever the input, a function answers or raises CorruptBatch; it never reads past a record's own end, and
what it builds is bounded by the payload's length. Both twins answer alike, down to the position and the reason.
"""

from collections.abc import Iterator, Sequence
from struct import unpack_from

from ottla.base.ports import ByteView
from ottla.records.header import BatchHeader, CorruptBatch
from ottla.records.record import ConsumedRecord, Headers, Record

SMALLEST_RECORD = 7
"""Size, attributes, two deltas, two lengths and a header count, of one byte each."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_HIGHEST_DELTA = 0x7FFFFFFF

_HASH_SEED = 0x9747B28C
_HASH_FACTOR = 0x5BD1E995
_WORD = 0xFFFFFFFF


def decode(payload: ByteView, header: BatchHeader) -> list[Record]:
    """All records of the batch, with absolute offsets and timestamps."""
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    records = []
    for offset_delta, timestamp_delta, key, value, headers in walk(payload, header.records_count):
        timestamp = add_timestamp(base_timestamp, timestamp_delta) if append_time is None else append_time
        records.append(Record(add_offset(base_offset, offset_delta), timestamp, key, value, headers))
    return records


def decode_consumed(
    payload: ByteView, header: BatchHeader, topic: str, partition: int, position: int
) -> list[ConsumedRecord]:
    """The records of the batch at or after `position`, as a consumer of that partition gets them."""
    kind = 1 if header.log_append_time else 0
    epoch = header.leader_epoch
    return [
        ConsumedRecord(topic, partition, offset, timestamp, kind, key, value, headers, epoch)
        for offset, timestamp, key, value, headers in decode(payload, header)
        if offset >= position
    ]


def encode(
    records: Sequence[Record], base_offset: int, base_timestamp: int, reserved: int = 0
) -> tuple[bytearray, int]:
    """`reserved` zero bytes and the records behind them; and the largest timestamp (-1 when there is no record)."""
    output = bytearray(reserved)
    latest = -1
    for offset, timestamp, key, value, headers in records:
        offset_delta = offset - base_offset
        timestamp_delta = timestamp - base_timestamp
        if not 0 <= offset_delta <= _HIGHEST_DELTA:
            raise ValueError(f"offset {offset} does not fit in a batch that starts at {base_offset}")
        if not _LOWEST <= timestamp_delta <= _HIGHEST or not _LOWEST <= timestamp <= _HIGHEST:
            raise ValueError(f"timestamp {timestamp} does not fit in a batch that starts at {base_timestamp}")
        latest = max(latest, timestamp)
        body = bytearray(1)
        put_varint(body, timestamp_delta)
        put_varint(body, offset_delta)
        put_bytes(body, key)
        put_bytes(body, value)
        put_varint(body, len(headers))
        for name, content in headers:
            put_bytes(body, name.encode("utf-8", "surrogateescape"))
            put_bytes(body, content)
        if len(body) > _HIGHEST_DELTA:
            raise ValueError(f"a record of {len(body)} bytes does not fit in a batch")
        put_varint(output, len(body))
        output += body
    return output, latest


def scan(payload: ByteView, count: int) -> list[tuple[int, int, bytes | None, bool]]:
    """Of each record the offset delta, the timestamp delta, the key, and whether the value is null."""
    return [
        (offset_delta, timestamp_delta, key, value is None)
        for offset_delta, timestamp_delta, key, value, _ in walk(payload, count)
    ]


def inspect(payload: ByteView, count: int) -> tuple[bool, int, int, int]:
    """Are the offset deltas 0, 1, 2…; the smallest and largest timestamp delta (0 without records); keyless records."""
    contiguous = True
    earliest, latest = _HIGHEST, _LOWEST
    keyless = 0
    expected = 0
    for offset_delta, timestamp_delta, key, _, _ in walk(payload, count):
        if offset_delta != expected:
            contiguous = False
        expected += 1
        earliest = min(earliest, timestamp_delta)
        latest = max(latest, timestamp_delta)
        if key is None:
            keyless += 1
    if expected == 0:
        return True, 0, 0, 0
    return contiguous, earliest, latest, keyless


def find_timestamp(payload: ByteView, header: BatchHeader, target: int, start: int = 0) -> tuple[int, int] | None:
    """Timestamp and offset of the first record at or after `target`, of those from the offset `start` on."""
    for offset_delta, timestamp_delta, _, _, _ in walk(payload, header.records_count):
        timestamp = header.max_timestamp
        if not header.log_append_time:
            timestamp = add_timestamp(header.base_timestamp, timestamp_delta)
        if timestamp >= target:
            offset = add_offset(header.base_offset, offset_delta)
            if offset >= start:
                return timestamp, offset
    return None


def latest_timestamp(payload: ByteView, header: BatchHeader) -> tuple[int, int] | None:
    """The largest timestamp and the offset of the first record that has it; None for a batch without records."""
    found: tuple[int, int] | None = None
    for offset_delta, timestamp_delta, _, _, _ in walk(payload, header.records_count):
        timestamp = header.max_timestamp
        if not header.log_append_time:
            timestamp = add_timestamp(header.base_timestamp, timestamp_delta)
        if found is None or timestamp > found[0]:
            found = timestamp, add_offset(header.base_offset, offset_delta)
    return found


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits, unsigned, with the seed that Kafka's clients use for keys."""
    length = len(data)
    words = length >> 2
    value = (_HASH_SEED ^ length) & _WORD
    for word in unpack_from(f"<{words}I", data):
        word = (word * _HASH_FACTOR) & _WORD
        word = ((word ^ (word >> 24)) * _HASH_FACTOR) & _WORD
        value = ((value * _HASH_FACTOR) & _WORD) ^ word
    if length & 3:
        value ^= int.from_bytes(data[words << 2 :], "little")
        value = (value * _HASH_FACTOR) & _WORD
    value ^= value >> 13
    value = (value * _HASH_FACTOR) & _WORD
    return value ^ (value >> 15)


Raw = tuple[int, int, bytes | None, bytes | None, Headers]


def walk(payload: ByteView, count: int) -> Iterator[Raw]:
    """Offset delta, timestamp delta, key, value and headers of each record, every length checked on the way."""
    data = payload if type(payload) is bytes else bytes(payload)
    end = len(data)
    if count < 0:
        raise CorruptBatch(0, "the record count is negative")
    if count * SMALLEST_RECORD > end:
        raise CorruptBatch(0, "the batch is too small for its record count")
    position = 0
    for _ in range(count):
        size, position = _varint(data, position, end)
        if size < 1 or size > end - position:
            raise CorruptBatch(position, "a record's size is out of range")
        stop = position + size
        timestamp_delta, position = _varlong(data, position + 1, stop)
        offset_delta, position = _varint(data, position, stop)
        if offset_delta < 0:
            raise CorruptBatch(position, "an offset delta is negative")
        key, position = _bytes(data, position, stop)
        value, position = _bytes(data, position, stop)
        names, position = _varint(data, position, stop)
        headers: Headers = ()
        if names:
            headers, position = _headers(data, position, stop, names)
        if position != stop:
            raise CorruptBatch(position, "a record is longer than its fields")
        yield offset_delta, timestamp_delta, key, value, headers
    if position != end:
        raise CorruptBatch(position, "bytes follow the last record")


def _varint(data: bytes, position: int, stop: int) -> tuple[int, int]:
    if position < stop and data[position] < 0x80:  # most are one byte
        raw = data[position]
        return (raw >> 1) ^ -(raw & 1), position + 1
    return _long_varint(data, position, stop, 28, 0x0F)


def _varlong(data: bytes, position: int, stop: int) -> tuple[int, int]:
    return _long_varint(data, position, stop, 63, 0x01)


def _long_varint(data: bytes, position: int, stop: int, last_shift: int, last_mask: int) -> tuple[int, int]:
    """A zigzag number of up to `last_shift // 7 + 1` bytes, of whose last one only `last_mask` may be set."""
    raw = 0
    shift = 0
    while True:
        if position >= stop:
            raise CorruptBatch(position, "a number is cut off")
        byte = data[position]
        if shift == last_shift and byte > last_mask:
            raise CorruptBatch(position, "a number is too large")
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7


def _bytes(data: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position, stop)
    if size == -1:
        return None, position
    if size < 0 or size > stop - position:
        raise CorruptBatch(position, "a field's size is out of range")
    return data[position : position + size], position + size


def _headers(data: bytes, position: int, stop: int, count: int) -> tuple[Headers, int]:
    if count < 0 or count > stop - position:
        raise CorruptBatch(position, "a header count is out of range")
    headers = []
    for _ in range(count):
        name, position = _bytes(data, position, stop)
        if name is None:
            raise CorruptBatch(position, "a header has no name")
        content, position = _bytes(data, position, stop)
        # surrogateescape: other clients may send any bytes as a name, and a rebuilt batch must hold the same ones
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    return tuple(headers), position


def add_offset(base: int, delta: int) -> int:
    if base > _HIGHEST - delta:
        raise CorruptBatch(0, "an offset is too large")
    return base + delta


def add_timestamp(base: int, delta: int) -> int:
    timestamp = base + delta
    if not _LOWEST <= timestamp <= _HIGHEST:
        raise CorruptBatch(0, "a timestamp is too large")
    return timestamp


def put_varint(output: bytearray, value: int) -> None:
    raw = value << 1 if value >= 0 else ~(value << 1)
    while raw >= 0x80:
        output.append(raw & 0x7F | 0x80)
        raw >>= 7
    output.append(raw)


def put_bytes(output: bytearray, value: bytes | None) -> None:
    if value is None:
        output.append(1)
        return
    put_varint(output, len(value))
    output += value
