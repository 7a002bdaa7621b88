"""The byte formats of the protocol's types: texts, bytes, counts and tags, in their older and their compact forms.

Owns: how one value is read and written. Never knows: messages, versions. Invariants: bad bytes give `MalformedMessage`
or an error of `struct` or of decoding text, which `wire.codec` turns into it; no length taken from the wire makes a
reader allocate more than the bytes that are really there.
"""

from collections.abc import Callable
from struct import Struct, pack
from typing import Any

from ottla.base.ports import ByteView

Reader = Callable[[memoryview, int], tuple[Any, int]]

_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from

FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}


MOST_ELEMENTS = 1_000_000
"""What an array may have: Kafka 4.4 refuses more, as their objects take many times the memory of the bytes."""
MOST_TAGS = 10_000
"""How many tagged fields may follow a structure, likewise."""
_FEW = 1000
"""Arrays that claim no more are not looked at twice: where the bytes are missing, reading finds out soon."""


class MalformedMessage(Exception):
    """Bytes that are no message of the version they claim to be."""


class ManyPartitions(Exception):
    """A request that names so many partitions that it is to be read in steps."""


def read_varint(b: memoryview, p: int) -> tuple[int, int]:
    try:
        value = b[p]
        p += 1
        if value < 128:
            return value, p
        value &= 127
        shift = 7
        while True:
            byte = b[p]
            p += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 28:
                raise MalformedMessage("a variable-length number is too long")
    except IndexError:
        raise MalformedMessage("the message ends inside a variable-length number") from None
    if value > 0xFFFFFFFF:
        raise MalformedMessage("a variable-length number is too large")
    return value, p


def write_varint(o: bytearray, value: int) -> None:
    while value > 127:
        o.append(value & 127 | 128)
        value >>= 7
    o.append(value)


def take_slice(b: memoryview, p: int, size: int) -> memoryview:
    part = b[p : p + size]
    if len(part) != size:
        raise MalformedMessage("the message ends inside a field")
    return part


def non_null(value: Any) -> Any:
    if value is None:
        raise MalformedMessage("null where a value is needed")
    return value


def read_string(b: memoryview, p: int) -> tuple[str | None, int]:
    (size,) = _int16(b, p)
    p += 2
    if size < 0:
        return None, p
    return str(take_slice(b, p, size), "utf-8"), p + size


def read_compact_string(b: memoryview, p: int) -> tuple[str | None, int]:
    size, p = read_varint(b, p)
    if size == 0:
        return None, p
    size -= 1
    return str(take_slice(b, p, size), "utf-8"), p + size


def read_view(b: memoryview, p: int) -> tuple[memoryview | None, int]:
    (size,) = _int32(b, p)
    p += 4
    if size < 0:
        return None, p
    return take_slice(b, p, size), p + size


def read_compact_view(b: memoryview, p: int) -> tuple[memoryview | None, int]:
    size, p = read_varint(b, p)
    if size == 0:
        return None, p
    size -= 1
    return take_slice(b, p, size), p + size


def read_bytes(b: memoryview, p: int) -> tuple[bytes | None, int]:
    view, p = read_view(b, p)
    return (None if view is None else bytes(view)), p


def read_compact_bytes(b: memoryview, p: int) -> tuple[bytes | None, int]:
    view, p = read_compact_view(b, p)
    return (None if view is None else bytes(view)), p


def read_count(b: memoryview, p: int) -> tuple[int, int]:
    """An array's length, -1 for null; where it is long, never more than the bytes that follow."""
    (count,) = _int32(b, p)
    p += 4
    if count > _FEW:
        _check_count(count, len(b) - p)
    return count, p


def read_compact_count(b: memoryview, p: int) -> tuple[int, int]:
    count, p = read_varint(b, p)
    count -= 1
    if count > _FEW:
        _check_count(count, len(b) - p)
    return count, p


def _check_count(count: int, size: int) -> None:
    if count > size:
        raise MalformedMessage("an array claims more elements than the message has bytes")
    if count > MOST_ELEMENTS:
        raise MalformedMessage(f"an array of {count} elements (at most {MOST_ELEMENTS} are taken)")


def read_tag_count(b: memoryview, p: int) -> tuple[int, int]:
    """How many tagged fields follow."""
    count, p = read_varint(b, p)
    if count > MOST_TAGS:
        _too_many_tags(count)
    return count, p


def _too_many_tags(count: int) -> None:
    raise MalformedMessage(f"{count} tagged fields (at most {MOST_TAGS} are taken)")


def skip_tags(b: memoryview, p: int) -> int:
    count, p = read_varint(b, p)
    if count > MOST_TAGS:
        _too_many_tags(count)
    for _ in range(count):
        _, p = read_varint(b, p)
        size, p = read_varint(b, p)
        take_slice(b, p, size)
        p += size
    return p


def write_string(o: bytearray, value: str | None) -> None:
    if value is None:
        o += b"\xff\xff"
        return
    data = value.encode()
    o += pack(">h", len(data))
    o += data


def write_compact_string(o: bytearray, value: str | None) -> None:
    if value is None:
        o.append(0)
        return
    data = value.encode()
    write_varint(o, len(data) + 1)
    o += data


def write_bytes(o: bytearray, value: ByteView | None) -> None:
    if value is None:
        o += b"\xff\xff\xff\xff"
        return
    o += pack(">i", len(value))
    o += value


def write_compact_bytes(o: bytearray, value: ByteView | None) -> None:
    if value is None:
        o.append(0)
        return
    write_varint(o, len(value) + 1)
    o += value


def write_count(o: bytearray, count: int) -> None:
    o += pack(">i", count)


def write_compact_count(o: bytearray, count: int) -> None:
    write_varint(o, count + 1)


READERS: dict[tuple[str, bool], Reader] = {
    ("string", False): read_string,
    ("string", True): read_compact_string,
    ("bytes", False): read_bytes,
    ("bytes", True): read_compact_bytes,
    ("records", False): read_view,
    ("records", True): read_compact_view,
}
WRITERS: dict[tuple[str, bool], Callable[..., None]] = {
    ("string", False): write_string,
    ("string", True): write_compact_string,
    ("bytes", False): write_bytes,
    ("bytes", True): write_compact_bytes,
    ("records", False): write_bytes,
    ("records", True): write_compact_bytes,
}
