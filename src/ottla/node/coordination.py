"""ZooKeeper in a node: how the broker's and the controller's ways lead there.

Owns: the broker's registration in ZooKeeper beside the one at the controller, and what becomes of requests that other
programs place in the tree. Never knows: how the tree is kept (`zookeeper`), how anything is decided (`controller`).
Invariants: a broker whose session ended registers anew before its next heartbeat; a request from the tree goes the way
of any client's.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Disk
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.broker.broker import Broker
from ottla.broker.controller_channel import ControllerChannel, ControllerUnavailable
from ottla.controller.controller import Controller
from ottla.controller.image_loader import ImageLoader
from ottla.log.properties import read_directory_properties
from ottla.log.store import LogStore
from ottla.node.listeners import Address
from ottla.node.options import StartFailure
from ottla.records.control import Endpoint
from ottla.replicas.context import Platform
from ottla.wire.links import Links
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.zookeeper.layout import (
    BROKER_SEQUENCE,
    CLUSTER_ID,
    BadZnode,
    Move,
    Presence,
    cluster_id_znode,
    read_cluster_id,
)
from ottla.zookeeper.node import ZooKeeperIdentity, ZooKeeperNode, ZooKeeperPlatform
from ottla.zookeeper.ports import EnsembleRefusal, Unreachable
from ottla.zookeeper.presence import BrokerPresence, Duplicate
from ottla.zookeeper.session import SessionSettings, ZooKeeperSession

logger = logging.getLogger("ottla.node")

PREFERRED = 0
BY_NAME_OR_ID = 6
"""The version of DeleteTopics that has both."""
TIMEOUT_MS = 60_000


class Coordinated(NamedTuple):
    """The parts of a node that ZooKeeper coordinates."""

    values: BrokerValues
    """With the node's number, which may come from ZooKeeper."""
    node: ZooKeeperNode
    loader: ImageLoader
    controller: Controller
    presence: BrokerPresence

    def channel(self, links: Links) -> ControllerChannel:
        return SessionChannel(self.loader, self.node, links, self.controller, self.presence)

    def attach(self, broker: Broker) -> None:
        """A lost session is told with the next heartbeat, now; and clients are told who holds `/controller`."""
        self.presence.when_lost(broker.lifecycle.hurry)
        broker.controller_id = lambda: self.node.leader[0]

    async def leave(self) -> None:
        """The broker goes with notice."""
        try:
            await self.presence.withdraw()
        except (EnsembleRefusal, Unreachable) as problem:
            logger.warning("leaves ZooKeeper without notice: %s", problem)


async def connect(platform: Platform, values: BrokerValues) -> ZooKeeperSession:
    """A session with the ensemble. Raises StartFailure."""
    loop, _, threads, _ = platform
    try:
        session = ZooKeeperSession(loop, SessionSettings.of(values))
    except ImportError:
        raise StartFailure("ZooKeeper needs another package; install it: pip install 'ottla[zookeeper]'.") from None
    try:
        await loop.run_in_executor(threads, session.open)
    except Unreachable as problem:
        raise StartFailure(str(problem)) from None
    except asyncio.CancelledError:
        await loop.run_in_executor(threads, session.close)
        raise
    return session


def open_zookeeper(
    session: ZooKeeperSession, platform: Platform, values: BrokerValues, address: Address, store: LogStore
) -> Coordinated:
    """Agree on the node's number and the cluster's id, and claim the directories for them. Blocking.

    Raises StartFailure and what claiming the directories raises.
    """
    loop, world, threads, links = platform
    try:
        values = _numbered(values, session, world.disk)
        node_id = values.integer("node.id")
        own = read_directory_properties(world.disk, store.directories[0].path)
        wanted = identity_text(world.random.identity()) if own is None else own.cluster_id
        cluster_id = read_cluster_id(session.agree(CLUSTER_ID, cluster_id_znode(wanted)))
        store.open(node_id, cluster_id)
    except (Unreachable, BadZnode) as problem:
        session.close()
        raise StartFailure(str(problem)) from None
    except BaseException:
        session.close()
        raise
    loader = ImageLoader(cluster_id)
    controller = Controller(loader, node_id, values, world)
    node = ZooKeeperNode(
        ZooKeeperPlatform(loop, world, lambda work: loop.run_in_executor(threads, work), links),
        ZooKeeperIdentity(cluster_id, node_id, Endpoint(address.name, address.host, address.port)),
        session,
        controller,
        ControllerOrders(controller),
    )
    controller.lives_are_watched(node.is_present, node.may_judge)
    return Coordinated(values, node, loader, controller, BrokerPresence(session, node_id, world.clock))


