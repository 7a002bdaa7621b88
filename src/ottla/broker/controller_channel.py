"""A broker's way to whoever is the controller: the one in this process, or another node's over a link.

Owns: finding the active controller, and asking again when it changed meanwhile. Never knows: what is asked.
Invariants: every question ends by its deadline, with an answer or `ControllerUnavailable`; an answer that says
NOT_CONTROLLER is never given to the asker.
"""

# Messages of eighteen APIs, most of which a start does not need: their modules are loaded with the first request.
from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.base.errors import ErrorCode
from ottla.broker.ports import MetadataSource
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.features import SUPPORTED
from ottla.metadata.image import ClusterImage
from ottla.wire.links import Link, LinkDown, Links
from ottla.wire.schema import LATEST, Root

if TYPE_CHECKING:
    from ottla.wire.messages import (
        add_raft_voter,
        allocate_producer_ids,
        alter_configs,
        alter_partition,
        alter_partition_reassignments,
        assign_replicas_to_dirs,
        broker_heartbeat,
        broker_registration,
        create_partitions,
        create_topics,
        delete_topics,
        describe_quorum,
        elect_leaders,
        incremental_alter_configs,
        list_partition_reassignments,
        remove_raft_voter,
        unregister_broker,
        update_features,
    )

ASK_SECONDS = 30.0
"""How long a client's question may look for a controller."""
LOOK_SECONDS = 0.25
"""How often a question that waits looks whether another node leads by now."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
_ELSEWHERE = (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class ControllerUnavailable(LinkDown):
    """No controller answered in time."""


class LocalQuorum(Protocol):
    """What a broker knows of the quorum of its own node."""

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """Where the active controller listens."""
        ...

    async def handle(self, request: Root, version: int) -> Root: ...


class ControllerChannel:
    """The broker's controller, wherever it is; see `broker.ports.Controller`."""

    supported_features: Mapping[str, tuple[int, int]] = SUPPORTED

    def __init__(self, source: MetadataSource, quorum: LocalQuorum, links: Links, local: Any = None) -> None:
        self._source = source
        self._quorum = quorum
        self._links = links
        self._local = local
        self._address: tuple[str, int] | None = None
        self._link: Link | None = None

    # --- the image ---

    @property
    def image(self) -> ClusterImage:
        return self._source.image

    def subscribe(self, subscriber: Callable[[ClusterDelta, ClusterImage], None]) -> None:
        self._source.subscribe(subscriber)

    # --- asking ---

    async def _ask(self, method: str, request: Root, version: int | None = None) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ASK_SECONDS
        pause = FIRST_PAUSE
        problem = "no controller is known"
        while True:
            try:
                found = await self._ask_once(method, request, version, deadline - loop.time())
                if found is not None:
                    return found
            except LinkDown as down:
                problem = str(down)
            left = deadline - loop.time()
            if left <= 0:
                raise ControllerUnavailable(f"no controller answered within {ASK_SECONDS:g} s: {problem}")
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _ask_once(self, method: str, request: Root, version: int | None, seconds: float) -> Root | None:
        """The answer, or None where nobody is the controller now."""
        found: Root
        if self._local is not None and self._local.active:
            ask: Callable[..., Awaitable[Root]] = getattr(self._local, method)
            found = await (ask(request) if version is None else ask(request, version))
        else:
            address = self._quorum.leader_address
            if address is None:
                return None
            if self._link is None or self._address != address:
                self.close()
                self._address, self._link = address, self._links.link(*address)
            found = await self._ask_over(self._link, address, request, version, seconds)
        return None if _not_controller(found) else found

    async def _ask_over(
        self, link: Link, address: tuple[str, int], request: Root, version: int | None, seconds: float
    ) -> Root:
        """A controller that was paused or cut off may never answer: once another one leads, it is given up."""
        highest = LATEST if version is None else version
        asking = asyncio.ensure_future(link.ask(request, _answer_class(request), seconds, highest=highest))
        try:
            while not asking.done():
                await asyncio.wait((asking,), timeout=LOOK_SECONDS)
                if not asking.done() and self._quorum.leader_address not in (address, None):
                    link.close()
                    raise LinkDown("another controller leads now")
            return asking.result()
        finally:
            asking.cancel()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    # --- topics, settings, features, producer ids ---

    def create_topics(
        self, request: create_topics.CreateTopicsRequest
    ) -> Coroutine[Any, Any, create_topics.CreateTopicsResponse]:
        return self._ask("create_topics", request)

    def delete_topics(
        self, request: delete_topics.DeleteTopicsRequest, version: int
    ) -> Coroutine[Any, Any, delete_topics.DeleteTopicsResponse]:
        return self._ask("delete_topics", request, version)

    def create_partitions(
        self, request: create_partitions.CreatePartitionsRequest
    ) -> Coroutine[Any, Any, create_partitions.CreatePartitionsResponse]:
        return self._ask("create_partitions", request)

    def alter_configs(
        self, request: alter_configs.AlterConfigsRequest
    ) -> Coroutine[Any, Any, alter_configs.AlterConfigsResponse]:
        return self._ask("alter_configs", request)

    def incremental_alter_configs(
        self, request: incremental_alter_configs.IncrementalAlterConfigsRequest
    ) -> Coroutine[Any, Any, incremental_alter_configs.IncrementalAlterConfigsResponse]:
        return self._ask("incremental_alter_configs", request)

    def update_features(
        self, request: update_features.UpdateFeaturesRequest, version: int
    ) -> Coroutine[Any, Any, update_features.UpdateFeaturesResponse]:
        return self._ask("update_features", request, version)

    def allocate_producer_ids(
        self, request: allocate_producer_ids.AllocateProducerIdsRequest
    ) -> Coroutine[Any, Any, allocate_producer_ids.AllocateProducerIdsResponse]:
        return self._ask("allocate_producer_ids", request)

    # --- brokers and partitions ---

    def register_broker(
        self, request: broker_registration.BrokerRegistrationRequest
    ) -> Coroutine[Any, Any, broker_registration.BrokerRegistrationResponse]:
        return self._ask("register_broker", request)

    def broker_heartbeat(
        self, request: broker_heartbeat.BrokerHeartbeatRequest
    ) -> Coroutine[Any, Any, broker_heartbeat.BrokerHeartbeatResponse]:
        return self._ask("broker_heartbeat", request)

    def unregister_broker(
        self, request: unregister_broker.UnregisterBrokerRequest
    ) -> Coroutine[Any, Any, unregister_broker.UnregisterBrokerResponse]:
        return self._ask("unregister_broker", request)

    def alter_partition(
        self, request: alter_partition.AlterPartitionRequest, version: int
    ) -> Coroutine[Any, Any, alter_partition.AlterPartitionResponse]:
        return self._ask("alter_partition", request, version)

    def assign_replicas_to_dirs(
        self, request: assign_replicas_to_dirs.AssignReplicasToDirsRequest
    ) -> Coroutine[Any, Any, assign_replicas_to_dirs.AssignReplicasToDirsResponse]:
        return self._ask("assign_replicas_to_dirs", request)

    def elect_leaders(
        self, request: elect_leaders.ElectLeadersRequest, version: int
    ) -> Coroutine[Any, Any, elect_leaders.ElectLeadersResponse]:
        return self._ask("elect_leaders", request, version)

    def alter_partition_reassignments(
        self, request: alter_partition_reassignments.AlterPartitionReassignmentsRequest
    ) -> Coroutine[Any, Any, alter_partition_reassignments.AlterPartitionReassignmentsResponse]:
        return self._ask("alter_partition_reassignments", request)

    def list_partition_reassignments(
        self, request: list_partition_reassignments.ListPartitionReassignmentsRequest
    ) -> Coroutine[Any, Any, list_partition_reassignments.ListPartitionReassignmentsResponse]:
        return self._ask("list_partition_reassignments", request)

    # --- the quorum ---

    def describe_quorum(
        self, request: describe_quorum.DescribeQuorumRequest, version: int
    ) -> Coroutine[Any, Any, describe_quorum.DescribeQuorumResponse]:
        return self._ask_quorum(request, version)

    def add_raft_voter(
        self, request: add_raft_voter.AddRaftVoterRequest
    ) -> Coroutine[Any, Any, add_raft_voter.AddRaftVoterResponse]:
        return self._ask_quorum(request)

    def remove_raft_voter(
        self, request: remove_raft_voter.RemoveRaftVoterRequest
    ) -> Coroutine[Any, Any, remove_raft_voter.RemoveRaftVoterResponse]:
        return self._ask_quorum(request)

    async def _ask_quorum(self, request: Root, version: int | None = None) -> Any:
        if self._local is not None and self._local.active:
            newest = request.VERSIONS[1]
            return await self._quorum.handle(request, newest if version is None else min(version, newest))
        return await self._ask("", request, version)


def _answer_class(request: Root) -> type[Root]:
    """The response beside a request's own class, in the same module."""
    kind = type(request)
    found = getattr(sys.modules[kind.__module__], kind.__name__.removesuffix("Request") + "Response")
    return cast("type[Root]", found)


def _not_controller(answer: Root) -> bool:
    """Whether an answer, or the first of its parts, says that another node is the controller."""
    if getattr(answer, "error_code", ErrorCode.NONE) in _ELSEWHERE:
        return True
    for name in answer.__slots__:
        parts = getattr(answer, name)
        if isinstance(parts, Sequence) and parts and not isinstance(parts, str | bytes):
            return getattr(parts[0], "error_code", ErrorCode.NONE) in _ELSEWHERE
    return False
