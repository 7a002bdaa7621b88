"""WriteTxnMarkers, v1 to v2: ends of transactions from another coordinator, or from an operator who ends one that its
coordinator has forgotten.

KIP-98; KIP-664 (hanging transactions), KIP-1228 (v2: transaction version).
"""

import asyncio
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.markers import write_marker
from ottla.log.producers import EndMarker
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.replicas.partitions import Partition
from ottla.wire.lists import Lists
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


@in_portions(Lists(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")))
def handle(
    broker: "Broker", request: WriteTxnMarkersRequest, context: Context
) -> "WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]":
    places: list[tuple[Partition, int]] = []
    answer = WriteTxnMarkersResponse(markers=[_written(broker, asked, places) for asked in request.markers])
    waiting: asyncio.Future[WriteTxnMarkersResponse] = broker.loop.create_future()

    def safe(error: ErrorCode) -> None:
        if error != ErrorCode.NONE:
            _spoil(answer, error)
        waiting.set_result(answer)

    broker.replicas.commits.when_safe(places, safe, broker.values.integer("request.timeout.ms") / 1000)
    return answer if waiting.done() else waiting


def _spoil(answer: WriteTxnMarkersResponse, error: ErrorCode) -> None:
    """What is written is not safe: whoever sent it sends it again."""
    for marker in answer.markers:
        for topic in marker.topics:
            for partition in topic.partitions:
                partition.error_code = partition.error_code or error


def _written(
    broker: "Broker", asked: WritableTxnMarker, places: list[tuple[Partition, int]]
) -> WritableTxnMarkerResult:
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
                assert outcome.log is not None, outcome
                places.append((outcome, outcome.log.end_offset))
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
    return write_marker(broker.transactions, name, marker)
