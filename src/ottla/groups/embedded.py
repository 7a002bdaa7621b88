"""The consumers' own formats inside the classic protocol: what they subscribe to and what they are assigned.

Owns: their bytes, versions 0 to 3. Consumers write and read them; the coordinator reads them only when members of both
protocols share a group; what it needs of every classic group is in `groups.subscription`.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

_SHORT = Struct(">h")
_INT = Struct(">i")
NEWEST = 3
OWNED_FROM = 1
GENERATION_FROM = 2
RACK_FROM = 3


class BadFormat(Exception):
    """The bytes are not in the consumers' format."""


class Embedded(NamedTuple):
    """What a consumer joins with."""

    version: int
    topics: tuple[str, ...]
    owned: Mapping[str, Sequence[int]] = {}
    rack_id: str | None = None
    generation: int = -1
    user_data: bytes | None = None
    """Whatever the assignor wants to tell the leader."""


class _ProtocolReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def short(self) -> int:
        (number,) = _SHORT.unpack_from(self._data, self._at)
        self._at += 2
        return int(number)

    def whole(self) -> int:
        (number,) = _INT.unpack_from(self._data, self._at)
        self._at += 4
        return int(number)

    def piece(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if size < 0 or len(piece) != size:
            raise BadFormat("a field is cut off")
        self._at += size
        return piece

    def text(self) -> str:
        return self.piece(self.short()).decode()

    def optional_text(self) -> str | None:
        size = self.short()
        return None if size < 0 else self.piece(size).decode()

    def optional_bytes(self) -> bytes | None:
        size = self.whole()
        return None if size < 0 else self.piece(size)

    def partitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _ in range(self.whole()):
            name = self.text()
            found.setdefault(name, []).extend(self.whole() for _ in range(self.whole()))
        return found


def read_subscription(data: bytes) -> Embedded:
    try:
        reader = _ProtocolReader(data)
        version = reader.short()
        if version < 0:
            raise BadFormat("a negative version")
        topics = tuple(reader.text() for _ in range(reader.whole()))
        user_data = reader.optional_bytes()
        owned = reader.partitions() if version >= OWNED_FROM else {}
        generation = reader.whole() if version >= GENERATION_FROM else -1
        rack_id = reader.optional_text() if version >= RACK_FROM else None
    except (StructError, UnicodeDecodeError) as problem:
        raise BadFormat(str(problem)) from None
    return Embedded(version, topics, owned, rack_id, generation, user_data)


def write_subscription(subscription: Embedded) -> bytes:
    """In its version; fields that the version does not have are left out."""
    version = min(subscription.version, NEWEST)
    out = bytearray(_SHORT.pack(version)) + _INT.pack(len(subscription.topics))
    for topic in subscription.topics:
        out += _text(topic)
    data = subscription.user_data
    out += _INT.pack(-1) if data is None else _INT.pack(len(data)) + data
    if version >= OWNED_FROM:
        out += _partitions(subscription.owned)
    if version >= GENERATION_FROM:
        out += _INT.pack(subscription.generation)
    if version >= RACK_FROM:
        out += _SHORT.pack(-1) if subscription.rack_id is None else _text(subscription.rack_id)
    return bytes(out)


def version_of(data: bytes) -> int:
    """In which version a consumer speaks; the oldest where that cannot be told."""
    return max(_SHORT.unpack_from(data)[0], 0) if len(data) >= _SHORT.size else 0


def read_assignment(data: bytes) -> Mapping[str, Sequence[int]]:
    """Partitions by topic; no bytes are no assignment."""
    if not data:
        return {}
    try:
        reader = _ProtocolReader(data)
        if reader.short() < 0:
            raise BadFormat("a negative version")
        return reader.partitions()
    except (StructError, UnicodeDecodeError) as problem:
        raise BadFormat(str(problem)) from None


def write_assignment(partitions: Mapping[str, Sequence[int]], version: int) -> bytes:
    # No data of the assignor's own.
    return _SHORT.pack(min(version, NEWEST)) + _partitions(partitions) + _INT.pack(-1)


class Remembered(NamedTuple):
    """What the sticky assignor of the classic protocol lets its members remember."""

    partitions: Mapping[str, Sequence[int]]
    generation: int = -1


def write_remembered(remembered: Remembered) -> bytes:
    return _partitions(remembered.partitions) + _INT.pack(remembered.generation)


def read_remembered(data: bytes) -> Remembered:
    """Its first version had no generation."""
    try:
        reader = _ProtocolReader(data)
        partitions = reader.partitions()
        return Remembered(partitions, reader.whole() if reader.left else -1)
    except (StructError, UnicodeDecodeError) as problem:
        raise BadFormat(str(problem)) from None


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    out = bytearray(_INT.pack(len(partitions)))
    for topic, numbers in partitions.items():
        out += _text(topic) + _INT.pack(len(numbers)) + b"".join(map(_INT.pack, numbers))
    return bytes(out)
