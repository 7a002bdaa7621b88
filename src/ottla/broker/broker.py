"""A broker: the data plane of one node, composed.

Owns: partitions, connections, waiting requests, fetch sessions, upkeep, and their life from start to stop. Never knows:
how metadata is agreed on (it is handed a controller), signals, the command line. Invariants: everything here belongs to
one event loop; what blocks runs in `threads`.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple, TypeVar

from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import TopicPartition
from ottla.broker.auto_creation import AutoCreation
from ottla.broker.dispatch import BrokerDispatcher, slow_seconds
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.ports import Controller
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.topic_answers import TopicAnswers
from ottla.coordinator.groups.host import GroupHost
from ottla.coordinator.transactions.host import TransactionHost
from ottla.log.cached_reads import CachedReads
from ottla.log.data_directory import DataDirectory
from ottla.log.files import StorageFailure, World
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore, NoUsableDirectory
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.net.connections import ConnectionLimits, Connections
from ottla.net.dispatch import Limits
from ottla.replicas.directory_assignments import Assignments
from ottla.replicas.fetch_sessions import FetchSessions
from ottla.replicas.fetcher import Pullers
from ottla.replicas.flusher import Flusher
from ottla.replicas.isr_changes import InSync
from ottla.replicas.partitions import PartitionTable
from ottla.replicas.publisher import Publisher
from ottla.replicas.record_checks import RecordChecks
from ottla.replicas.throttles import Throttles
from ottla.replicas.upkeep import Upkeep
from ottla.replicas.waiting_room import WaitingRoom
from ottla.wire.links import Links

logger = logging.getLogger("ottla.broker")
T = TypeVar("T")

UNFINISHED_BYTES = 512 * 1024 * 1024
"""What unfinished requests may hold where `queued.max.request.bytes` sets no limit."""
DRAIN_SECONDS = 5.0
TIME_SEARCHES = 2
"""Look-ups by time that may decompress batches at once."""


class Platform(NamedTuple):
    """What a broker runs on."""

    loop: asyncio.AbstractEventLoop
    world: World
    threads: Executor
    links: Links


class Broker:
    """One broker. `start` once its listeners' addresses are known, `stop` at the end."""

    def __init__(
        self,
        platform: Platform,
        node_id: int,
        values: BrokerValues,
        store: LogStore,
        controller: Controller,
        give_up: Callable[[str], None],
    ) -> None:
        self.loop, self.world, self.threads, self.links = platform
        self.clock = self.world.clock
        self.node_id = node_id
        self.broker_epoch = -1
        """The epoch of this broker's registration; -1 before there is one."""
        self.static_values = values
        self._between_brokers = values.inter_broker_listener
        self.values = values
        self.store = store
        self.controller = controller
        self.give_up = give_up
        """Called when nothing can be stored any more; the node then stops."""
        self.controller_id: Callable[[], int] = lambda: node_id
        """Whom clients are told to ask: any broker will do, for each passes a request on."""
        self.image: ClusterImage = controller.image
        self.take_dynamic_values(self.image)
        self.partitions = PartitionTable()
        self.topic_answers = TopicAnswers()
        self.cached_reads = CachedReads()
        self.waiting = WaitingRoom(self.loop)
        self.fetch_max_bytes = self.values.integer("fetch.max.bytes")
        self.fetch_sessions = FetchSessions(
            self.values.integer("max.incremental.fetch.session.cache.slots"),
            lambda: int.from_bytes(self.world.random.identity()[:4]) >> 1 or 1,
            self.clock.monotonic,
        )
        self.record_checks = RecordChecks(self.in_thread)
        self.time_searches = asyncio.Semaphore(TIME_SEARCHES)
        self.flusher = Flusher(self.loop, self.threads, self.storage_failed)
        self.connections = Connections(self.loop, connection_limits(self.values), self.clock.monotonic)
        self.dispatcher = BrokerDispatcher(self, request_limits(self.values))
        self.groups = GroupHost(self)
        self.transactions = TransactionHost(self)
        self.in_sync = InSync(self)
        self.assignments = Assignments(self)
        self.throttles = Throttles(self)
        self.pullers = Pullers(self)
        self.publisher = Publisher(self)
        self.producer_ids = ProducerIds(controller, node_id)
        self.auto_creation = AutoCreation(controller)
        self.upkeep = Upkeep(self)
        self.lifecycle = Lifecycle(self)
        store.when_offline = self._directory_lost

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return self.controller.supported_features

    def start(self) -> None:
        """Take in the image and follow it from here on."""
        self.image = self.controller.image
        self.take_dynamic_values(self.image)
        self.publisher.load(self.image)
        self.controller.subscribe(self.publisher.publish)
        self.in_sync.start()
        self.upkeep.start()

    def nodes(self, listener: str) -> list[tuple[int, str, int, str | None]]:
        """Brokers that live, with their addresses on a listener: (id, host, port, rack).

        Where none does, as at the beginning and the end of a cluster of one, it is this one: clients forget the brokers
        that an answer leaves out, and librdkafka that has forgotten all of them never asks again.
        """
        known = [each for each in self.image.brokers.values() if listener in each.listeners]
        named = [each for each in known if not each.fenced] or [each for each in known if each.id == self.node_id]
        return [(each.id, *each.listeners[listener], each.rack) for each in named]

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where other brokers find this one, or None while it is not known."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.listeners:
            return None
        return broker.listeners.get(self._between_brokers) or next(iter(broker.listeners.values()))

    def log_settings(self, topic: str) -> LogSettings:
        return self.publisher.settings_of(self.image, topic)

    def take_dynamic_values(self, image: ClusterImage) -> None:
        """Settings that were changed at run time lie over those of the settings file."""
        self.values = self.static_values.with_dynamic(
            image.config(ResourceType.BROKER, str(self.node_id)), image.config(ResourceType.BROKER, "")
        )

    # --- threads ---

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `work` in an I/O thread, then `done` on the loop with what went wrong."""
        future = self.threads.submit(work)
        future.add_done_callback(
            lambda ended: self.loop.call_soon_threadsafe(done, None if ended.cancelled() else ended.exception())
        )

    async def run_blocking(self, work: Callable[[], T]) -> T:
        return await self.loop.run_in_executor(self.threads, work)

    # --- storage ---

    def storage_failed(self, failure: StorageFailure) -> None:
        """A file could not be read or written: its directory goes offline, unless it is merely full."""
        if failure.out_of_space:
            short = "descriptors" if failure.errno in (errno.EMFILE, errno.ENFILE) else "room on the disk"
            logger.error("there is a lack of %s: %s", short, failure)
            return
        for directory in self.store.live:
            if not f"{failure.path}/".startswith(f"{directory.path}/"):
                continue
            try:
                self.store.take_offline(directory, failure)
            except NoUsableDirectory as end:
                self.give_up(str(end))
                return

    def _directory_lost(self, directory: DataDirectory, lost: Sequence[TopicPartition]) -> None:
        """The store has given up a directory, whoever noticed that it fails."""
        self.lifecycle.directory_failed(directory.identity)
        for name in lost:
            self.upkeep.forget(name)
            partition = self.partitions.get(name)
            if partition is not None:
                self.publisher.log_lost(partition, directory.identity)

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
        await self.pullers.stop()
        await self.in_sync.stop()
        await self.assignments.stop()
        await self.auto_creation.stop()
        await self.upkeep.stop()
        self.connections.close()
        await self.run_blocking(lambda: self.store.close(self.broker_epoch))


def connection_limits(values: BrokerValues) -> ConnectionLimits:
    unfinished = values.integer("queued.max.request.bytes")
    return ConnectionLimits(
        most=values.integer("max.connections"),
        most_per_address=values.integer("max.connections.per.ip"),
        idle_seconds=values.integer("connections.max.idle.ms") / 1000,
        unfinished_bytes=unfinished if unfinished > 0 else UNFINISHED_BYTES,
    )


def request_limits(values: BrokerValues) -> Limits:
    return Limits(
        most_frame_bytes=values.integer("socket.request.max.bytes"),
        most_requests=values.integer("queued.max.requests"),
        slow_seconds=slow_seconds(values),
    )
