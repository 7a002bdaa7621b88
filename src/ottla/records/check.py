"""What a broker demands of a batch before it appends it.

Owns: the rules of one produced batch, the outcomes as error codes, and the changes a topic's settings ask for (append
time, other compression). Never knows: offsets and epochs to assign, producers' states, files.

Invariants: the header and the checksum decide alone whenever they can, so an ordinary batch is neither decoded nor
decompressed; a highest timestamp that cannot be right is made true, which costs that batch a look at its records; what
comes back valid carries a right checksum. A payload may grow to `EXPANSION` times what a batch may have; what takes
longer to look at than an event loop may be held is `LABORIOUS`, to be checked again by a thread. The codes are those
of Kafka's broker, also where another would have been nicer; it shows a client the message only together with record
errors.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TIMESTAMP
from ottla.records.batch import read_payload
from ottla.records.builder import build_batch, replace_payload
from ottla.records.codec import decode, inspect
from ottla.records.compression import Compression, PayloadTooLarge, compress
from ottla.records.crc import crc32c
from ottla.records.header import (
    CHECKED_FROM,
    COMPRESSION_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    read_header,
    set_max_timestamp,
)
from ottla.records.record import Record

NO_LIMIT = 0x7FFFFFFFFFFFFFFF
"""Kafka's default of `message.timestamp.before.max.ms`: any age will do."""

_new = tuple.__new__  # half the time of a named tuple's own constructor, on the path of every produced batch

_SMALLEST_LENGTH = 14
"""The least length field of any message format there ever was; less is damage, not an old format."""
_LENGTH = Struct(">i")
_FIELDS_LENGTH = HEADER_SIZE - LOG_OVERHEAD
_SHOWN_ERRORS = 3
_LAST_COMPRESSION = Compression.ZSTD

SMALLEST_RECORD = 7
"""A byte each for length, attributes, both deltas, no key, no value, no headers."""
_MOST_EXPANSION = (1, 1032, 32, 255, 32768)
"""How many bytes a compressed one can stand for at most, by kind: what deflate, snappy, LZ4 and zstd (a run of 128 KiB
in four bytes) can say."""


AT_ONCE_BYTES = 128 * 1024
"""Payloads up to this size, decompressed, are looked into on the spot: a fraction of a millisecond."""
EXPANSION = 32
_LEAST_LIMIT = 1024 * 1024


class Rules(NamedTuple):
    """What a topic's settings demand of its batches."""

    max_message_bytes: int
    log_append_time: bool = False
    before_max_ms: int = NO_LIMIT
    after_max_ms: int = 3_600_000
    compacted: bool = False
    compression: Compression | None = None
    level: int | None = None


class BatchRefusal(NamedTuple):
    """Why a batch is not appended; record errors are pairs of a record's index and a message."""

    error: ErrorCode
    message: str
    record_errors: tuple[tuple[int, str], ...] = ()


LABORIOUS = BatchRefusal(ErrorCode.NONE, "takes longer than can be waited for here")
"""No verdict: the batch is to be checked with `patient`, by a thread. Told from others by identity."""


class Checked(NamedTuple):
    """A batch fit to be appended: the buffer that came in unless it had to be rebuilt."""

    data: memoryview | bytearray
    header: BatchHeader
    log_append_time: int


