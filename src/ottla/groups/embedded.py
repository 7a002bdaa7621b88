"""The consumers' own formats inside the classic protocol: what they subscribe to and what they are assigned.

Owns: their bytes, versions 0 to 3. The coordinator reads them only when members of both protocols share a group; what
it needs of every classic group is in `groups.subscription`.
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


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

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

    def skip_bytes(self) -> None:
        size = self.whole()
        if size > 0:
            self.piece(size)

    def partitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _ in range(self.whole()):
            name = self.text()
            found.setdefault(name, []).extend(self.whole() for _ in range(self.whole()))
        return found


def read_subscription(data: bytes) -> Embedded:
    try:
        reader = _Reader(data)
        version = reader.short()
        if version < 0:
            raise BadFormat("a negative version")
        topics = tuple(reader.text() for _ in range(reader.whole()))
        reader.skip_bytes()
        owned = reader.partitions() if version >= OWNED_FROM else {}
        if version >= GENERATION_FROM:
            reader.whole()
        rack_id = reader.optional_text() if version >= RACK_FROM else None
    except (StructError, UnicodeDecodeError) as problem:
        raise BadFormat(str(problem)) from None
    return Embedded(version, topics, owned, rack_id)


def version_of(data: bytes) -> int:
    """In which version a consumer speaks; the oldest where that cannot be told."""
    return max(_SHORT.unpack_from(data)[0], 0) if len(data) >= _SHORT.size else 0


def read_assignment(data: bytes) -> Mapping[str, Sequence[int]]:
    """Partitions by topic; no bytes are no assignment."""
    if not data:
        return {}
    try:
        reader = _Reader(data)
        if reader.short() < 0:
            raise BadFormat("a negative version")
        return reader.partitions()
    except (StructError, UnicodeDecodeError) as problem:
        raise BadFormat(str(problem)) from None


def write_assignment(partitions: Mapping[str, Sequence[int]], version: int) -> bytes:
    out = bytearray(_SHORT.pack(min(version, NEWEST)))
    out += _INT.pack(len(partitions))
    for topic, numbers in partitions.items():
        name = topic.encode()
        out += _SHORT.pack(len(name)) + name + _INT.pack(len(numbers))
        for number in numbers:
            out += _INT.pack(number)
    # No data of the assignor's own.
    out += _INT.pack(-1)
    return bytes(out)
