"""DeleteRecords, v0 to v2: let a partition begin later. -1 means the high watermark.

The answer waits until every living replica begins there, at most as long as the client allows. What lies below is no
longer told; the files go when retention looks the next time, by its own rules. Topics that are only
compacted refuse (POLICY_VIOLATION): deleting from their start would lose last values.

KIP-107.
"""

from asyncio import Future
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.metadata.image import INTERNAL_TOPICS
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.replicas.partitions import Partition
from ottla.wire.lists import Lists
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


@in_portions(Lists(("topics", "partitions"), ("topics", "partitions")))
async def handle(broker: "Broker", request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    waits: list[_Deletion] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name, partitions=[_delete(broker, topic.name, asked, waits) for asked in topic.partitions]
        )
        for topic in request.topics
    ]
    for wait in waits:
        broker.waiting.park(wait, [wait.partition.starts], request.timeout_ms / 1000)
    for wait in waits:
        await wait.over
    return DeleteRecordsResponse(topics=topics)


class _Deletion:
    """Waits until the followers of a partition begin where its leader begins."""

    def __init__(self, broker: "Broker", partition: Partition, result: DeleteRecordsPartitionResult) -> None:
        self._broker = broker
        self.partition = partition
        self._result = result
        self._wanted = result.low_watermark
        self.over: Future[None] = broker.loop.create_future()

    def nudged(self, key: Hashable) -> bool:
        if not self.partition.leads or self.partition.log is None:
            self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return True
        low = self.partition.low_watermark(self._broker.image.brokers)
        if low < self._wanted:
            return False
        self._end(ErrorCode.NONE, low)
        return True

    def expired(self) -> None:
        if not self.nudged(self.partition.starts):
            self._end(ErrorCode.REQUEST_TIMED_OUT, self.partition.low_watermark(self._broker.image.brokers))

    def failed(self) -> None:
        self._end(ErrorCode.UNKNOWN_SERVER_ERROR, -1)

    def _end(self, error: ErrorCode, low_watermark: int) -> None:
        self._result.error_code, self._result.low_watermark = error, low_watermark
        if not self.over.done():
            self.over.set_result(None)


def _delete(
    broker: "Broker", topic: str, asked: DeleteRecordsPartition, waits: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    partition = broker.partitions.find(topic, asked.partition_index)
    if isinstance(partition, ErrorCode):
        result.error_code = partition
    elif topic in INTERNAL_TOPICS:
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif partition.log is None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    elif not partition.log.settings.cleanup_delete:
        result.error_code = ErrorCode.POLICY_VIOLATION
    else:
        log = partition.log
        offset = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        result.error_code = log.delete_records_before(offset)
        if result.error_code == ErrorCode.NONE:
            result.low_watermark = log.start_offset
            if partition.leading is not None and partition.low_watermark(broker.image.brokers) < result.low_watermark:
                waits.append(_Deletion(broker, partition, result))
                # Followers that wait for records hear of the new start now.
                partition.mark_dirty()
    return result
