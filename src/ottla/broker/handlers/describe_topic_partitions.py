"""DescribeTopicPartitions, v0: topics in the order of their names, cut where the limit of partitions is reached.

The cursor in the answer says where to go on. Without authorization every operation on a topic is allowed. The answer is
made in steps, between which other requests get their turn; all of it shows the cluster at the same moment.

KIP-966.
"""

from heapq import merge
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.metadata.image import TopicImage
from ottla.metadata.names import topic_name_problem
from ottla.net.dispatch import Context
from ottla.net.portions import in_turns
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

AT_ONCE = 250
"""Partitions described before other requests get their turn: about a millisecond."""
ALL_TOPIC_OPERATIONS = 3576
"""One bit for each operation on a topic."""


async def handle(
    broker: "Broker", request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    image = broker.image
    cursor = request.cursor
    asked: set[str] = set()
    async for some in in_turns(broker, request.topics):
        asked.update(topic.name for topic in some)
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        refused: list[DescribeTopicPartitionsResponseTopic] = []
        async for some in in_turns(broker, request.topics):
            refused += (DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, topic.name) for topic in some)
        return DescribeTopicPartitionsResponse(topics=refused)
    first = "" if cursor is None else cursor.topic_name
    sorted_parts = [
        sorted(name for name in names if name >= first) async for names in in_turns(broker, list(asked or image.topics))
    ]
    most = broker.values.integer("max.request.partition.size.limit")
    room = max(min(most, request.response_partition_limit), 1)
    live = {each.id for each in image.brokers.values() if not each.fenced}
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    described = 0
    for name in merge(*sorted_parts):
        if room == 0:
            return _answer(topics, ResponseCursor(topic_name=name, partition_index=0))
        if described >= AT_ONCE:
            described = 0
            await broker.dispatcher.turn()
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_unknown(name))
            described += 1
            continue
        start = cursor.partition_index if cursor is not None and name == first else 0
        end = min(start + room, len(topic.partitions))
        topics.append(await _described(broker, topic, start, end, live))
        described += max(end - start, 1)
        if end < len(topic.partitions):
            return _answer(topics, ResponseCursor(topic_name=name, partition_index=end))
        room -= max(end - start, 0)
    return _answer(topics, None)


def _answer(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: ResponseCursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    invalid = topic_name_problem(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error, name=name, topic_authorized_operations=ALL_TOPIC_OPERATIONS
    )


async def _described(
    broker: "Broker", topic: TopicImage, start: int, end: int, live: set[int]
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for number in range(start, end):
        if number % AT_ONCE == AT_ONCE - 1:
            await broker.dispatcher.turn()
        partition = topic.partitions[number]
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE if partition.leader in live else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=number,
                leader_id=partition.leader if partition.leader in live else -1,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.in_sync,
                eligible_leader_replicas=partition.eligible,
                last_known_elr=partition.last_known,
                offline_replicas=[replica for replica in partition.replicas if replica not in live],
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )
