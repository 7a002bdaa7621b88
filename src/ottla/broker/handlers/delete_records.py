"""DeleteRecords, v0 to v2: let a partition begin later. -1 means the high watermark.

Topics that are only compacted refuse (POLICY_VIOLATION): deleting from their start would lose last values.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.context import Context
from ottla.metadata.image import INTERNAL_TOPICS
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

HIGH_WATERMARK = -1


def handle(broker: "Broker", request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(broker, topic.name, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(broker: "Broker", topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = broker.partitions.find(topic, asked.partition_index)
    error, low_watermark = ErrorCode.NONE, -1
    if isinstance(partition, ErrorCode):
        error = partition
    elif topic in INTERNAL_TOPICS:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif partition.log is None:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    elif not partition.log.settings.cleanup_delete:
        error = ErrorCode.POLICY_VIOLATION
    else:
        log = partition.log
        offset = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        error = log.delete_records_before(offset)
        if error == ErrorCode.NONE:
            low_watermark = log.start_offset
            broker.upkeep.sweep([log], broker.clock.now_ms())
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=low_watermark, error_code=error
    )
