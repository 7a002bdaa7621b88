"""Questions to whoever leads a partition.

Owns: who is asked, in which words the topic is named, and that a leader which does not answer is not asked again before
the cluster has said who leads now. Never knows: what is asked, and why. Invariant: one attempt; repeating is the
caller's.
"""

from collections.abc import Callable
from typing import TypeVar

from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError, ClientError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)

_LAST_WITH_NAMES = 12
"""From the next version on Produce and Fetch name topics by id."""
_FETCH_BYTES = 1024 * 1024


async def ask_leader(
    cluster: Cluster, partition: TopicPartition, request: Callable[[bytes], Root], answer: type[R], deadline: float
) -> R:
    """The answer to a request that is made for the topic's id."""
    leader = await cluster.leader(partition, deadline)
    topic_id = cluster.topics[partition.topic].topic_id
    highest = _LAST_WITH_NAMES if topic_id == NO_TOPIC_ID else LATEST
    try:
        return await cluster.ask_node(
            leader.leader,
            request(topic_id),
            answer,
            min(deadline, cluster.deadline(cluster.settings.request_seconds)),
            highest=highest,
        )
    except ClientError:
        cluster.forget(partition.topic)
        raise


async def fetch(cluster: Cluster, partition: TopicPartition, position: int, deadline: float) -> PartitionData:
    """What lies at a position, after half a second at most where nothing does."""
    row = FetchPartition(partition=partition.partition, fetch_offset=position, partition_max_bytes=_FETCH_BYTES)
    answer = await ask_leader(
        cluster,
        partition,
        lambda topic_id: FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[FetchTopic(partition.topic, topic_id, [row])]
        ),
        FetchResponse,
        deadline,
    )
    part = answer.responses[0].partitions[0] if answer.responses else PartitionData()
    if answer.error_code or part.error_code:
        cluster.forget(partition.topic)
        raise BrokerError(answer.error_code or part.error_code, f"partition {partition}")
    return part
