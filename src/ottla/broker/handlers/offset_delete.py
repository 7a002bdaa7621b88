"""OffsetDelete, v0: forget offsets of topics that a group is not subscribed to.

KIP-496.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.shard import Answer
from ottla.metadata.image import ClusterImage
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(Lists(("topics", "partitions"), ("topics", "partitions")))
def handle(broker: "Broker", request: OffsetDeleteRequest, context: Context) -> Answer:
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return _refused(shard)
    unknown = _take_out_unknown(broker.image, request)
    decision = shard.machine.decide_offset_delete(request)
    assert isinstance(decision.reply, OffsetDeleteResponse)
    if decision.reply.error_code == ErrorCode.NONE:
        for topic in decision.reply.topics:
            first = unknown.setdefault(topic.name, topic)
            if first is not topic:
                first.partitions = [*first.partitions, *topic.partitions]
        decision.reply.topics = list(unknown.values())
    return shard.carry_out(decision, _refused)


def _take_out_unknown(image: ClusterImage, request: OffsetDeleteRequest) -> dict[str, OffsetDeleteResponseTopic]:
    """Leave in the request the partitions that exist; answers the refusal of the others."""
    unknown: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in request.topics:
        found = image.topics.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        bad = [
            OffsetDeleteResponsePartition(partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for partition in topic.partitions
            if not 0 <= partition.partition_index < count
        ]
        if bad:
            unknown[topic.name] = OffsetDeleteResponseTopic(topic.name, bad)
            topic.partitions = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
    request.topics = [topic for topic in request.topics if topic.partitions]
    return unknown


def _refused(error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error)
