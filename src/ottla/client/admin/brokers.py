"""What an operator does to the brokers of a cluster: see who is there, elect leaders, move replicas.

Owns: the requests about brokers, quorum, leaders and reassignments, their retries, and results as plain values. Never
knows: who shows them; topics and settings (`admin.topics`). Invariants: those of `admin.topics`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.admin.part import Outcome, Part, by_topic
from ottla.client.admin.topics import Resource, ResourceKind, TopicAdmin
from ottla.client.errors import BrokerError, ClientError, known_code
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

METADATA_TOPIC = "__cluster_metadata"
PREFERRED, UNCLEAN = 0, 1
LEADER_THROTTLED = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


class BrokerState(NamedTuple):
    """A broker that is registered; one that is fenced takes no part until it reports again."""

    node_id: int
    address: Address
    rack: str | None
    fenced: bool


class ClusterState(NamedTuple):
    """Who is in the cluster; controller -1 when none is known."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerState, ...]


class QuorumReplica(NamedTuple):
    """A node that keeps the metadata log; times are milliseconds since 1970, -1 when unknown."""

    node_id: int
    directory_id: bytes
    end_offset: int
    last_fetch: int
    last_caught_up: int


class Quorum(NamedTuple):
    """The nodes that keep the metadata log: those that vote for its leader, and those that only read."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    listeners: Mapping[int, Mapping[str, Address]] = {}
    """Where voters listen, by node and name of the listener, where the cluster tells."""

    def lag(self, replica: QuorumReplica) -> int:
        """Records the replica has not got, as far as the leader knows."""
        ends = [each.end_offset for each in self.voters if each.node_id == self.leader_id]
        return max(0, max(ends, default=self.high_watermark) - replica.end_offset)


class Reassignment(NamedTuple):
    """A partition that is being moved: all its replicas now, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class BrokerAdmin(Part):
    """Brokers, the quorum, leaders, moves and their throttles."""

    # --- who is there -------------------------------------------------------------------------------------------------

    async def describe_cluster(self, seconds: float | None = None) -> ClusterState:
        """The brokers, also fenced ones where the cluster tells of them, by number."""
        deadline = self._deadline(seconds)

        async def ask() -> ClusterState:
            request = DescribeClusterRequest(include_fenced_brokers=True)
            answer = await self._cluster.ask_any(request, DescribeClusterResponse, deadline)
            if answer.error_code:
                raise BrokerError(answer.error_code, "the cluster", answer.error_message)
            brokers = sorted(
                BrokerState(entry.broker_id, Address(entry.host, entry.port), entry.rack, entry.is_fenced)
                for entry in answer.brokers
            )
            return ClusterState(answer.cluster_id, answer.controller_id, tuple(brokers))

        return await self._cluster.retry(ask, deadline)

    async def describe_quorum(self, seconds: float | None = None) -> Quorum:
        """The metadata quorum as its leader sees it."""
        deadline = self._deadline(seconds)
        request = DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])])

        async def ask() -> Quorum:
            answer = await self._cluster.ask_any(request, DescribeQuorumResponse, deadline)
            if answer.error_code:
                raise BrokerError(answer.error_code, "the metadata quorum", answer.error_message or None)
            (partition,) = (partition for topic in answer.topics for partition in topic.partitions)
            if partition.error_code:
                raise BrokerError(partition.error_code, "the metadata quorum", partition.error_message or None)
            return Quorum(
                partition.leader_id,
                partition.leader_epoch,
                partition.high_watermark,
                _quorum_replicas(partition.current_voters),
                _quorum_replicas(partition.observers),
                {node.node_id: {each.name: Address(each.host, each.port) for each in node.listeners}
                 for node in answer.nodes},
            )  # fmt: skip

        return await self._cluster.retry(ask, deadline)

    # --- leaders ------------------------------------------------------------------------------------------------------

    async def elect_leaders(
        self,
        partitions: Collection[TopicPartition] | None = None,
        seconds: float | None = None,
        *,
        unclean: bool = False,
    ) -> dict[TopicPartition, Outcome]:
        """Let the first replica lead, or with `unclean` any that lives where no other is left; None: everywhere.

        A partition that needs no election answers ELECTION_NOT_NEEDED, or not at all when none was named.
        """
        deadline = self._deadline(seconds)
        named = None if partitions is None else [TopicPartitions(*each) for each in by_topic(partitions).items()]
        request = ElectLeadersRequest(UNCLEAN if unclean else PREFERRED, named, self._milliseconds(seconds))

        async def ask() -> dict[TopicPartition, Outcome]:
            answer = await self._cluster.ask_controller(request, ElectLeadersResponse, deadline)
            error = known_code(answer.error_code)
            self._require_controller([error])
            if error:
                raise BrokerError(error, "the election of leaders")
            outcomes = {
                TopicPartition(topic.topic, part.partition_id): Outcome(
                    known_code(part.error_code), part.error_message or None
                )
                for topic in answer.replica_election_results
                for part in topic.partition_result
            }
            self._require_controller(outcome.error for outcome in outcomes.values())
            return outcomes

        outcomes = await self._cluster.retry(ask, deadline)
        self._forget(outcomes)
        return outcomes

    # --- replicas -----------------------------------------------------------------------------------------------------

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], seconds: float | None = None
    ) -> dict[TopicPartition, Outcome]:
        """Begin to move partitions to these brokers, the first of which is to lead; None cancels a move under way."""
        deadline = self._deadline(seconds)
        topics = [
            ReassignableTopic(
                topic, [ReassignablePartition(number, targets[TopicPartition(topic, number)]) for number in numbers]
            )
            for topic, numbers in by_topic(targets).items()
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=self._milliseconds(seconds), topics=topics)

        async def ask() -> dict[TopicPartition, Outcome]:
            answer = await self._cluster.ask_controller(request, AlterPartitionReassignmentsResponse, deadline)
            error = known_code(answer.error_code)
            self._require_controller([error])
            if error:
                raise BrokerError(error, "the reassignment", answer.error_message or None)
            outcomes = {
                TopicPartition(topic.name, part.partition_index): Outcome(
                    known_code(part.error_code), part.error_message or None
                )
                for topic in answer.responses
                for part in topic.partitions
            }
            self._require_controller(outcome.error for outcome in outcomes.values())
            return outcomes

        outcomes = await self._cluster.retry(ask, deadline)
        self._forget(outcomes)
        return outcomes

    async def reassignments(
        self, partitions: Collection[TopicPartition] | None = None, seconds: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves under way, of these partitions or of all."""
        deadline = self._deadline(seconds)
        named = None
        if partitions is not None:
            named = [ListPartitionReassignmentsTopics(*each) for each in by_topic(partitions).items()]
        request = ListPartitionReassignmentsRequest(self._milliseconds(seconds), named)

        async def ask() -> dict[TopicPartition, Reassignment]:
            answer = await self._cluster.ask_controller(request, ListPartitionReassignmentsResponse, deadline)
            error = known_code(answer.error_code)
            self._require_controller([error])
            if error:
                raise BrokerError(error, "the reassignments", answer.error_message or None)
            return {
                TopicPartition(topic.name, part.partition_index): Reassignment(
                    tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
                )
                for topic in answer.topics
                for part in topic.partitions
            }

        return await self._cluster.retry(ask, deadline)

    async def replica_sizes(self, seconds: float | None = None) -> dict[int, dict[TopicPartition, int]]:
        """Bytes on disk of every replica, by broker; a broker that does not answer is left out."""
        deadline = self._deadline(seconds)
        nodes = list(self._cluster.brokers)
        answers = await asyncio.gather(*(self._directories(node, deadline) for node in nodes))
        return {node: sizes for node, sizes in zip(nodes, answers, strict=True) if sizes is not None}

    async def _directories(self, node: int, deadline: float) -> dict[TopicPartition, int] | None:
        try:
            answer = await self._cluster.ask_node(
                node, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, deadline
            )
        except ClientError:
            return None
        if answer.error_code:
            raise BrokerError(answer.error_code, f"the log directories of broker {node}")
        return {
            TopicPartition(topic.name, part.partition_index): part.partition_size
            for directory in answer.results
            for topic in directory.topics
            for part in topic.partitions
            if not part.is_future_key
        }

    # --- throttles ----------------------------------------------------------------------------------------------------

    async def throttle(
        self,
        moves: Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]],
        rate: int,
        seconds: float | None = None,
    ) -> None:
        """Bound the bytes a second that each broker sends and receives for moves: partition → (from, to)."""
        leaders: dict[str, list[str]] = defaultdict(list)
        followers: dict[str, list[str]] = defaultdict(list)
        brokers: set[int] = set()
        for partition, (sources, targets) in moves.items():
            leaders[partition.topic] += [f"{partition.partition}:{broker}" for broker in sources]
            followers[partition.topic] += [f"{partition.partition}:{broker}" for broker in targets]
            brokers.update(sources, targets)
        for topic in leaders:
            settings = {LEADER_THROTTLED: ",".join(leaders[topic]), FOLLOWER_THROTTLED: ",".join(followers[topic])}
            await self._set(Resource(ResourceKind.TOPIC, topic), settings, (), seconds)
        for broker in sorted(brokers):
            rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
            await self._set(Resource(ResourceKind.BROKER, str(broker)), rates, (), seconds)

    async def unthrottle(self, topics: Iterable[str], brokers: Iterable[int], seconds: float | None = None) -> None:
        """Take the bounds of moves away again."""
        for topic in topics:
            await self._set(Resource(ResourceKind.TOPIC, topic), {}, (LEADER_THROTTLED, FOLLOWER_THROTTLED), seconds)
        for broker in brokers:
            await self._set(Resource(ResourceKind.BROKER, str(broker)), {}, (LEADER_RATE, FOLLOWER_RATE), seconds)

    async def _set(
        self, resource: Resource, settings: Mapping[str, str], remove: Iterable[str], seconds: float | None
    ) -> None:
        outcome = await TopicAdmin(self._cluster, self._default_seconds).alter_configs(
            resource, settings, remove, seconds
        )
        if outcome.error and outcome.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise BrokerError(outcome.error, f"the throttle of {resource.kind.name.lower()} {resource.name}",
                              outcome.message)  # fmt: skip


def _quorum_replicas(states: Iterable[ReplicaState]) -> tuple[QuorumReplica, ...]:
    return tuple(
        sorted(
            QuorumReplica(
                state.replica_id,
                state.replica_directory_id,
                state.log_end_offset,
                state.last_fetch_timestamp,
                state.last_caught_up_timestamp,
            )
            for state in states
        )
    )
