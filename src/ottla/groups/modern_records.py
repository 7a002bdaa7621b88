"""Facts about groups of the consumer protocol as records of `__consumer_offsets`, in Kafka's own formats.

Owns: keys 3 and 5 to 8 and 16 with their values. Key 4 (partition metadata), which Kafka 4.3 no longer writes, is
passed over: the digest in key 3 has its place. Never knows: other kinds of records, batches, logs.
Invariant: `read(*written(fact))` is the fact.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from struct import Struct

from ottla.groups.modern_facts import (
    ClassicSide,
    Current,
    CurrentFact,
    EpochFact,
    MemberProgress,
    ModernFact,
    Owned,
    PatternFact,
    Resolved,
    Subscription,
    SubscriptionFact,
    TargetEpochFact,
    TargetFact,
)
from ottla.wire import codec
from ottla.wire.schema import Root
from ottla.wire.stored.group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

VERSION = 0
"""Of all these values."""
_SHORT = Struct(">h")
_PROGRESS = {int(progress): progress for progress in MemberProgress}


def written(fact: ModernFact) -> tuple[bytes, bytes | None]:
    """The key and the value of the record that says it."""
    value: Root | None
    key: Root
    if isinstance(fact, CurrentFact):
        # By far the most common one: every step of a member is one.
        value = None if fact.current is None else _current_value(fact.current)
        return _current_key(fact.group_id, fact.member_id), None if value is None else _bytes(VERSION, value)
    elif isinstance(fact, EpochFact):
        key = ConsumerGroupMetadataKey(fact.group_id)
        value = None if fact.epoch is None else ConsumerGroupMetadataValue(fact.epoch, fact.digest)
    elif isinstance(fact, SubscriptionFact):
        key = ConsumerGroupMemberMetadataKey(fact.group_id, fact.member_id)
        value = None if fact.subscription is None else _subscription_value(fact.subscription)
    elif isinstance(fact, TargetEpochFact):
        key = ConsumerGroupTargetAssignmentMetadataKey(fact.group_id)
        value = None
        if fact.epoch is not None:
            value = ConsumerGroupTargetAssignmentMetadataValue(fact.epoch, fact.computed_ms)
    elif isinstance(fact, TargetFact):
        key = ConsumerGroupTargetAssignmentMemberKey(fact.group_id, fact.member_id)
        value = None
        if fact.partitions is not None:
            topics = [TopicPartition(topic_id, sorted(numbers)) for topic_id, numbers in fact.partitions.items()]
            value = ConsumerGroupTargetAssignmentMemberValue(topics)
    else:
        key = ConsumerGroupRegularExpressionKey(fact.group_id, fact.pattern)
        value = None
        if fact.resolved is not None:
            topics_named, version, resolved_ms = fact.resolved
            value = ConsumerGroupRegularExpressionValue(sorted(topics_named), version, resolved_ms)
    return _bytes(key.KEY, key), None if value is None else _bytes(VERSION, value)


@lru_cache(maxsize=1024)
def _current_key(group_id: str, member_id: str) -> bytes:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)
    return _bytes(key.KEY, key)


def _bytes(number: int, message: Root) -> bytes:
    out = bytearray(_SHORT.pack(number))
    codec.write(out, message, 0)
    return bytes(out)


def _subscription_value(said: Subscription) -> ConsumerGroupMemberMetadataValue:
    classic = None
    if said.classic is not None:
        protocols = [ClassicProtocol(name, metadata) for name, metadata in said.classic.protocols]
        classic = ClassicMemberMetadata(said.classic.session_timeout_ms, protocols)
    return ConsumerGroupMemberMetadataValue(
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=sorted(said.topics),
        subscribed_topic_regex=said.pattern,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        server_assignor=said.assignor,
        classic_member_metadata=classic,
    )


def _current_value(current: Current) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.progress,
        assigned_partitions=_owned_value(current.assigned),
        partitions_pending_revocation=_owned_value(current.revoking),
    )


def _owned_value(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id, numbers := sorted(partitions), [partitions[number] for number in numbers])
        for topic_id, partitions in owned.items()
    ]


# --- back ---


def _read_epoch(key: bytes, value: bytes | None) -> ModernFact:
    found, _ = codec.decode(ConsumerGroupMetadataKey, 0, key, 2)
    if value is None:
        return EpochFact(found.group_id, None)
    said, _ = codec.decode(ConsumerGroupMetadataValue, 0, value, 2)
    return EpochFact(found.group_id, said.epoch, said.metadata_hash)


def _read_subscription(key: bytes, value: bytes | None) -> ModernFact:
    found, _ = codec.decode(ConsumerGroupMemberMetadataKey, 0, key, 2)
    if value is None:
        return SubscriptionFact(found.group_id, found.member_id, None)
    said, _ = codec.decode(ConsumerGroupMemberMetadataValue, 0, value, 2)
    classic = None
    if said.classic_member_metadata is not None and said.classic_member_metadata.supported_protocols:
        # Left out, it is a structure of defaults; but there is no classic member without a protocol.
        metadata = said.classic_member_metadata
        protocols = tuple((one.name, bytes(one.metadata)) for one in metadata.supported_protocols)
        classic = ClassicSide(metadata.session_timeout_ms, protocols)
    subscription = Subscription(
        said.instance_id,
        said.rack_id,
        said.client_id,
        said.client_host,
        frozenset(said.subscribed_topic_names),
        said.subscribed_topic_regex or "",
        said.rebalance_timeout_ms,
        said.server_assignor,
        classic,
    )
    return SubscriptionFact(found.group_id, found.member_id, subscription)


def _read_target_epoch(key: bytes, value: bytes | None) -> ModernFact:
    found, _ = codec.decode(ConsumerGroupTargetAssignmentMetadataKey, 0, key, 2)
    if value is None:
        return TargetEpochFact(found.group_id, None)
    said, _ = codec.decode(ConsumerGroupTargetAssignmentMetadataValue, 0, value, 2)
    return TargetEpochFact(found.group_id, said.assignment_epoch, said.assignment_timestamp)


def _read_target(key: bytes, value: bytes | None) -> ModernFact:
    found, _ = codec.decode(ConsumerGroupTargetAssignmentMemberKey, 0, key, 2)
    if value is None:
        return TargetFact(found.group_id, found.member_id, None)
    said, _ = codec.decode(ConsumerGroupTargetAssignmentMemberValue, 0, value, 2)
    partitions = {topic.topic_id: frozenset(topic.partitions) for topic in said.topic_partitions if topic.partitions}
    return TargetFact(found.group_id, found.member_id, partitions)


def _read_current(key: bytes, value: bytes | None) -> ModernFact:
    found, _ = codec.decode(ConsumerGroupCurrentMemberAssignmentKey, 0, key, 2)
    if value is None:
        return CurrentFact(found.group_id, found.member_id, None)
    said, _ = codec.decode(ConsumerGroupCurrentMemberAssignmentValue, 0, value, 2)
    current = Current(
        said.member_epoch,
        said.previous_member_epoch,
        _PROGRESS.get(said.state, MemberProgress.UNKNOWN),
        _owned(said.assigned_partitions, said.member_epoch),
        _owned(said.partitions_pending_revocation, said.member_epoch),
    )
    return CurrentFact(found.group_id, found.member_id, current)


def _owned(topics: Iterable[TopicPartitions], epoch: int) -> Owned:
    """Records of before 4.3 have no epochs of their own: the member's stands for them."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [epoch] * len(topic.partitions)
        if topic.partitions:
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def _read_pattern(key: bytes, value: bytes | None) -> ModernFact:
    found, _ = codec.decode(ConsumerGroupRegularExpressionKey, 0, key, 2)
    if value is None:
        return PatternFact(found.group_id, found.regular_expression, None)
    said, _ = codec.decode(ConsumerGroupRegularExpressionValue, 0, value, 2)
    resolved = Resolved(frozenset(said.topics), said.version, said.timestamp)
    return PatternFact(found.group_id, found.regular_expression, resolved)


READERS: Mapping[int, Callable[[bytes, bytes | None], ModernFact]] = {
    ConsumerGroupMetadataKey.KEY: _read_epoch,
    ConsumerGroupMemberMetadataKey.KEY: _read_subscription,
    ConsumerGroupTargetAssignmentMetadataKey.KEY: _read_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey.KEY: _read_target,
    ConsumerGroupCurrentMemberAssignmentKey.KEY: _read_current,
    ConsumerGroupRegularExpressionKey.KEY: _read_pattern,
}
"""By the number that a key begins with."""
