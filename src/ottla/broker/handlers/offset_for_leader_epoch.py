"""OffsetForLeaderEpoch, v2 to v4: where an epoch ends in the log, so that a reader can tell that its history was
truncated.

KIP-101; KIP-279 (v1: the epoch found), KIP-320 (v2: clients ask too, the leader's epoch fences).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(Lists(("topics", "partitions"), ("topics", "partitions")))
def handle(broker: "Broker", request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(broker, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(broker: "Broker", topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.partitions.find(topic, asked.partition)
    error = partition if isinstance(partition, ErrorCode) else partition.fence(asked.current_leader_epoch)
    if isinstance(partition, ErrorCode) or error != ErrorCode.NONE:
        return EpochEndOffset(error_code=error, partition=asked.partition)
    if partition.log is None:
        return EpochEndOffset(error_code=ErrorCode.KAFKA_STORAGE_ERROR, partition=asked.partition)
    if asked.leader_epoch == partition.leader_epoch:
        epoch, end_offset = asked.leader_epoch, partition.log.end_offset
    else:
        epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch) or (-1, -1)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
