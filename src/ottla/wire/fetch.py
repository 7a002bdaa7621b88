"""Fetch by hand: the request and the response that carry nearly all data out of a broker.

Owns: the bytes of Fetch v4 to v18. Never knows: logs, sessions, sockets. The records of a response are opaque parts
with a length (file ranges, in a broker) that the caller sends as they are between the bytes written here. Requests that
name very many partitions are left to the general codec, which reads them in steps.
"""

from collections.abc import Generator
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from ottla.wire.codec import PART_BYTES, decode_in_steps
from ottla.wire.primitives import (
    MalformedMessage,
    ManyPartitions,
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    read_tag_count,
    read_varint,
    skip_tags,
    write_compact_string,
    write_string,
    write_varint,
)
from ottla.wire.release import released

FIRST_FLEXIBLE = 12
FIRST_TOPIC_ID = 13
_LIMITS = Struct(">iiib")
_INT32 = Struct(">i")
_SESSION = Struct(">ii")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_REPLICA_STATE = Struct(">iq")
_ABORTED = Struct(">qq")
_RESULT_V4 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_HEAD = Struct(">ihi")
_INT64 = Struct(">q")
NO_WATERMARK = 2**63 - 1
_WATERMARK_TAG = 1
AT_ONCE = 1000
"""So many topics and partitions are read, or written, in one go: a millisecond or two."""
PORTION = 16
"""Partitions that are written in one step, where there are more."""


class WantedPartition(NamedTuple):
    """One partition a client wants to read."""

    partition: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    high_watermark: int = NO_WATERMARK
    """The watermark a follower knows, when it wants to hear of a higher one at once (v18)."""


