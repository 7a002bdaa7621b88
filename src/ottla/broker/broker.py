"""A broker: the data plane of one node, composed.

Owns: partitions, connections, waiting requests, fetch sessions, upkeep, and their life from start to stop. Never knows:
how metadata is committed (it is handed a controller), signals, the command line. Invariants: everything here belongs to
one event loop; what blocks runs in `threads`.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import TopicPartition
from ottla.broker.auto_creation import AutoCreation
from ottla.broker.dispatch import BrokerDispatcher, slow_seconds
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.ports import ControllerPort
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.topic_answers import TopicAnswers
from ottla.coordinator.groups.group_coordinator import GroupCoordinator
from ottla.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from ottla.log.cached_reads import CachedReads
from ottla.log.data_directory import DataDirectory
from ottla.log.store import LogStore
from ottla.metadata.image import ClusterImage
from ottla.net.connections import ConnectionLimits, Connections
from ottla.net.dispatch import RequestLimits
from ottla.replicas.context import BrokerContext, Platform
from ottla.replicas.fetch_sessions import FetchSessions
from ottla.replicas.record_checks import RecordChecks
from ottla.replicas.replica_manager import ReplicaManager

UNFINISHED_BYTES = 512 * 1024 * 1024
"""What unfinished requests may hold where `queued.max.request.bytes` sets no limit."""
DRAIN_SECONDS = 5.0


class Broker:
    """One broker. `start` once its listeners' addresses are known, `stop` at the end."""

    def __init__(
        self,
        platform: Platform,
        node_id: int,
        values: BrokerValues,
        store: LogStore,
        controller: ControllerPort,
        give_up: Callable[[str], None],
    ) -> None:
        context = BrokerContext(platform, node_id, values, store, controller.image, give_up)
        self.context = context
        self.loop, self.world, self.clock, self.store = context.loop, context.world, context.clock, store
        self.node_id = node_id
        self.run_blocking, self.search, self.in_thread = context.run_blocking, context.search, context.in_thread
        self.storage_failed = context.storage_failed
        self.controller = controller
        self.controller_id: Callable[[], int] = lambda: node_id
        """Whom clients are told to ask: any broker will do, for each passes a request on."""
        self.replicas = ReplicaManager(context, controller)
        self.partitions, self.waiting = self.replicas.partitions, self.replicas.waiting
        self.flusher = self.replicas.flusher
        self.topic_answers = TopicAnswers()
        self.cached_reads = CachedReads()
        self.fetch_max_bytes = self.values.integer("fetch.max.bytes")
        self.fetch_sessions = FetchSessions(
            self.values.integer("max.incremental.fetch.session.cache.slots"),
            lambda: int.from_bytes(self.world.random.identity()[:4]) >> 1 or 1,
            self.clock.monotonic,
        )
        self.record_checks = RecordChecks(context.in_thread)
        self.connections = Connections(self.loop, connection_limits(self.values), self.clock.monotonic)
        self.dispatcher = BrokerDispatcher(self, request_limits(self.values))
        self.groups = GroupCoordinator(context, self.replicas.commits, controller)
        self.transactions = TransactionCoordinator(
            context, self.replicas.commits, controller, self.partitions, self.groups
        )
        self.replicas.observers += [self.groups, self.transactions]
        self.replicas.when_settings_change += [self.dispatcher.take_settings, self.groups.take_settings]
        self.producer_ids = ProducerIds(controller, node_id)
        self.auto_creation = AutoCreation(controller)
        self.lifecycle = Lifecycle(self)
        store.when_offline = self._directory_lost

    @property
    def image(self) -> ClusterImage:
        return self.context.image

    @property
    def values(self) -> BrokerValues:
        return self.context.values

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return self.controller.supported_features

    def start(self) -> None:
        """Take in the image and follow it from here on."""
        self.context.image = self.controller.image
        self.context.take_dynamic_values()
        self.replicas.load(self.image)
        self.controller.subscribe(self.replicas.publish)
        self.replicas.start()
        self.replicas.upkeep.repeat(max(1.0, self.connections.limits.idle_seconds / 4), self._drop_idle)

    def nodes(self, listener: str) -> list[tuple[int, str, int, str | None]]:
        """Brokers that live, with their addresses on a listener: (id, host, port, rack).

        Where none does, as at the beginning and the end of a cluster of one, it is this one: clients forget the brokers
        that an answer leaves out, and librdkafka that has forgotten all of them never asks again.
        """
        known = [each for each in self.image.brokers.values() if listener in each.listeners]
        named = [each for each in known if not each.fenced] or [each for each in known if each.id == self.node_id]
        return [(each.id, *each.listeners[listener], each.rack) for each in named]

    async def _drop_idle(self) -> None:
        self.connections.drop_idle()

    # --- storage ---

    def _directory_lost(self, directory: DataDirectory, lost: Sequence[TopicPartition]) -> None:
        """The store has given up a directory, whoever noticed that it fails."""
        self.lifecycle.directory_failed(directory.identity)
        for name in lost:
            self.replicas.log_lost(name, directory.identity)

    def disk_room(self, path: str) -> tuple[int, int]:
        """Total and usable bytes where a directory lies; -1 when the system does not tell."""
        try:
            room = os.statvfs(path)
        except (OSError, AttributeError):
            return -1, -1
        return room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize

    # --- the end ---

    async def stop(self) -> None:
        """Finish what is in progress, close the connections, flush and close the logs."""
        await self.transactions.stop()
        await self.groups.stop()
        await self.dispatcher.drain(DRAIN_SECONDS)
        await self.replicas.stop()
        await self.auto_creation.stop()
        self.connections.close()
        await self.run_blocking(lambda: self.store.close(self.context.broker_epoch))


def connection_limits(values: BrokerValues) -> ConnectionLimits:
    unfinished = values.integer("queued.max.request.bytes")
    return ConnectionLimits(
        most=values.integer("max.connections"),
        most_per_address=values.integer("max.connections.per.ip"),
        idle_seconds=values.integer("connections.max.idle.ms") / 1000,
        unfinished_bytes=unfinished if unfinished > 0 else UNFINISHED_BYTES,
    )


def request_limits(values: BrokerValues) -> RequestLimits:
    return RequestLimits(
        most_frame_bytes=values.integer("socket.request.max.bytes"),
        most_requests=values.integer("queued.max.requests"),
        slow_seconds=slow_seconds(values),
    )
