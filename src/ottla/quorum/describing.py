"""What a quorum says of itself to those who ask.

Owns: the answer to DescribeQuorum. Never knows: how it came to be so.
"""

from ottla.base.errors import ErrorCode
from ottla.raft.machine import Raft
from ottla.raft.progress import ReplicaDescription
from ottla.raft.translation import TOPIC
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)


def describe_quorum(request: DescribeQuorumRequest, raft: Raft, now: float, now_ms: int) -> DescribeQuorumResponse:
    """The leader's answer; any other replica refuses."""
    topics = request.topics
    if (
        len(topics) != 1
        or topics[0].topic_name != TOPIC
        or [one.partition_index for one in topics[0].partitions] != [0]
    ):
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeQuorumResponse(
            topics=[
                ResponseTopicData(
                    topic.topic_name,
                    [ResponsePartitionData(one.partition_index, unknown) for one in topic.partitions],
                )
                for topic in topics
            ]
        )
    found = raft.describe(now)
    if found is None:
        part = ResponsePartitionData(
            0, ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node does not lead the quorum.", raft.leader_id, raft.epoch
        )
        return DescribeQuorumResponse(topics=[ResponseTopicData(TOPIC, [part])])

    def state(seen: ReplicaDescription) -> ReplicaState:
        return ReplicaState(
            seen.key.node_id,
            seen.key.directory_id,
            seen.end_offset,
            _at(seen.since_fetch, now_ms),
            _at(seen.since_caught_up, now_ms),
        )

    part = ResponsePartitionData(
        0,
        ErrorCode.NONE,
        None,
        found.leader_id,
        found.epoch,
        found.high_watermark,
        [state(seen) for seen in found.voters],
        [state(seen) for seen in found.observers],
    )
    nodes = [
        Node(voter.voter_id, [Listener(*endpoint) for endpoint in voter.endpoints]) for voter in raft.voters.voters
    ]
    return DescribeQuorumResponse(error_message=None, topics=[ResponseTopicData(TOPIC, [part])], nodes=nodes)


def _at(ago: float | None, now_ms: int) -> int:
    return -1 if ago is None else now_ms - int(ago * 1000)