class FetchRequest(NamedTuple):
    """`topics` and `forgotten` name topics by str, or by 16-byte id from v13 on."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    session_id: int
    session_epoch: int
    topics: list[tuple[str | bytes, list[WantedPartition]]]
    forgotten: list[tuple[str | bytes, list[int]]]
    rack: str


class FetchResult(NamedTuple):
    """What one partition answers.

    `records` is an opaque part of `length` bytes, or None; `aborted` is None for readers of uncommitted data; `leader`
    is (id, epoch) when the client should learn a new one; `diverging` is (epoch, end offset).
    """

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: Any = None
    length: int = 0
    aborted: list[tuple[int, int]] | None = None
    preferred_replica: int = -1
    diverging: tuple[int, int] | None = None
    leader: tuple[int, int] | None = None


def read_request(frame: memoryview, position: int, version: int) -> FetchRequest:
    try:
        return _read(frame, position, version)
    except (StructError, UnicodeDecodeError) as problem:
        raise MalformedMessage(f"Fetch v{version}: {problem}") from None


def read_in_steps(frame: memoryview, position: int, version: int) -> Generator[None, None, FetchRequest]:
    """The same request, its value in the end; a partition that is named again counts as it was named last."""
    from ottla.wire.messages.fetch import FetchRequest as Message

    message = yield from decode_in_steps(Message, version, frame, position)
    topics = yield from _wanted_in_steps(message.topics, version)
    forgotten = yield from _forgotten_in_steps(message.forgotten_topics_data, version)
    state = message.replica_state
    request = FetchRequest(
        state.replica_id if version >= 15 else message.replica_id,
        state.replica_epoch if version >= 15 else -1,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level == 1,
        message.session_id,
        message.session_epoch if version >= 7 else -1,
        topics,
        forgotten,
        message.rack_id or "",
    )
    remains: list[Any] = [message]
    del message
    yield from released(remains)
    return request


def _wanted_in_steps(
    topics: Any, version: int
) -> Generator[None, None, list[tuple[str | bytes, list[WantedPartition]]]]:
    by_name: dict[str | bytes, dict[int, WantedPartition]] = {}
    for topic in topics:
        partitions = by_name.setdefault(topic.topic_id if version >= FIRST_TOPIC_ID else topic.topic, {})
        for each in topic.partitions:
            partitions[each.partition] = WantedPartition(
                each.partition,
                each.current_leader_epoch,
                each.fetch_offset,
                each.last_fetched_epoch,
                each.log_start_offset,
                each.partition_max_bytes,
                each.high_watermark,
            )
            yield
    found: list[tuple[str | bytes, list[WantedPartition]]] = []
    for name in tuple(by_name):
        found.append((name, list(by_name.pop(name).values())))
        yield
    return found


def _forgotten_in_steps(topics: Any, version: int) -> Generator[None, None, list[tuple[str | bytes, list[int]]]]:
    found: list[tuple[str | bytes, list[int]]] = []
    for gone in topics:
        found.append((gone.topic_id if version >= FIRST_TOPIC_ID else gone.topic, list(gone.partitions)))
        yield
    return found


def _read(b: memoryview, p: int, version: int) -> FetchRequest:
    flexible = version >= FIRST_FLEXIBLE
    count_of = read_compact_count if flexible else read_count
    replica_id = replica_epoch = -1
    if version <= 14:
        (replica_id,) = _INT32.unpack_from(b, p)
        p += 4
    max_wait_ms, min_bytes, max_bytes, isolation = _LIMITS.unpack_from(b, p)
    p += 13
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(b, p)
        p += 8
    count, p = count_of(b, p)
    named = count
    topics: list[tuple[str | bytes, list[WantedPartition]]] = []
    for _ in range(count):
        topic, p = _read_topic(b, p, version)
        partition_count, p = count_of(b, p)
        named += partition_count
        if named > AT_ONCE:
            raise ManyPartitions
        partitions = []
        for _ in range(partition_count):
            wanted, p = _read_partition(b, p, version)
            partitions.append(wanted)
        if flexible:
            p = skip_tags(b, p)
        topics.append((topic, partitions))
    forgotten: list[tuple[str | bytes, list[int]]] = []
    if version >= 7:
        count, p = count_of(b, p)
        for _ in range(count):
            topic, p = _read_topic(b, p, version)
            partition_count, p = count_of(b, p)
            named += partition_count
            if named > AT_ONCE:
                raise ManyPartitions
            numbers = []
            for _ in range(partition_count):
                numbers.append(_INT32.unpack_from(b, p)[0])
                p += 4
            if flexible:
                p = skip_tags(b, p)
            forgotten.append((topic, numbers))
    rack: str | None = ""
    if version >= 11:
        rack, p = read_compact_string(b, p) if flexible else read_string(b, p)
    if flexible:
        count, p = read_tag_count(b, p)
        for _ in range(count):
            tag, p = read_varint(b, p)
            size, p = read_varint(b, p)
            if tag == 1 and version >= 15:
                replica_id, replica_epoch = _REPLICA_STATE.unpack_from(b, p)
            p += size
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation == 1,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack or "",
    )


def _read_topic(b: memoryview, p: int, version: int) -> tuple[str | bytes, int]:
    if version >= FIRST_TOPIC_ID:
        topic_id = bytes(b[p : p + 16])
        if len(topic_id) != 16:
            raise MalformedMessage("the message ends inside a topic id")
        return topic_id, p + 16
    name, p = read_compact_string(b, p) if version >= FIRST_FLEXIBLE else read_string(b, p)
    if name is None:
        raise MalformedMessage("a topic without a name")
    return name, p


def _read_partition(b: memoryview, p: int, version: int) -> tuple[WantedPartition, int]:
    if version >= 12:
        wanted = WantedPartition(*_PARTITION_V12.unpack_from(b, p))
        if version >= 18 and b[p + 32]:
            watermark, p = _read_watermark(b, p + 32)
            return wanted._replace(high_watermark=watermark), p
        return wanted, skip_tags(b, p + 32)
    if version >= 9:
        number, epoch, offset, start, limit = _PARTITION_V9.unpack_from(b, p)
        return WantedPartition(number, epoch, offset, -1, start, limit), p + 28
    if version >= 5:
        number, offset, start, limit = _PARTITION_V5.unpack_from(b, p)
        return WantedPartition(number, -1, offset, -1, start, limit), p + 24
    number, offset, limit = _PARTITION_V4.unpack_from(b, p)
    return WantedPartition(number, -1, offset, -1, -1, limit), p + 16


def _read_watermark(b: memoryview, p: int) -> tuple[int, int]:
    watermark = NO_WATERMARK
    count, p = read_tag_count(b, p)
    for _ in range(count):
        tag, p = read_varint(b, p)
        size, p = read_varint(b, p)
        if tag == _WATERMARK_TAG:
            (watermark,) = _INT64.unpack_from(b, p)
        p += size
    return watermark, p


def write_response(
    out: bytearray,
    version: int,
    error: int,
    session_id: int,
    topics: list[tuple[str | bytes, list[FetchResult]]],
    nodes: tuple[tuple[int, str, int, str | None], ...] = (),
) -> list[Any]:
    """A whole frame: byte strings with the records' parts between them. `out` begins it, with room for the size."""
    parts: list[Any] = []
    _write_head(out, version, error, session_id, len(topics))
    total = 0
    for topic, results in topics:
        out, size = _write_topic(out, parts, version, topic, results)
        total += size
    return _write_end(out, parts, version, total, nodes)


