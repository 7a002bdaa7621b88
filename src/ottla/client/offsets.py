"""Offsets by time: where a partition begins and ends, and which record a moment falls on.

Owns: the ListOffsets exchange with the leaders. Never knows: who asks and what for.
Invariant: every partition asked for has an answer, an offset or an error.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.base.errors import RETRIABLE, ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError, ClientError, known_code
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""Instead of a time in milliseconds: the end, the beginning, the record with the largest timestamp."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class FoundOffset(NamedTuple):
    """Offset -1 without an error: the partition has no such record."""

    offset: int
    timestamp: int
    leader_epoch: int
    error: ErrorCode = ErrorCode.NONE


async def find_offsets(
    cluster: Cluster,
    moments: Mapping[TopicPartition, int],
    deadline: float,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, FoundOffset]:
    """The first offset at or after each moment (milliseconds, or one of the names above)."""
    found: dict[TopicPartition, FoundOffset] = {}
    missing = dict(moments)

    async def ask_for_missing() -> None:
        by_node = await _by_leader(cluster, missing, deadline)
        requests = (ask_offsets(cluster, node, part, deadline, isolation) for node, part in by_node.items())
        for answers in await asyncio.gather(*requests):
            for partition, answer in answers.items():
                found[partition] = answer
                if answer.error in RETRIABLE:
                    cluster.forget(partition.topic)
                else:
                    missing.pop(partition, None)
        for partition in missing:
            raise BrokerError(found[partition].error, f"partition {partition}")

    try:
        await cluster.retry(ask_for_missing, deadline)
    except BrokerError:
        if any(partition not in found for partition in moments):
            raise  # a partition without leader or topic: there is no answer to give for it
    return {partition: found[partition] for partition in moments}


def raise_errors(found: Mapping[TopicPartition, FoundOffset]) -> None:
    """For callers that need every answer."""
    for partition, answer in found.items():
        if answer.error:
            raise BrokerError(answer.error, f"partition {partition}")


async def _by_leader(
    cluster: Cluster, moments: Mapping[TopicPartition, int], deadline: float
) -> dict[int, dict[TopicPartition, int]]:
    by_node: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for partition, moment in moments.items():
        by_node[(await cluster.leader(partition, deadline)).leader][partition] = moment
    return by_node


async def ask_offsets(
    cluster: Cluster, node: int, moments: Mapping[TopicPartition, int], deadline: float, isolation: int
) -> dict[TopicPartition, FoundOffset]:
    """One question to one broker, about partitions that it leads; tried once."""
    topics = [
        ListOffsetsTopic(
            name, [ListOffsetsPartition(partition_index=number, timestamp=moment) for number, moment in rows]
        )
        for name, rows in _by_topic(moments.items())
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=30_000)
    try:
        answer = await cluster.ask_node(node, request, ListOffsetsResponse, deadline)
    except ClientError:
        for partition in moments:
            cluster.forget(partition.topic)
        raise
    return {
        TopicPartition(topic.name, part.partition_index): FoundOffset(
            part.offset, part.timestamp, part.leader_epoch, known_code(part.error_code)
        )
        for topic in answer.topics
        for part in topic.partitions
    }


def _by_topic(moments: Iterable[tuple[TopicPartition, int]]) -> list[tuple[str, list[tuple[int, int]]]]:
    grouped: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, moment in moments:
        grouped[partition.topic].append((partition.partition, moment))
    return list(grouped.items())