# What is looked into, and what is believed unread: design/0003.
def check(
    data: memoryview,
    rules: Rules,
    now_ms: int,
    topic_partition: object = "",
    from_client: bool = True,
    patient: bool = True,
) -> Checked | BatchRefusal:
    """Check the one batch that `data` must hold; `topic_partition` is named in messages, nothing more.

    What the broker itself writes (`from_client=False`) may hold control records and any offsets. Who is not `patient`
    may be answered LABORIOUS.
    """
    try:
        fields = HEADER.unpack_from(data)
    except error:
        fields = None
    if fields is None or fields[1] + LOG_OVERHEAD != len(data) or fields[3] != MAGIC:
        framed = _only_batch(data)
        if isinstance(framed, BatchRefusal):
            return framed
        data = framed
        fields = HEADER.unpack_from(data)
    base_offset, length, _, _, crc, attributes, last_delta, first, highest, producer_id, _, sequence, count = fields
    if base_offset != 0 and from_client:
        return BatchRefusal(ErrorCode.INVALID_RECORD, f"The base offset of the batch for {topic_partition} is not 0.")
    limit, append_time, before_max_ms, after_max_ms, compacted, compression, _ = rules
    if length + LOG_OVERHEAD > limit:
        return _too_large(length + LOG_OVERHEAD, limit, topic_partition)
    if crc32c(data[CHECKED_FROM:]) != crc:
        return BatchRefusal(ErrorCode.CORRUPT_MESSAGE, f"The checksum of the batch for {topic_partition} is wrong.")
    kind = attributes & COMPRESSION_MASK
    if kind > _LAST_COMPRESSION:
        return BatchRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {kind}")
    header = _new(BatchHeader, fields)
    if from_client and (
        count != last_delta + 1
        or count <= 0
        or (count * SMALLEST_RECORD > length - _FIELDS_LENGTH and _too_many(count, length - _FIELDS_LENGTH, kind))
        or attributes & CONTROL
        or (producer_id >= 0 and sequence < 0)
    ):
        return _odd_header(header, topic_partition)
    if (
        append_time
        or compacted
        or attributes & LOG_APPEND_TIME
        or highest > now_ms + after_max_ms
        or before_max_ms != NO_LIMIT
        or (compression is not None and compression != kind)
        or highest <= 0
        or (highest != first and (count == 1 or highest < first))
    ):
        return _check_records(data, header, rules, now_ms, topic_partition, patient)
    return _new(Checked, (data, header, NO_TIMESTAMP))


def _only_batch(data: memoryview) -> memoryview | BatchRefusal:
    """The one whole batch at the start; a piece of another one behind it is dropped, as Kafka does."""
    size = _batch_size(data)
    if isinstance(size, BatchRefusal):
        return size
    if size is None:
        return BatchRefusal(
            ErrorCode.INVALID_RECORD, "A partition's records must hold exactly one batch, and hold none."
        )
    if data[MAGIC_POSITION] != MAGIC:
        return BatchRefusal(ErrorCode.INVALID_RECORD, "Only record batches of magic 2 may be produced.")
    following = _batch_size(data[size:])
    if isinstance(following, BatchRefusal):
        return following
    if size < HEADER_SIZE:
        return BatchRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"A batch of {size} bytes is smaller than its header.")
    if following is not None:
        return BatchRefusal(
            ErrorCode.INVALID_RECORD, "A partition's records must hold exactly one batch, and hold more."
        )
    return data[:size]