def write_in_steps(
    out: bytearray,
    version: int,
    session_id: int,
    topics: list[tuple[str | bytes, list[FetchResult]]],
    nodes: tuple[tuple[int, str, int, str | None], ...] = (),
) -> Generator[None, None, list[Any]]:
    """The same frame, as the value in the end: pauses after some partitions."""
    parts: list[Any] = []
    _write_head(out, version, 0, session_id, len(topics))
    total = 0
    for topic, results in topics:
        _write_topic_head(out, version, topic, len(results))
        for start in range(0, len(results), PORTION):
            out, size = _write_results(out, parts, version, results[start : start + PORTION])
            total += size
            if len(out) >= PART_BYTES:
                total += len(out)
                parts.append(out)
                out = bytearray()
            yield
        if version >= FIRST_FLEXIBLE:
            out.append(0)
        yield
    return _write_end(out, parts, version, total, nodes)


def _write_head(out: bytearray, version: int, error: int, session_id: int, topics: int) -> None:
    if version >= 7:
        out += _HEAD.pack(0, error, session_id)
    else:
        out += b"\0\0\0\0"
    _write_count(out, topics, version >= FIRST_FLEXIBLE)


def _write_topic(
    out: bytearray, parts: list[Any], version: int, topic: str | bytes, results: list[FetchResult]
) -> tuple[bytearray, int]:
    """What the bytes go on in, and how many went to `parts`."""
    _write_topic_head(out, version, topic, len(results))
    out, total = _write_results(out, parts, version, results)
    if version >= FIRST_FLEXIBLE:
        out.append(0)
    return out, total


def _write_topic_head(out: bytearray, version: int, topic: str | bytes, count: int) -> None:
    flexible = version >= FIRST_FLEXIBLE
    if not isinstance(topic, str):
        out += topic
    elif flexible:
        write_compact_string(out, topic)
    else:
        write_string(out, topic)
    _write_count(out, count, flexible)


def _write_results(out: bytearray, parts: list[Any], version: int, results: list[FetchResult]) -> tuple[bytearray, int]:
    total = 0
    flexible = version >= FIRST_FLEXIBLE
    for result in results:
        _write_result(out, version, result)
        if result.length:
            total += len(out) + result.length
            parts.append(out)
            parts.append(result.records)
            out = bytearray()
        if flexible:
            _write_result_tags(out, version, result)
    return out, total


def _write_end(
    out: bytearray,
    parts: list[Any],
    version: int,
    total: int,
    nodes: tuple[tuple[int, str, int, str | None], ...],
) -> list[Any]:
    if version >= FIRST_FLEXIBLE:
        _write_nodes(out, version, nodes)
    parts.append(out)
    _INT32.pack_into(parts[0], 0, total + len(out) - 4)
    return parts


def _write_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_varint(out, count + 1)
    else:
        out += _INT32.pack(count)


def _write_result(out: bytearray, version: int, result: FetchResult) -> None:
    """Everything of one partition before the bytes of its records."""
    if version >= 5:
        out += _RESULT_V5.pack(*result[:5])
    else:
        out += _RESULT_V4.pack(*result[:4])
    flexible = version >= FIRST_FLEXIBLE
    aborted = result.aborted
    if aborted is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        _write_count(out, len(aborted), flexible)
        for producer_id, first_offset in aborted:
            out += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                out.append(0)
    if version >= 11:
        out += _INT32.pack(result.preferred_replica)
    if flexible:
        write_varint(out, result.length + 1)
    else:
        out += _INT32.pack(result.length)


def _write_result_tags(out: bytearray, version: int, result: FetchResult) -> None:
    tags = []
    if result.diverging is not None:
        tags.append(b"\x00\x0d" + Struct(">iq").pack(*result.diverging) + b"\0")
    if result.leader is not None:
        tags.append(b"\x01\x09" + _SESSION.pack(*result.leader) + b"\0")
    out.append(len(tags))
    for tag in tags:
        out += tag


def _write_nodes(out: bytearray, version: int, nodes: tuple[tuple[int, str, int, str | None], ...]) -> None:
    if not nodes or version < 16:
        out.append(0)
        return
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
