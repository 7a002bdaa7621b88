"""One record as everybody outside this room sees it.

Owns: the shape only. Never knows: how it stands in a batch.
"""

from typing import NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """Absolute offset, timestamp in milliseconds, and what the producer sent."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