def _numbered(values: BrokerValues, session: ZooKeeperSession, disk: Disk) -> BrokerValues:
    """The settings with a number: their own, else that of the data directories, else the next of ZooKeeper's.

    Raises StartFailure, Unreachable, BadProperties.
    """
    highest = values.integer("reserved.broker.max.id")
    generates = values.boolean("broker.id.generation.enable")
    if values.is_numbered:
        if generates and values.integer("node.id") > highest:
            raise StartFailure(
                f"broker.id={values.integer('node.id')} is above reserved.broker.max.id={highest}, where ZooKeeper "
                "gives numbers; choose a lower one, raise the bound, or set broker.id.generation.enable=false."
            )
        return values
    for directory in values.listing("log.dirs"):
        # What cannot be read says so when it is claimed.
        with contextlib.suppress(OSError):
            own = read_directory_properties(disk, directory)
            if own is not None:
                return values.numbered(own.node_id)
    if not generates:
        raise StartFailure("this broker has no number and broker.id.generation.enable=false; set broker.id.")
    number = highest + session.count_up(BROKER_SEQUENCE)
    logger.info("ZooKeeper has made this broker number %d", number)
    return values.numbered(number)


class SessionChannel(ControllerChannel):
    """A broker's way to the controller, where its life is seen by its session with ZooKeeper."""

    def __init__(
        self, source: Any, node: ZooKeeperNode, links: Links, local: Controller, presence: BrokerPresence
    ) -> None:
        super().__init__(source, node, links, local)
        self._presence = presence

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """First at the controller, whose epoch then stands in the broker's own znode."""
        answer: BrokerRegistrationResponse = await super().register_broker(request)
        if answer.error_code != ErrorCode.NONE:
            return answer
        presence = Presence(
            {each.name: (each.host, each.port) for each in request.listeners},
            {each.name: each.security_protocol for each in request.listeners},
            request.rack,
            {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features},
            answer.broker_epoch,
        )
        try:
            await self._presence.announce(presence)
        except Duplicate as problem:
            logger.warning("%s", problem)
            return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        except (EnsembleRefusal, Unreachable) as problem:
            raise ControllerUnavailable(f"the broker cannot be registered: {problem}") from None
        return answer

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        if not self._presence.held and not request.want_shut_down:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        answer: BrokerHeartbeatResponse = await super().broker_heartbeat(request)
        return answer


class ControllerOrders:
    """What ZooKeeper asks of the controller; see `zookeeper.watching.Orders`."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def broker_gone(self, broker_id: int, why: str) -> None:
        self._controller.broker_lost(broker_id, why)

    async def delete_topics(self, topics: Sequence[str]) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic) for topic in topics], timeout_ms=TIMEOUT_MS)
        answer = await self._controller.delete_topics(request, BY_NAME_OR_ID)
        for result in answer.responses:
            _told(f"the topic {result.name} stays", result.error_code, result.error_message)

    async def reassign(self, wanted: Sequence[Move]) -> None:
        topics: dict[str, list[ReassignablePartition]] = {}
        for topic, number, replicas in wanted:
            topics.setdefault(topic, []).append(ReassignablePartition(partition_index=number, replicas=list(replicas)))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            allow_replication_factor_change=True,
            topics=[ReassignableTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        )
        answer = await self._controller.alter_partition_reassignments(request)
        _told("nothing is reassigned", answer.error_code, answer.error_message)
        for response in answer.responses:
            for each in response.partitions:
                place = f"{response.name}-{each.partition_index}"
                _told(f"{place} is not reassigned", each.error_code, each.error_message)

    async def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        request = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
            timeout_ms=TIMEOUT_MS,
        )
        answer = await self._controller.elect_leaders(request, request.VERSIONS[1])
        for result in answer.replica_election_results:
            for each in result.partition_result:
                place = f"{result.topic}-{each.partition_id}"
                _told(f"{place} keeps its leader", each.error_code, each.error_message)


def _told(what: str, error: int, message: str | None) -> None:
    if error not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
        logger.warning("ZooKeeper asked in vain: %s: %s", what, message or ErrorCode(error).name)
