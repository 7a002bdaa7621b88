"""DescribeProducers, v0: the producers a partition remembers.

KIP-664.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.log.producers import ProducerState
from ottla.metadata.names import topic_name_problem
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from ottla.wire.messages.describe_producers import (
    ProducerState as DescribedProducer,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@in_portions(Lists(("topics", "partition_indexes"), ("topics", "partitions")))
def handle(broker: "Broker", request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_answer(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    problem = topic_name_problem(topic)
    if problem is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return PartitionResponse(partition_index=index, error_code=error, error_message=problem)
    partition = broker.partitions.find(topic, index)
    if isinstance(partition, ErrorCode):
        # As Kafka: words when there is no such topic, the bare code when it has no such partition.
        known = topic in broker.partitions.by_name
        message = None if known else "This server does not host this topic-partition."
        return PartitionResponse(partition_index=index, error_code=partition, error_message=message)
    if partition.log is None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionResponse(
        partition_index=index, active_producers=[_described(state) for state in partition.log.producers.states()]
    )


def _described(state: ProducerState) -> DescribedProducer:
    return DescribedProducer(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.transaction_first_offset,
    )
