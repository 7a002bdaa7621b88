"""Committed offsets: taken in, handed out, forgotten.

Owns: the offsets of all groups of one partition of `__consumer_offsets`. Never knows: who may commit (the group says),
bytes, clocks. Invariant: only `apply` changes the table; no group and no topic stays in it without an offset.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID
from ottla.groups.facts import NO_EXPIRY, Fact, OffsetFact, StoredOffset
from ottla.groups.group import Group
from ottla.groups.pending_offsets import PendingOffsets
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1
Partitions = dict[int, StoredOffset]
_NOTHING: Mapping[str, Partitions] = {}


class OffsetTable:
    """The committed offsets of one partition's groups."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, Partitions]] = {}
        self.pending = PendingOffsets()
        """Those of open transactions."""

    def get(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        return self._by_group.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def __iter__(self) -> Iterator[OffsetFact]:
        for group_id, topics in self._by_group.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield OffsetFact(group_id, topic, partition, committed)

    def held(self, group_id: str) -> Mapping[str, Partitions]:
        """All that a group has committed, by topic and partition."""
        return self._by_group.get(group_id, _NOTHING)

    def apply(self, fact: OffsetFact) -> None:
        group_id, topic, partition, committed = fact
        if self.pending:
            self.pending.outlive(group_id, topic, partition)
        if committed is not None:
            topics = self._by_group.get(group_id)
            if topics is None:
                topics = self._by_group[group_id] = {}
            partitions = topics.get(topic)
            if partitions is None:
                partitions = topics[topic] = {}
            partitions[partition] = committed
            return
        topics = self._by_group.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._by_group.pop(group_id, None)

    # --- asked by clients ---

    def fetched(
        self, group_id: str, topics: Sequence[OffsetFetchRequestTopics] | None
    ) -> list[OffsetFetchResponseTopics]:
        """The offsets asked for, or all that the group has; a topic made anew has none of its predecessor's."""
        held = self._by_group.get(group_id, _NOTHING)
        if topics is None:
            return [
                OffsetFetchResponseTopics(name=topic, partitions=[_told(index, offsets[index]) for index in offsets])
                for topic, offsets in held.items()
            ]
        found = []
        for topic in topics:
            offsets = held.get(topic.name, {})
            partitions = []
            for index in topic.partition_indexes:
                committed = offsets.get(index)
                if committed is not None and _of_another_topic(committed, topic.topic_id):
                    committed = None
                partitions.append(_told(index, committed))
            found.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
        return found

    def deleted(self, group_id: str, topic: str, partitions: Collection[int]) -> list[Fact]:
        """What makes these offsets go; those that are not there need nothing."""
        held = self._by_group.get(group_id, _NOTHING).get(topic, {})
        return [OffsetFact(group_id, topic, index, None) for index in partitions if index in held]

    # --- forgotten ---

    def all_of(self, group_id: str) -> list[Fact]:
        """What makes all offsets of a group go."""
        topics = self._by_group.get(group_id, _NOTHING)
        going: list[Fact] = [OffsetFact(group_id, name, index, None) for name, held in topics.items() for index in held]
        return going + self.pending.of_group(group_id)

    def of_topics(self, names: Collection[str]) -> list[Fact]:
        """What makes every group's offsets of topics that are gone go."""
        going: list[Fact] = [
            OffsetFact(group_id, topic, index, None)
            for group_id, topics in self._by_group.items()
            for topic in names
            for index in topics.get(topic, ())
        ]
        return going + self.pending.of_topics(names)

    def expired(self, group: Group, wall_ms: int, retention_ms: int) -> tuple[list[Fact], bool]:
        """What makes expired offsets of a group go, and whether it then has none."""
        facts: list[Fact] = []
        left = 0
        for topic, held in self._by_group.get(group.group_id, _NOTHING).items():
            if group.subscribes_to(topic):
                left += len(held)
                continue
            for index, committed in held.items():
                base_ms = group.expiry_base_ms(committed)
                held_open = self.pending.holds(group.group_id, topic, index)
                if held_open or base_ms is None or not _is_expired(committed, base_ms, wall_ms, retention_ms):
                    left += 1
                else:
                    facts.append(OffsetFact(group.group_id, topic, index, None))
        return facts, not left


def committed_facts(
    request: OffsetCommitRequest, wall_ms: int, metadata_bytes: int
) -> tuple[list[Fact], OffsetCommitResponse]:
    """What a commit by somebody who may commit says, and the answer to it."""
    group_id = request.group_id
    kept_ms = request.retention_time_ms
    expire_ms = NO_EXPIRY if kept_ms == NO_EXPIRY else wall_ms + kept_ms
    facts: list[Fact] = []
    answered = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        results = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            if len(metadata) > metadata_bytes:
                results.append(OffsetCommitResponsePartition(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            committed = StoredOffset(
                partition.committed_offset, partition.committed_leader_epoch, metadata, wall_ms, expire_ms, topic_id
            )
            facts.append(OffsetFact(group_id, name, index, committed))
            results.append(OffsetCommitResponsePartition(index))
        answered.append(OffsetCommitResponseTopic(name, topic_id, results))
    return facts, OffsetCommitResponse(topics=answered)


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same error for everything."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(partition.partition_index, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _told(index: int, committed: StoredOffset | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(index, NO_OFFSET)
    return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata)


def _of_another_topic(committed: StoredOffset, topic_id: bytes) -> bool:
    return NO_TOPIC_ID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _is_expired(committed: StoredOffset, base_ms: int, wall_ms: int, retention_ms: int) -> bool:
    if committed.expire_ms != NO_EXPIRY:
        return wall_ms >= committed.expire_ms
    return wall_ms - base_ms >= retention_ms
