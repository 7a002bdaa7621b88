"""What a broker needs of the rest of the node, in its own words.

Owns: the protocols only. The node hands in what fulfils them.
"""

# The messages are types here and nothing else: a start does not load them.
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage

if TYPE_CHECKING:
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


class MetadataSource(Protocol):
    """Where the committed image comes from."""

    @property
    def image(self) -> ClusterImage:
        """The last committed one."""
        ...

    def subscribe(self, subscriber: Callable[[ClusterDelta, ClusterImage], None]) -> None:
        """Hear of every change after `image`, in order, on the loop, before its reply is given."""
        ...


class ControllerPort(MetadataSource, Protocol):
    """Who decides about metadata. A method returns when what it answers is stored and published."""

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]: ...

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse: ...

    async def delete_topics(self, request: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse: ...

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse: ...

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse: ...

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse: ...

    async def update_features(self, request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse: ...

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse: ...

    # --- brokers and partitions ---

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse: ...

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse: ...

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse: ...

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse: ...

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse: ...

    async def elect_leaders(self, request: ElectLeadersRequest, version: int) -> ElectLeadersResponse: ...

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse: ...

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse: ...

    # --- the quorum ---

    async def describe_quorum(self, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse: ...

    async def add_raft_voter(self, request: AddRaftVoterRequest) -> AddRaftVoterResponse: ...

    async def remove_raft_voter(self, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse: ...
