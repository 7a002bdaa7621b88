"""Facts: what the metadata log says, one message in one record value.

Owns: the frame around a message (Kafka's: frame version, kind, version, then the message) and which version of each
kind is written. Never knows: where the bytes are stored, what a fact means.
Invariant: bytes that are no fact give `BadFact` and nothing else.

Most facts of a large cluster are partitions that differ from the one before in nothing but their number; runs of them
are written and read by patching that number, several times faster than field by field.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias

from ottla.base.ports import ByteView
from ottla.wire import codec
from ottla.wire.primitives import read_varint
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


_NUMBER = Struct(">i")
_NUMBER_AT = 3
_TOPIC_AT = 7
_REST_AT = 23
_PARTITION_FRAME = bytes((FRAME_VERSION, stored.PartitionRecord.KEY, WRITTEN_VERSIONS[stored.PartitionRecord]))


def alike(one: stored.PartitionRecord, other: stored.PartitionRecord) -> bool:
    """Whether two partitions differ in nothing but topic and number."""
    return (
        one.replicas == other.replicas
        and one.isr == other.isr
        and one.leader == other.leader
        and one.leader_epoch == other.leader_epoch
        and one.partition_epoch == other.partition_epoch
        and one.directories == other.directories
        and one.adding_replicas == other.adding_replicas
        and one.removing_replicas == other.removing_replicas
        and one.eligible_leader_replicas == other.eligible_leader_replicas
        and one.last_known_elr == other.last_known_elr
        and one.leader_recovery_state == other.leader_recovery_state
    )


def encode_facts(facts: Iterable[Fact]) -> list[bytes]:
    """Record values, in order."""
    values: list[bytes] = []
    last: stored.PartitionRecord | None = None
    value = bytearray()
    for fact in facts:
        if not isinstance(fact, stored.PartitionRecord):
            values.append(bytes(encode_fact(fact)))
            continue
        if last is not None and last.topic_id == fact.topic_id and alike(last, fact):
            _NUMBER.pack_into(value, _NUMBER_AT, fact.partition_id)
        else:
            value = encode_fact(fact)
            last = fact
        values.append(bytes(value))
    return values


def decode_facts(values: Iterable[bytes | None]) -> list[Fact]:
    """The facts in record values, in order."""
    facts: list[Fact] = []
    last: stored.PartitionRecord | None = None
    rest = b""
    for value in values:
        if value is None:
            raise BadFact("the record has no value")
        if value[:_NUMBER_AT] != _PARTITION_FRAME:
            facts.append(decode_fact(value))
        elif last is not None and value[_REST_AT:] == rest:
            facts.append(
                stored.PartitionRecord(
                    _NUMBER.unpack_from(value, _NUMBER_AT)[0],
                    value[_TOPIC_AT:_REST_AT],
                    last.replicas,
                    last.isr,
                    last.removing_replicas,
                    last.adding_replicas,
                    last.leader,
                    last.leader_recovery_state,
                    last.leader_epoch,
                    last.partition_epoch,
                    last.directories,
                    last.eligible_leader_replicas,
                    last.last_known_elr,
                )
            )
        else:
            fact = decode_fact(value)
            assert isinstance(fact, stored.PartitionRecord)
            facts.append(fact)
            last = fact
            rest = value[_REST_AT:]
    return facts


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
        frame, position = read_varint(view, 0)
        key, position = read_varint(view, position)
        version, position = read_varint(view, position)
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
