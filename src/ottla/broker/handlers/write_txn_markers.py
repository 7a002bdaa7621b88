"""WriteTxnMarkers, v1 to v2: ends of transactions from another coordinator, or from an operator who ends one that its
coordinator has forgotten."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.broker.context import Context
from ottla.broker.partitions import Partition
from ottla.broker.transaction_markers import write_marker
from ottla.log.producers import EndMarker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(
    broker: "Broker", request: WriteTxnMarkersRequest, context: Context
) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
    unflushed: list[Partition] = []
    answer = WriteTxnMarkersResponse(markers=[_written(broker, asked, unflushed) for asked in request.markers])
    return _when_flushed(broker, answer, unflushed) if unflushed else answer


async def _when_flushed(
    broker: "Broker", answer: WriteTxnMarkersResponse, unflushed: list[Partition]
) -> WriteTxnMarkersResponse:
    done = broker.loop.create_future()
    broker.flusher.when_flushed(unflushed, done.set_result)
    error = await done
    if error != ErrorCode.NONE:
        for marker in answer.markers:
            for topic in marker.topics:
                for partition in topic.partitions:
                    partition.error_code = partition.error_code or error
    return answer


def _written(broker: "Broker", asked: WritableTxnMarker, unflushed: list[Partition]) -> WritableTxnMarkerResult:
    marker = EndMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    topics = []
    for topic in asked.topics:
        results = []
        for index in topic.partition_indexes:
            outcome = _appended(broker, TopicPartition(topic.name, index), marker)
            if isinstance(outcome, Partition):
                log = outcome.log
                if log is not None and log.unflushed_messages >= log.settings.flush_messages:
                    unflushed.append(outcome)
                results.append(WritableTxnMarkerPartitionResult(index))
            else:
                results.append(WritableTxnMarkerPartitionResult(index, outcome))
        topics.append(WritableTxnMarkerTopicResult(topic.name, results))
    return WritableTxnMarkerResult(asked.producer_id, topics)


def _appended(broker: "Broker", name: TopicPartition, marker: EndMarker) -> Partition | ErrorCode:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        known = isinstance(broker.partitions.find(*name), Partition)
        # As Kafka says it: no batch can be made of that.
        return ErrorCode.UNKNOWN_SERVER_ERROR if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return write_marker(broker, name, marker)
