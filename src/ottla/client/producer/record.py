"""What a program hands to a producer, and what it gets back.

Owns: the two shapes. Never knows: batches, bytes, brokers.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.client.errors import BadRecord
from ottla.records.record import Headers

GivenHeaders: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
"""Headers as programs like to write them; a name may come several times in a list."""


class Record(NamedTuple):
    """One record to be sent. Without partition the key decides, without timestamp the clock."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    """Milliseconds since 1970."""
    headers: GivenHeaders = ()


class Placed(NamedTuple):
    """Where a record landed; offset -1 when the broker does not tell (acks=0, or a repetition it had already)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


def as_headers(given: GivenHeaders) -> Headers:
    """Headers as a batch takes them; BadRecord when they are none."""
    pairs = given.items() if isinstance(given, Mapping) else given
    headers: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise BadRecord(f"a header is a name and its bytes, not {pair!r}")
        name, content = pair
        if content is not None and not isinstance(content, bytes | bytearray | memoryview):
            raise BadRecord(f"header {name!r} holds bytes or nothing, not {type(content).__name__}")
        headers.append((name, None if content is None else bytes(content)))
    return tuple(headers)
