"""Facts as records of `__consumer_offsets`, in Kafka's own formats, so that Kafka's tools read the topic.

Owns: keys and values: a key begins with the number of its kind, a value with its version. Never knows: batches, logs.
Invariants: `read(*written(fact))` is the fact; bytes that are no record give `BadGroupRecord` and nothing else; kinds
of record that this room does not serve are passed over.
"""

from struct import Struct
from struct import error as StructError

from ottla.base.ports import ByteView
from ottla.groups import modern_records
from ottla.groups.facts import NO_EXPIRY, Fact, GroupFact, OffsetFact, StoredGroup, StoredMember, StoredOffset
from ottla.wire import codec
from ottla.wire.stored.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2

# The versions that Kafka 4.3 writes.
GROUP_VERSION = 3
OFFSET_VERSION = 4
OFFSET_VERSION_WITH_EXPIRY = 1

_SHORT = Struct(">h")
_OFFSET_KEY_START = _SHORT.pack(OffsetCommitKey.KEY)
_GROUP_KEY_START = _SHORT.pack(GroupMetadataKey.KEY)


class BadGroupRecord(Exception):
    """Bytes in `__consumer_offsets` that are no record of it, or one from a newer release."""


def written(fact: Fact) -> tuple[bytes, bytes | None]:
    """The key and the value of the record that says it."""
    if isinstance(fact, OffsetFact):
        return _offset_written(fact)
    if not isinstance(fact, GroupFact):
        return modern_records.written(fact)
    key = bytearray(_GROUP_KEY_START)
    codec.write(key, GroupMetadataKey(fact.group_id), 0)
    if fact.group is None:
        return bytes(key), None
    value = bytearray(_SHORT.pack(GROUP_VERSION))
    codec.write(value, _group_value(fact.group), GROUP_VERSION)
    return bytes(key), bytes(value)


def _offset_written(fact: OffsetFact) -> tuple[bytes, bytes | None]:
    group_id, topic, partition, committed = fact
    key = bytearray(_OFFSET_KEY_START)
    codec.write(key, OffsetCommitKey(group_id, topic, partition), 0)
    if committed is None:
        return bytes(key), None
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = committed
    version = OFFSET_VERSION if expire_ms == NO_EXPIRY else OFFSET_VERSION_WITH_EXPIRY
    value = bytearray(_SHORT.pack(version))
    codec.write(value, OffsetCommitValue(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id), version)
    return bytes(key), bytes(value)


def _group_value(group: StoredGroup) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in group.members
        ],
    )


def is_known(key: ByteView) -> bool:
    """Whether the record with this key says something about a group or an offset."""
    if len(key) < 2:
        return False
    (kind,) = _SHORT.unpack_from(key)
    return kind <= GROUP_KEY or kind in modern_records.READERS


def read(key: bytes, value: bytes | None) -> Fact:
    """The fact that a record of a known kind says."""
    try:
        (kind,) = _SHORT.unpack_from(key)
        if kind in OFFSET_KEYS:
            return _read_offset(key, value)
        if kind != GROUP_KEY:
            if value is not None:
                _version(value, modern_records.VERSION)
            return modern_records.READERS[kind](key, value)
        found, _ = codec.decode(GroupMetadataKey, 0, key, 2)
        if value is None:
            return GroupFact(found.group, None)
        group, _ = codec.decode(GroupMetadataValue, _version(value, GroupMetadataValue.VERSIONS[1]), value, 2)
    except (codec.MalformedMessage, StructError, ValueError) as problem:
        raise BadGroupRecord(str(problem)) from None
    return GroupFact(found.group, _stored_group(group))


def _version(value: bytes, newest: int) -> int:
    (version,) = _SHORT.unpack_from(value)
    if not 0 <= version <= newest:
        raise BadGroupRecord(f"this release reads values up to version {newest}, not {version}")
    return int(version)


def _read_offset(key: bytes, value: bytes | None) -> OffsetFact:
    found, _ = codec.decode(OffsetCommitKey, 0, key, 2)
    if value is None:
        return OffsetFact(found.group, found.topic, found.partition, None)
    said, _ = codec.decode(OffsetCommitValue, _version(value, OffsetCommitValue.VERSIONS[1]), value, 2)
    committed = StoredOffset(
        said.offset, said.leader_epoch, said.metadata, said.commit_timestamp, said.expire_timestamp, said.topic_id
    )
    return OffsetFact(found.group, found.topic, found.partition, committed)


def _stored_group(value: GroupMetadataValue) -> StoredGroup:
    return StoredGroup(
        protocol_type=value.protocol_type or None,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        since_ms=value.current_state_timestamp,
        members=tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                # The oldest version knows one time-out for both.
                member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout,
                member.session_timeout,
                bytes(member.subscription),
                bytes(member.assignment),
            )
            for member in value.members
        ),
    )