def _batch_size(data: memoryview) -> int | BatchRefusal | None:
    """The size of the whole batch at the start; None when there is but a piece of one."""
    if len(data) < LOG_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(data, 8)[0]
    if length < _SMALLEST_LENGTH:
        message = f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})"
        return BatchRefusal(ErrorCode.CORRUPT_MESSAGE, message)
    if len(data) <= MAGIC_POSITION:
        return None
    magic = data[MAGIC_POSITION]
    if magic > MAGIC:
        signed = magic - 256 if magic > 127 else magic
        return BatchRefusal(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {signed}")
    size = length + LOG_OVERHEAD
    return size if size <= len(data) else None


def _too_large(size: int, limit: int, topic_partition: object) -> BatchRefusal:
    message = f"The batch for {topic_partition} has {size} bytes, more than max.message.bytes allows ({limit})."
    return BatchRefusal(ErrorCode.MESSAGE_TOO_LARGE, message)


def _too_many(count: int, payload: int, kind: int) -> bool:
    """Whether no payload of this size can hold so many records."""
    return count * SMALLEST_RECORD > payload * _MOST_EXPANSION[kind]


def _doubtful_time(header: BatchHeader) -> bool:
    """Whether the highest timestamp looks as if the client had not worked it out (some leave -1, 0 or the first)."""
    first, highest = header.base_timestamp, header.max_timestamp
    return highest <= 0 or (highest != first and (header.records_count == 1 or highest < first))


def _odd_header(header: BatchHeader, topic_partition: object) -> BatchRefusal:
    if header.records_count != header.last_offset_delta + 1 or header.records_count <= 0:
        what = f"counts {header.records_count} records in a range of {header.last_offset_delta + 1} offsets"
    elif _too_many(header.records_count, header.size - HEADER_SIZE, header.compression):
        what = f"counts {header.records_count} records in {header.size - HEADER_SIZE} bytes"
    elif header.control:
        what = "holds control records, which clients may not write"
    else:
        what = f"has producer id {header.producer_id} but the sequence number {header.base_sequence}"
    return BatchRefusal(ErrorCode.INVALID_RECORD, f"The batch for {topic_partition} {what}.")


def _check_records(
    data: memoryview, header: BatchHeader, rules: Rules, now_ms: int, topic_partition: object, patient: bool
) -> Checked | BatchRefusal:
    """The rules that need the records or change the batch."""
    attributes = header.attributes
    target = rules.compression
    recompress = target is not None and target != header.compression
    if attributes & CONTROL and not header.compression:
        recompress = False  # control records are never compressed on the way
    marked = attributes & LOG_APPEND_TIME != 0
    limited = not rules.log_append_time and (
        rules.before_max_ms != NO_LIMIT or header.max_timestamp > now_ms + rules.after_max_ms
    )
    payload: memoryview | bytes = b""
    contiguous = True
    latest = header.max_timestamp
    doubtful = not rules.log_append_time and _doubtful_time(header)
    if rules.compacted or marked or limited or recompress or doubtful:
        read = _payload(data, header, rules, topic_partition, patient)
        if isinstance(read, BatchRefusal):
            return read
        payload = read
        try:
            contiguous, earliest, latest_delta, keyless = inspect(payload, header.records_count)
            oldest, newest = header.base_timestamp + earliest, header.base_timestamp + latest_delta
            if newest > NO_LIMIT or oldest < ~NO_LIMIT or newest - oldest > NO_LIMIT:
                raise CorruptBatch(0, "timestamps do not fit in 64 bits")
            if marked or (rules.compacted and keyless) or _out_of_range(rules, now_ms, oldest, newest):
                records = decode(payload, header)
                rejection = _reject_records(records, header, rules, now_ms, topic_partition, recompress)
                if rejection is not None:
                    return rejection
        except CorruptBatch as damage:
            return BatchRefusal(ErrorCode.INVALID_RECORD, f"The batch for {topic_partition}: {damage}")
        if not marked:
            latest = max(NO_TIMESTAMP, newest)
    if rules.log_append_time:
        attributes |= LOG_APPEND_TIME
        latest = now_ms
    else:
        attributes &= ~LOG_APPEND_TIME
    stamp = now_ms if rules.log_append_time else NO_TIMESTAMP
    if recompress:
        assert target is not None
        changed = header._replace(attributes=attributes, max_timestamp=latest)
        return _recompress(changed, payload, contiguous, rules, target, stamp, topic_partition)
    return _patch(data, header, attributes, latest, stamp)


def _payload(
    data: memoryview, header: BatchHeader, rules: Rules, topic_partition: object, patient: bool
) -> memoryview | bytes | BatchRefusal:
    """The records' bytes, decompressed."""
    if not patient and header.size > AT_ONCE_BYTES:
        return LABORIOUS
    limit = max(rules.max_message_bytes, _LEAST_LIMIT) * EXPANSION if patient else AT_ONCE_BYTES
    try:
        return read_payload(data, header, limit=limit)
    except PayloadTooLarge:
        if not patient:
            return LABORIOUS
        message = (
            f"The records of the batch for {topic_partition} have more than {limit} bytes when they are decompressed, "
            f"{EXPANSION} times what max.message.bytes allows."
        )
        return BatchRefusal(ErrorCode.MESSAGE_TOO_LARGE, message)
    except CorruptBatch as damage:
        return BatchRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"The batch for {topic_partition}: {damage}")


