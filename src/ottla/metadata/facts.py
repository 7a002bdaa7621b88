"""Facts: what the metadata log says, one message in one record value.

Owns: the frame around a message (Kafka's: frame version, kind, version, then the message) and which version of each
kind is written. Never knows: where the bytes are stored, what a fact means.
Invariant: bytes that are no fact give `BadFact` and nothing else.
"""

from collections.abc import Callable
from struct import error as StructError
from typing import Any, TypeAlias

from ottla.base.ports import ByteView
from ottla.wire import codec
from ottla.wire.schema import Root
from ottla.wire.stored import metadata as stored

Fact: TypeAlias = Root

FRAME_VERSION = 1

KINDS: dict[int, type[Root]] = {
    kind.KEY: kind
    for kind in vars(stored).values()
    if isinstance(kind, type) and issubclass(kind, Root) and kind.KEY >= 0
}

# The record versions of metadata.version 30 (Kafka 4.3); kinds that are not here have only version 0.
METADATA_VERSION = 30
WRITTEN_VERSIONS: dict[type[Root], int] = {
    stored.RegisterBrokerRecord: 4,
    stored.BrokerRegistrationChangeRecord: 3,
    stored.PartitionRecord: 2,
    stored.PartitionChangeRecord: 2,
}

_readers: dict[tuple[int, int], Callable[[memoryview, int], tuple[Any, int]]] = {}


class BadFact(Exception):
    """Bytes in the metadata log that are no fact, or one from a newer release."""


def encode_fact(fact: Fact) -> bytearray:
    """A record value."""
    kind = type(fact)
    version = WRITTEN_VERSIONS.get(kind, 0)
    out = bytearray((FRAME_VERSION, kind.KEY, version))
    codec.write(out, fact, version)
    return out


def decode_fact(data: ByteView) -> Fact:
    """The fact in a record value."""
    view = data if isinstance(data, memoryview) else memoryview(data)
    try:
        frame, position = codec.read_varint(view, 0)
        key, position = codec.read_varint(view, position)
        version, position = codec.read_varint(view, position)
        if frame != FRAME_VERSION:
            raise BadFact(f"its frame has version {frame}; this release reads version {FRAME_VERSION}")
        reader = _readers.get((key, version))
        if reader is None:
            reader = _reader(key, version)
        fact, position = reader(view, position)
    except (codec.MalformedMessage, StructError, UnicodeDecodeError) as problem:
        raise BadFact(str(problem)) from None
    if position != len(view):
        raise BadFact(f"{len(view) - position} bytes are left over after it")
    return fact  # type: ignore[no-any-return]


def _reader(key: int, version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
    kind = KINDS.get(key)
    if kind is None or not kind.VERSIONS[0] <= version <= kind.VERSIONS[1]:
        raise BadFact(f"this release knows no fact of kind {key} in version {version}")
    reader = codec.reader(kind, version, version >= kind.FLEXIBLE_FROM)
    _readers[key, version] = reader
    return reader
