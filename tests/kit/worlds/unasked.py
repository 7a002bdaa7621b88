"""A controller that nobody asks anything: the port as it is, for fakes that answer a few of its questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.features import SUPPORTED
from ottla.metadata.image import ClusterImage
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


def _unasked(request: object) -> NoReturn:
    raise AssertionError(f"nobody expected {type(request).__name__}")


class UnaskedController:
    """Has an image, tells of its changes, and takes every question for a mistake of the test."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.subscribers: list[Callable[[ClusterDelta, ClusterImage], None]] = []

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return SUPPORTED

    def subscribe(self, subscriber: Callable[[ClusterDelta, ClusterImage], None]) -> None:
        self.subscribers.append(subscriber)

    def take(self, *facts: Fact) -> None:
        """These are committed: the image changes, and everybody who follows it is told."""
        delta = ClusterDelta(self.image)
        delta.replay_all(facts)
        self.image = delta.apply(self.image.offset + len(facts), 1)
        for subscriber in self.subscribers:
            subscriber(delta, self.image)

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        _unasked(request)

    async def delete_topics(self, request: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse:
        _unasked(request)

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        _unasked(request)

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        _unasked(request)

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        _unasked(request)

    async def update_features(self, request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
        _unasked(request)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        _unasked(request)

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        _unasked(request)

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        _unasked(request)

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        _unasked(request)

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        _unasked(request)

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        _unasked(request)

    async def elect_leaders(self, request: ElectLeadersRequest, version: int) -> ElectLeadersResponse:
        _unasked(request)

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        _unasked(request)

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        _unasked(request)

    async def describe_quorum(self, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
        _unasked(request)

    async def add_raft_voter(self, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
        _unasked(request)

    async def remove_raft_voter(self, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
        _unasked(request)
