"""OffsetFetch, v1 to v10: how far groups have come.

Up to v7 a request is of one group and its answer lies at the top level; from v8 on there are several; from v10 on
topics are named by their ids. Where stable offsets are required, those that an open transaction may change are refused.

KIP-88 (v2: all partitions), KIP-320 (v5: leader epochs), KIP-447 (v7: stable offsets), KIP-709 (v8: several groups),
KIP-848 (v9: the consumer protocol, v10: topic ids).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.groups.modern import ConsumerGroup
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.broker.broker import Broker
    from ottla.groups.pending_offsets import PendingOffsets

SEVERAL_FROM = 8
BY_ID_FROM = 10
GROUP_ERROR_FROM = 2


@in_portions(
    Lists(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
    Lists(("topics", "partition_indexes"), ("topics", "partitions")),
)
def handle(
    broker: "Broker", request: OffsetFetchRequest, context: Context
) -> "OffsetFetchResponse | Future[OffsetFetchResponse]":
    by_id = context.version >= BY_ID_FROM
    if context.version >= SEVERAL_FROM:
        stable = request.require_stable
        names = [group.group_id for group in request.groups]
        return broker.groups.settled(
            names,
            OffsetFetchResponse(groups=[_fetched(broker, group, by_id, stable) for group in request.groups]),
            lambda error: OffsetFetchResponse(groups=[_refused(name, error) for name in names]),
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return broker.groups.settled(
        [group.group_id],
        _as_one_group(_fetched(broker, group, by_id, request.require_stable), group, context.version),
        lambda error: _as_one_group(_refused(group.group_id, error), group, context.version),
    )


def _refused(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error)


def _fetched(broker: "Broker", group: OffsetFetchRequestGroup, by_id: bool, stable: bool) -> OffsetFetchResponseGroup:
    answer = _found(broker, group, by_id)
    shard = broker.groups.shard(group.group_id)
    if stable and not isinstance(shard, ErrorCode) and shard.machine.offsets.pending:
        _refuse_unstable(answer, shard.machine.offsets.pending)
    return answer


def _refuse_unstable(answer: OffsetFetchResponseGroup, pending: "PendingOffsets") -> None:
    for topic in answer.topics:
        topic.partitions = [
            OffsetFetchResponsePartitions(partition.partition_index, -1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if pending.holds(answer.group_id, topic.name, partition.partition_index)
            else partition
            for partition in topic.partitions
        ]


def _found(broker: "Broker", group: OffsetFetchRequestGroup, by_id: bool) -> OffsetFetchResponseGroup:
    shard = broker.groups.shard(group.group_id)
    if isinstance(shard, ErrorCode):
        return _refused(group.group_id, shard)
    found_group = shard.machine.groups.get(group.group_id)
    if isinstance(found_group, ConsumerGroup):
        error = found_group.fetch_error(group.member_id, group.member_epoch)
        if error != ErrorCode.NONE:
            return _refused(group.group_id, error)
    image = broker.image
    if group.topics is None:
        topics = shard.machine.fetched(group.group_id, None)
        if by_id:
            # Topics that are gone have no id to be told by.
            topics = [topic for topic in topics if topic.name in image.topics]
            for topic in topics:
                topic.topic_id = image.topics[topic.name].topic_id
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
    unknown = []
    known = []
    for asked in group.topics:
        found = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
        if found is not None:
            asked.name, asked.topic_id = found.name, found.topic_id
        if found is None and by_id:
            unknown.append(_without(asked, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            known.append(asked)
    topics = [*shard.machine.fetched(group.group_id, known), *unknown]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _without(asked: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        asked.name,
        asked.topic_id,
        [OffsetFetchResponsePartitions(index, -1, error_code=error) for index in asked.partition_indexes],
    )


def _as_one_group(
    answer: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    """The form of the answer before there were several groups; the oldest has no place for a group's error."""
    error = ErrorCode(answer.error_code)
    topics = answer.topics
    if error != ErrorCode.NONE and version < GROUP_ERROR_FROM:
        topics = [_without(topic, error) for topic in asked.topics or ()]
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata,
                        partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
