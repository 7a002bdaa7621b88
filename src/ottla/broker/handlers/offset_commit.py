"""OffsetCommit, v2 to v10: keep how far a group has come. Offsets of partitions that are not there are refused one by
one; from v10 on topics are named by their ids.

KIP-211 (v5: no time of retention), KIP-320 (v6: leader epochs), KIP-345 (v7: static members), KIP-848 (v9: the consumer
protocol, v10: topic ids).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.shard import Answer
from ottla.groups.offsets import commit_refused
from ottla.metadata.image import ClusterImage
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

BY_ID_FROM = 10
AT_ONCE = 500
"""Partitions whose offsets are committed together; beyond that other requests get their turn in between."""


@in_portions(Lists(("topics", "partitions"), ("topics", "partitions")), at_once=AT_ONCE)
def handle(broker: "Broker", request: OffsetCommitRequest, context: Context) -> Answer:
    by_id = context.version >= BY_ID_FROM
    unknown = [
        refused for topic in request.topics if (refused := _take_out_unknown(broker.image, topic, by_id)) is not None
    ]
    if unknown:
        request.topics = [topic for topic in request.topics if topic.partitions]
        if not request.topics:
            return OffsetCommitResponse(topics=unknown)
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return _merged(unknown, commit_refused(request, shard))
    decision = shard.machine.decide_commit(request, context.version, shard.now())
    if unknown:
        assert isinstance(decision.reply, OffsetCommitResponse)
        _merged(unknown, decision.reply)
    return shard.carry_out(decision, lambda error: _merged(unknown, commit_refused(request, error)))


def _merged(unknown: list[OffsetCommitResponseTopic], answer: OffsetCommitResponse) -> OffsetCommitResponse:
    """Put the refused partitions in front, those of a topic together."""
    topics = {(topic.name, topic.topic_id): topic for topic in unknown}
    for topic in answer.topics:
        first = topics.setdefault((topic.name, topic.topic_id), topic)
        if first is not topic:
            first.partitions = [*first.partitions, *topic.partitions]
    answer.topics = list(topics.values())
    return answer


def _take_out_unknown(
    image: ClusterImage, topic: OffsetCommitRequestTopic, by_id: bool
) -> OffsetCommitResponseTopic | None:
    """Complete the topic's name and id and leave in it the partitions that exist; answers the refusal of the others."""
    found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
    if found is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bad, topic.partitions = topic.partitions, ()
    else:
        topic.name, topic.topic_id = found.name, found.topic_id
        count = len(found.partitions)
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                break
        else:
            return None
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bad = [partition for partition in topic.partitions if not 0 <= partition.partition_index < count]
        topic.partitions = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
    refused = [OffsetCommitResponsePartition(partition.partition_index, error) for partition in bad]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, refused)