def _out_of_range(rules: Rules, now_ms: int, oldest: int, newest: int) -> bool:
    """Could any timestamp break the limits?"""
    if rules.log_append_time:
        return False
    return newest > now_ms + rules.after_max_ms or oldest < now_ms - rules.before_max_ms


def _reject_records(
    records: list[Record],
    header: BatchHeader,
    rules: Rules,
    now_ms: int,
    topic_partition: object,
    rebuilt: bool,
) -> BatchRefusal | None:
    """Every record that breaks a rule, with Kafka's words for it; None when none does."""
    found = list(_record_errors(records, header, rules, now_ms, topic_partition, rebuilt))
    if not found:
        return None
    errors = tuple((index, message) for index, _, message in found)
    if any(code is ErrorCode.INVALID_TIMESTAMP for _, code, _ in found):
        message = "One or more records have been rejected due to invalid timestamp"
        return BatchRefusal(ErrorCode.INVALID_TIMESTAMP, message, errors)
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:_SHOWN_ERRORS])
    message = (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    return BatchRefusal(ErrorCode.INVALID_RECORD, message, errors)


def _record_errors(
    records: list[Record],
    header: BatchHeader,
    rules: Rules,
    now_ms: int,
    topic_partition: object,
    rebuilt: bool,
) -> Iterator[tuple[int, ErrorCode, str]]:
    lowest, highest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    for index, record in enumerate(records):
        timestamp = record.timestamp
        if rules.compacted and record.key is None:
            message = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
            yield index, ErrorCode.INVALID_RECORD, message
        elif not rules.log_append_time and timestamp != NO_TIMESTAMP:
            if not lowest <= timestamp <= highest:
                message = (
                    f"Timestamp {timestamp} of message with offset {record.offset} is out of range. "
                    f"The timestamp should be within [{lowest}, {highest}]"
                )
                yield index, ErrorCode.INVALID_TIMESTAMP, message
        elif header.log_append_time:
            message = (
                f"Invalid timestamp type in message {_described(record, header.compression != 0 and not rebuilt)}. "
                "Producer should not set timestamp type to LogAppendTime."
            )
            yield index, ErrorCode.INVALID_TIMESTAMP, message


def _described(record: Record, partial: bool) -> str:
    """A record as Kafka prints it in such a message: `partial` is what it sees of a compressed one."""
    null = -1 if partial else 0
    key = null if record.key is None else len(record.key)
    value = null if record.value is None else len(record.value)
    kind = "PartialDefaultRecord" if partial else "DefaultRecord"
    return f"{kind}(offset={record.offset}, timestamp={record.timestamp}, key={key} bytes, value={value} bytes)"


def _patch(data: memoryview, header: BatchHeader, attributes: int, max_timestamp: int, stamp: int) -> Checked:
    """The batch with other attributes and max timestamp, in place where the buffer can be written."""
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return Checked(data, header, stamp)
    target = bytearray(data) if data.readonly else data
    crc = set_max_timestamp(target, 0, header.size, attributes, max_timestamp)
    changed = (*header[:4], crc, attributes, *header[6:8], max_timestamp, *header[9:])
    return Checked(target, _new(BatchHeader, changed), stamp)


def _recompress(
    header: BatchHeader,
    payload: memoryview | bytes,
    contiguous: bool,
    rules: Rules,
    target: Compression,
    stamp: int,
    topic_partition: object,
) -> Checked | BatchRefusal:
    """The batch with its payload in the topic's compression; the producer's fields stay."""
    if contiguous:
        attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL) | target
        data = replace_payload(header._replace(attributes=attributes), compress(target, payload, rules.level))
    else:
        records = decode(payload, header._replace(attributes=header.attributes & ~LOG_APPEND_TIME))
        data = build_batch(
            [record._replace(offset=index) for index, record in enumerate(records)],
            compression=target,
            level=rules.level,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.transactional,
            log_append_time=stamp if rules.log_append_time else None,
        )
    if len(data) > rules.max_message_bytes:
        return _too_large(len(data), rules.max_message_bytes, topic_partition)
    return Checked(data, read_header(data), stamp)
