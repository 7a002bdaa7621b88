"""Records as JSON lines: what `consume --json` prints and `produce --json` reads.

Owns: the shape, the same in both directions. Never knows: files, topics. Invariants: bytes that are not UTF-8 text
stand as {"base64": "…"}, so nothing is lost; what is printed reads back as the same key, value, headers and timestamp.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from ottla.base.vocabulary import TopicPartition
from ottla.records.record import Headers

_BINARY = "base64"
_LATEST = 2**63 - 1


class Shown(Protocol):
    """What is printed of a record."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class Input(NamedTuple):
    """One record to send; no timestamp means now, and the partition is the one it came from, if it tells."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


def to_json(partition: TopicPartition, record: Shown) -> bytes:
    """One line, with its line feed."""
    content = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": show_bytes(record.key),
        "value": show_bytes(record.value),
        "headers": [[name, show_bytes(content)] for name, content in record.headers],
    }
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # a header's name that is not UTF-8: JSON has escapes for what UTF-8 has not
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def from_json(line: bytes) -> Input:
    """The record of one line; ValueError with a sentence when it is none. Topic and offset are ignored."""
    try:
        content = json.loads(line)
    except ValueError as problem:
        raise ValueError(f"is not JSON: {problem}") from None
    if not isinstance(content, dict) or not content.keys() & {"key", "value", "headers"}:
        raise ValueError('is not an object with "key", "value" or "headers"')
    return Input(
        _read(content.get("key")),
        _read(content.get("value")),
        tuple(read_headers(content.get("headers") or ())),
        read_timestamp(content.get("timestamp")),
        read_partition(content.get("partition")),
    )


def show_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Text where it is text."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {_BINARY: b64encode(data).decode()}


def _read(content: Any) -> bytes | None:
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, dict) and content.keys() == {_BINARY}:
        try:
            return b64decode(content[_BINARY], validate=True)
        except (Base64Error, ValueError, TypeError):
            raise ValueError(f"has base64 that cannot be read: {content[_BINARY]!r}") from None
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def read_headers(content: Any) -> Iterable[tuple[str, bytes | None]]:
    """Of an object or a list of pairs; ValueError for anything else."""
    pairs = list(content.items()) if isinstance(content, dict) else content
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError("has headers that are neither an object nor a list of [name, value]")
        pair[0].encode("utf-8", "surrogateescape")  # a ValueError for what could never be written
        yield pair[0], _read(pair[1])


def read_partition(content: Any) -> int | None:
    """Of a number; anything else is none."""
    return content if isinstance(content, int) and not isinstance(content, bool) and content >= 0 else None


def read_timestamp(content: Any) -> int | None:
    """Of milliseconds or an ISO time; ValueError for anything else."""
    if content is None:
        return None
    if isinstance(content, int) and not isinstance(content, bool) and 0 <= content <= _LATEST:
        return content
    try:
        return int(datetime.fromisoformat(content).timestamp() * 1000)
    except (TypeError, ValueError):
        raise ValueError(f"has a timestamp that is neither milliseconds nor an ISO time: {content!r}") from None
