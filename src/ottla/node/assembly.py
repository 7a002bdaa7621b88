"""Everything of a node that needs neither sockets nor signals, put together.

Owns: which parts a node has by its roles and by what coordinates its cluster, and the order in which they start and
stop. Never knows: the real world; it is handed a platform, so the simulation runs the same nodes. Invariants: a broker
serves only when the controller counts on it, and what it is counted on for it has read; a node that stops leaves its
leaderships to others first, then its vote, then its logs.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.settings.values import INTER_BROKER_LISTENER, BrokerValues
from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.broker.broker import Broker, connection_limits, request_limits
from ottla.broker.controller_channel import ControllerChannel, ControllerUnavailable
from ottla.broker.lifecycle import Presence
from ottla.controller.controller import Controller
from ottla.controller.image_loader import ImageLoader
from ottla.controller.ports import ServedQuorum
from ottla.controller.server import ControllerServer, ServerContext
from ottla.controller.snapshot_trigger import SnapshotTrigger
from ottla.log.files import StorageFailure
from ottla.log.properties import read_directory_properties
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.node.formatting import (
    is_formatted,
    metadata_directory,
    metadata_log_directory,
    require_one_metadata_log,
)
from ottla.node.listeners import Address
from ottla.node.options import StartFailure
from ottla.node.roles import by_zookeeper, quorum_identity, roles_of, stands_alone
from ottla.quorum.node import QuorumNode
from ottla.quorum.settings import QuorumPlatform, QuorumSettings
from ottla.replicas.context import Platform

if TYPE_CHECKING:
    from ottla.node.coordination import Coordinated
    from ottla.zookeeper.node import ZooKeeperNode
    from ottla.zookeeper.session import ZooKeeperSession

logger = logging.getLogger("ottla.node")

PROGRESS_SECONDS = 1.0
NAMED = 10
"""So many logs that are not as they were left are named."""


class Addresses(NamedTuple):
    """Where others are told that this node listens."""

    brokers: Sequence[Address]
    controllers: Sequence[Address]


class Assembly:
    """One node. `connect` and `open`, then `start` on the loop; `stop` at the end."""

    def __init__(
        self, platform: Platform, values: BrokerValues, addresses: Addresses, give_up: Callable[[str], None]
    ) -> None:
        self._platform = platform
        self.addresses = addresses
        self._give_up = give_up
        self.values = values
        self.node_id = values.integer("node.id")
        self.roles = roles_of(values)
        self.store = LogStore(
            values.listing("log.dirs"), platform.world, values.integer("num.recovery.threads.per.data.dir")
        )
        self.cluster_id = ""
        self.broker: Broker | None = None
        self.server: ControllerServer | None = None
        self._controller: Controller | None = None
        self._loader: ImageLoader | None = None
        self._quorum: QuorumNode | ZooKeeperNode | None = None
        self._session: ZooKeeperSession | None = None
        self._coordinated: Coordinated | None = None
        self._snapshots: SnapshotTrigger | None = None
        self._loading: asyncio.Future[None] | None = None

    @property
    def quorum(self) -> "QuorumNode | ZooKeeperNode":
        assert self._quorum is not None, "open comes first"
        return self._quorum

    @property
    def loader(self) -> ImageLoader:
        assert self._loader is not None, "open comes first"
        return self._loader

    # --- the start ---

    async def connect(self) -> None:
        """Reach what coordinates the cluster, where that is not this node and its like. Raises StartFailure."""
        if by_zookeeper(self.values):
            # Only nodes that use ZooKeeper need what comes with it.
            from ottla.node.coordination import connect

            self._session = await connect(self._platform, self.values)

    def open(self) -> None:
        """Claim the directories and read the metadata. Blocking.

        Raises StartFailure, UnusableDirectory, NoUsableDirectory, StorageFailure, UnreadableMetadata, BadQuorumState.
        """
        if by_zookeeper(self.values):
            self._open_zookeeper()
        else:
            self._open_quorum()

    def _open_quorum(self) -> None:
        values = self.values
        loop, world, threads, links = self._platform
        if not stands_alone(values) and not is_formatted(world.disk, values):
            raise StartFailure(
                f"{metadata_directory(values)} belongs to no cluster yet; prepare it with 'ottla format --config FILE "
                "--cluster-id ID', with the same id on every node."
            )
        require_one_metadata_log(world.disk, values)
        self.cluster_id = self.store.open(self.node_id)
        self._loader = ImageLoader(self.cluster_id)
        controller = self.addresses.controllers[0] if self.addresses.controllers else None
        own = read_directory_properties(world.disk, metadata_directory(values))
        directory_id = self.store.directories[0].identity if own is None else own.directory_id
        identity = quorum_identity(values, self.cluster_id, directory_id, controller)
        events: ImageLoader | Controller = self._loader
        if self.roles.controller:
            events = self._controller = Controller(self._loader, self.node_id, values, world)
            self._controller.founds_where(self._may_found)
        platform = QuorumPlatform(
            loop, world, lambda work: loop.run_in_executor(threads, work), metadata_log_directory(values)
        )
        quorum = self._quorum = QuorumNode(platform, identity, QuorumSettings.of(values), links, events)
        self._snapshots = SnapshotTrigger(self._loader, quorum, values)
        if self._controller is not None:
            self.server = self._serve(self._controller, quorum)
        quorum.open()

    def _may_found(self) -> bool:
        """A new cluster knows no topics, and would have every partition that is here put aside."""
        held = [(each.path, entry) for each in self.store.live for entry in each.partitions() if entry.mark is None]
        if not held:
            return True
        path, first = held[0]
        self._give_up(
            f"{path} holds {first.name} ({len(held)} partitions in all) and this voter has no metadata: it does not "
            "found a new cluster over the data of another. After ZooKeeper, run 'ottla quorum migrate --execute' for "
            "every voter before the first one starts; to begin anew, move the partitions' folders elsewhere."
        )
        return False

    def _open_zookeeper(self) -> None:
        from ottla.node.coordination import open_zookeeper

        session, self._session = self._session, None
        assert session is not None, "connect comes first"
        coordinated = open_zookeeper(session, self._platform, self.values, self.addresses.controllers[0], self.store)
        self.cluster_id = coordinated.loader.image.cluster_id
        self.values, self.node_id = coordinated.values, coordinated.node.node_id
        self._loader, self._controller, self._quorum = coordinated.loader, coordinated.controller, coordinated.node
        self._coordinated = coordinated
        self.server = self._serve(coordinated.controller, coordinated.node)

    def _serve(self, controller: Controller, quorum: ServedQuorum) -> ControllerServer:
        """Where other nodes reach the controller."""
        controller.attach(quorum)
        loop, world, threads, links = self._platform
        values = self.values
        between_brokers = values.inter_broker_listener if self.roles.broker else values.own_text(INTER_BROKER_LISTENER)
        return ControllerServer(
            ServerContext(loop, threads, links, world.clock, between_brokers),
            controller,
            quorum,
            connection_limits(self.values),
            request_limits(self.values),
        )

    async def start(self) -> None:
        """Agree with the others, load the logs, and serve once the controller counts on this broker.

        Raises StartFailure, CannotRegister, ControllerUnavailable, and what loading raises.
        """
        self.quorum.start()
        if not self.roles.broker:
            return
        links = self._platform.links
        if self._coordinated is not None:
            channel = self._coordinated.channel(links)
        else:
            channel = ControllerChannel(self.loader, self.quorum, links, self._controller)
        broker = Broker(self._platform, self.node_id, self.values, self.store, channel, self._give_up)
        if self._coordinated is not None:
            self._coordinated.attach(broker)
        await self._register(broker)
        self._require_own_metadata(broker.context.broker_epoch)
        # Only now is it certain that nothing is missing in the image: a log that it does not know is not wanted.
        self._loading = self._platform.loop.run_in_executor(self._platform.threads, self._load, self.loader.image)
        await asyncio.shield(self._loading)
        await self._vouch(broker)
        self.broker = broker
        broker.start()
        await broker.lifecycle.serve()

    async def _register(self, broker: Broker) -> None:
        """However long it takes until a majority of the voters is there."""
        patience = self.values.integer("initial.broker.registration.timeout.ms") / 1000
        deadline = self._platform.loop.time() + patience
        while True:
            try:
                await broker.lifecycle.register(self._presence())
                return
            except ControllerUnavailable as problem:
                if self._platform.loop.time() >= deadline:
                    raise
                logger.info("waits for the quorum, a majority of its voters has to be there: %s", problem)

    def _require_own_metadata(self, broker_epoch: int) -> None:
        """Epochs only grow. Data of a later one than this cluster has ever given is not the data of its topics."""
        for directory in self.store.live:
            if directory.known_epoch >= broker_epoch:
                raise StartFailure(
                    f"{directory.path} was last used in epoch {directory.known_epoch} of this broker, and the metadata "
                    f"of the cluster has come no further than {broker_epoch}: it is not that of this data. See that "
                    "the voters have theirs (after ZooKeeper, run 'ottla quorum migrate' for each); to begin anew, "
                    "move the data elsewhere."
                )

    async def _vouch(self, broker: Broker) -> None:
        """The registration said that nothing can be missing here. Where something is, say so before it counts."""
        if self.store.last_epoch == -1:
            return
        lost = list(islice(self._lost(self.loader.image), NAMED))
        if not lost:
            return
        logger.warning(
            "%s not as this broker left it: registers as one that may have lost records", ", ".join(map(str, lost))
        )
        await broker.lifecycle.vouch_for_nothing(self._platform.world.random.identity())

    def _lost(self, image: ClusterImage) -> Iterator[TopicPartition]:
        """Logs that others count on, and that were not found, or not whole."""
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                if self.node_id in partition.eligible or self.node_id in partition.in_sync:
                    name = TopicPartition(topic.name, number)
                    log = self.store.get(name)
                    if log is None or not log.intact:
                        yield name

    def _presence(self) -> Presence:
        rack = self.values.get("broker.rack")
        return Presence(
            incarnation_id=self._platform.world.random.identity(),
            listeners={address.name: (address.host, address.port) for address in self.addresses.brokers},
            rack=None if rack is None else str(rack),
            directories=tuple(directory.identity for directory in self.store.live),
            previous_epoch=self.store.last_epoch,
        )

    def _load(self, image: ClusterImage) -> None:
        """Open every log of the data directories. Blocking."""
        made: dict[tuple[tuple[str, str], ...], LogSettings] = {}

        def settings_of(name: TopicPartition) -> LogSettings:
            overrides = image.config(ResourceType.TOPIC, name.topic)
            key = tuple(sorted(overrides.items()))
            if key not in made:
                made[key] = LogSettings.from_values(self.values.topic_values(overrides))
            return made[key]

        def is_stray(name: TopicPartition, topic_id: TopicId | None) -> bool:
            topic = image.topics.get(name.topic)
            if topic is None or name.partition >= len(topic.partitions):
                return True
            if topic_id is not None and topic_id != topic.topic_id:
                return True
            return self.node_id not in topic.partitions[name.partition].replicas

        clock = self._platform.world.clock
        told = clock.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal told
            now = clock.monotonic()
            if now - told >= PROGRESS_SECONDS:
                told = now
                logger.info("loaded %d of %d logs", done, total)

        self.store.load(settings_of, is_stray=is_stray, progress=progress)

    # --- the end ---

    async def stop(self) -> None:
        """Leave, stop serving, and close everything."""
        if self.broker is not None:
            await self.broker.lifecycle.leave()
            await self.broker.stop()
        if self._snapshots is not None:
            self._snapshots.stop()
        if self._coordinated is not None:
            await self._coordinated.leave()
        await self.quorum.stop()
        if self._controller is not None:
            self._controller.stop()
        if self.server is not None:
            await self.server.stop()
        try:
            self.quorum.close()
        except StorageFailure as failure:
            logger.error("the metadata log was not closed and is recovered at the next start: %s", failure)
        if self.broker is None:
            await self._give_up_loading()
            self.release()

    async def _give_up_loading(self) -> None:
        """A recovery that is under way ends before the locks go: what it cuts is nobody else's until then."""
        if self._loading is not None:
            self.store.give_up_loading()
            await asyncio.wait([self._loading])

    def release(self) -> None:
        """Let the directories go without a word: after a start that failed."""
        self.store.release()
