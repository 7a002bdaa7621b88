"""Produce by hand: the request and the response that carry nearly all data into a broker.

Owns: the bytes of Produce v3 to v13. Never knows: partitions or logs. Records stay a view of the frame, never a copy.
The general codec reads and writes the same bytes (a property test holds the two together); this one makes no objects
beyond tuples. Requests that name very many partitions are left to that one, which reads them in steps.
"""

from collections.abc import Generator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.wire.codec import decode_in_steps
from ottla.wire.primitives import (
    MalformedMessage,
    ManyPartitions,
    read_compact_count,
    read_compact_string,
    read_compact_view,
    read_string,
    skip_tags,
    write_compact_string,
    write_string,
    write_varint,
)

FIRST_FLEXIBLE = 9
FIRST_TOPIC_ID = 13
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hii")
_PARTITION = Struct(">ii")
_RESULT = Struct(">ihqq")
_RESULT_START = Struct(">ihqqq")

AT_ONCE = 1000
"""So many topics and partitions are read in one go."""
MOST_PARTITIONS = 20_000
"""What one request may name: a megabyte, which is all that producers send by default, has room for 13,000 batches."""

_new = tuple.__new__  # half the time of a named tuple's own constructor


class ProduceRequest(NamedTuple):
    """`topics`: (name, or 16-byte id from v13 on, [(partition, records or None)])."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]]


class PartitionResult(NamedTuple):
    """What one partition answers. `leader`: (id, epoch) when the client should learn a new one."""

    partition: int
    error: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    leader: tuple[int, int] | None = None


def read_request(frame: memoryview, position: int, version: int) -> ProduceRequest:
    try:
        if version >= FIRST_FLEXIBLE:
            return _read_flexible(frame, position, version)
        return _read_legacy(frame, position)
    except (StructError, UnicodeDecodeError, IndexError) as problem:
        raise MalformedMessage(f"Produce v{version}: {problem}") from None


def _read_flexible(b: memoryview, p: int, version: int) -> ProduceRequest:
    # Counts, names and tags are nearly always shorter than 128: those lengths are read in place, others by a call.
    transactional_id, p = (None, p + 1) if b[p] == 0 else read_compact_string(b, p)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(b, p)
    count, p = read_compact_count(b, p + 6)
    named = count
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(count):
        topic: str | bytes | None
        if version >= FIRST_TOPIC_ID:
            topic = bytes(b[p : p + 16])
            p += 16
        else:
            topic, p = read_compact_string(b, p)
            if topic is None:
                raise MalformedMessage("a topic without a name")
        partition_count, p = read_compact_count(b, p)
        named += partition_count
        if named > AT_ONCE:
            raise ManyPartitions
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            (partition,) = _INT32.unpack_from(b, p)
            records, p = read_compact_view(b, p + 4)
            p = p + 1 if b[p] == 0 else skip_tags(b, p)
            partitions.append((partition, records))
        p = p + 1 if b[p] == 0 else skip_tags(b, p)
        topics.append((topic, partitions))
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _read_legacy(b: memoryview, p: int) -> ProduceRequest:
    (size,) = _INT16.unpack_from(b, p)
    transactional_id, p = (None, p + 2) if size < 0 else read_string(b, p)
    acks, timeout_ms, count = _ACKS_TIMEOUT_COUNT.unpack_from(b, p)
    p += 10
    named = count
    topics: list[tuple[str | bytes, list[tuple[int, memoryview | None]]]] = []
    for _ in range(count):
        topic, p = read_string(b, p)
        if topic is None:
            raise MalformedMessage("a topic without a name")
        (partition_count,) = _INT32.unpack_from(b, p)
        p += 4
        named += partition_count
        if named > AT_ONCE:
            raise ManyPartitions
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            partition, size = _PARTITION.unpack_from(b, p)
            p += 8
            if size < 0:
                partitions.append((partition, None))
                continue
            records = b[p : p + size]
            if len(records) != size:
                raise MalformedMessage("the message ends inside a field")
            p += size
            partitions.append((partition, records))
        topics.append((topic, partitions))
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def read_in_steps(frame: memoryview, position: int, version: int) -> Generator[None, None, ProduceRequest]:
    """The same request, its value in the end; a partition that is named again counts as it was named last."""
    from ottla.wire.messages.produce import ProduceRequest as Message

    message = yield from decode_in_steps(Message, version, frame, position)
    topics: dict[str | bytes, dict[int, memoryview | None]] = {}
    named = 0
    for topic in message.topic_data:
        partitions = topics.setdefault(topic.topic_id if version >= FIRST_TOPIC_ID else topic.name, {})
        named += 1 + len(topic.partition_data)
        if named > MOST_PARTITIONS:
            raise MalformedMessage(f"more than {MOST_PARTITIONS} topics and partitions in one request")
        for each in topic.partition_data:
            partitions[each.index] = None if each.records is None else memoryview(each.records)
            yield
    found = [(topic, list(partitions.items())) for topic, partitions in topics.items()]
    return ProduceRequest(message.transactional_id, message.acks, message.timeout_ms, found)


def portions(request: ProduceRequest) -> Generator[ProduceRequest, None, None]:
    """The request in parts of so many partitions as may be written to at once."""
    for topic, partitions in request.topics:
        for start in range(0, len(partitions), AT_ONCE):
            yield request._replace(topics=[(topic, partitions[start : start + AT_ONCE])])


def only_last(request: ProduceRequest) -> ProduceRequest:
    """The request with every partition once: as in Kafka, one that is named again counts as it was named last."""
    named = [(topic, index) for topic, partitions in request.topics for index, _ in partitions]
    if len(set(named)) == len(named):
        return request
    topics: dict[str | bytes, dict[int, memoryview | None]] = {}
    for topic, partitions in request.topics:
        topics.setdefault(topic, {}).update(partitions)
    return request._replace(topics=[(topic, list(partitions.items())) for topic, partitions in topics.items()])


def write_response(
    out: bytearray,
    version: int,
    topics: list[tuple[str | bytes, list[PartitionResult]]],
    nodes: tuple[tuple[int, str, int, str | None], ...] = (),
) -> None:
    """Add the body of a response; `nodes` (id, host, port, rack) go with the leaders named in the results (v10 on)."""
    if version >= FIRST_FLEXIBLE:
        _write_flexible(out, version, topics, nodes)
        return
    out += _INT32.pack(len(topics))
    for topic, results in topics:
        assert isinstance(topic, str)
        write_string(out, topic)
        out += _INT32.pack(len(results))
        for result in results:
            if version >= 5:
                out += _RESULT_START.pack(*result[:5])
            else:
                out += _RESULT.pack(*result[:4])
            if version >= 8:
                out += _INT32.pack(len(result.record_errors))
                for index, message in result.record_errors:
                    out += _INT32.pack(index)
                    write_string(out, message)
                write_string(out, result.message)
    out += b"\0\0\0\0"


def _write_flexible(
    out: bytearray,
    version: int,
    topics: list[tuple[str | bytes, list[PartitionResult]]],
    nodes: tuple[tuple[int, str, int, str | None], ...],
) -> None:
    write_varint(out, len(topics) + 1)
    for topic, results in topics:
        if isinstance(topic, str):
            write_compact_string(out, topic)
        else:
            out += topic
        write_varint(out, len(results) + 1)
        for result in results:
            out += _RESULT_START.pack(*result[:5])
            if result.error == 0 and not result.message:
                # No record errors, no message, no tags: the answer to nearly every request.
                out += b"\x01\x00\x00"
                continue
            write_varint(out, len(result.record_errors) + 1)
            for index, message in result.record_errors:
                out += _INT32.pack(index)
                write_compact_string(out, message)
                out.append(0)
            write_compact_string(out, result.message)
            if result.leader is not None and version >= 10:
                out += b"\x01\x00\x09"
                out += _INT32.pack(result.leader[0])
                out += _INT32.pack(result.leader[1])
                out.append(0)
            else:
                out.append(0)
        out.append(0)
    out += b"\0\0\0\0"
    if nodes and version >= 10:
        part = bytearray()
        write_varint(part, len(nodes) + 1)
        for node, host, port, rack in nodes:
            part += _INT32.pack(node)
            write_compact_string(part, host)
            part += _INT32.pack(port)
            write_compact_string(part, rack)
            part.append(0)
        out += b"\x01\x00"
        write_varint(out, len(part))
        out += part
    else:
        out.append(0)
