"""One record as everybody outside this room sees it.

Owns: the shapes only. Never knows: how it stands in a batch.
"""

from typing import Any, NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """Absolute offset, timestamp in milliseconds, and what the producer sent."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ConsumedRecord(NamedTuple):
    """One record as a consumer gets it: where it stands, when it was written, and what was sent.

    Key and value are what the consumer's deserializers made of the bytes. The timestamp is in milliseconds; its type is
    0 when the producer set it (CreateTime) and 1 when the broker did (LogAppendTime). The leader epoch is -1 where the
    log knows none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Headers
    leader_epoch: int
