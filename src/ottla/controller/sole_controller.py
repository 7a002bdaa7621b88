"""The controller: decides about metadata, stores what it decided, and tells everybody.

Owns: the order of decisions, their way to the disk, and the committed image. Never knows: how to decide (that is in
`metadata`), sockets. A quorum of one for now; the face is the one a quorum of many will have.
Invariants: every decision sees the facts of all decisions before it; a reply is given when the facts it rests on are
stored, its own and those it merely saw; subscribers get every change once, in order, on the loop; when storing fails,
nothing of it has happened.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.controller import replies
from ottla.controller.metadata_log import MetadataLog, UnreadableMetadata
from ottla.log.files import StorageFailure, World
from ottla.metadata import configs, features, producer_ids, topics
from ottla.metadata.brokers import UNFENCE
from ottla.metadata.configs import MIN_IN_SYNC
from ottla.metadata.decision import Decision, Place, Refusal
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import BadFact, Fact
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.stored.metadata import (
    AbortTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    RegisterBrokerRecord,
)

logger = logging.getLogger("ottla.controller")
R = TypeVar("R")

Subscriber = Callable[[ClusterDelta, ClusterImage], None]
RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]


class Listener(NamedTuple):
    """Where clients find a broker by one of its listeners."""

    host: str
    port: int
    security_protocol: int = 0


class Registration(NamedTuple):
    """What a broker says of itself when it starts."""

    broker_id: int
    incarnation_id: bytes
    listeners: Mapping[str, Listener]
    directories: Sequence[bytes]
    rack: str | None = None


def register(registration: Registration, epoch: int) -> list[Fact]:
    """The broker is there, and since it is the one that asks, it also lives."""
    return [
        RegisterBrokerRecord(
            broker_id=registration.broker_id,
            incarnation_id=registration.incarnation_id,
            broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
                for name, (host, port, protocol) in registration.listeners.items()
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in features.SUPPORTED.items()
            ],
            rack=registration.rack,
            fenced=True,
            log_dirs=sorted(registration.directories),
        ),
        BrokerRegistrationChangeRecord(broker_id=registration.broker_id, broker_epoch=epoch, fenced=UNFENCE),
    ]


class _Change(NamedTuple):
    delta: ClusterDelta
    image: ClusterImage


class _Group:
    """Changes that share one sync, and those who wait for it; the outcome is None or why it failed."""

    __slots__ = ("changes", "outcome")

    def __init__(self) -> None:
        self.changes: list[_Change] = []
        self.outcome: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()


class Controller:
    """See the module. `open` and `register` before the loop serves requests; `close` at the end."""

    supported_features: Mapping[str, tuple[int, int]] = features.SUPPORTED

    def __init__(
        self,
        world: World,
        directory: str,
        cluster_id: str,
        node_id: int,
        values: BrokerValues,
        run_blocking: RunBlocking,
    ) -> None:
        self._world = world
        self._directory = directory
        self.node_id = node_id
        self._static_values = values
        self._run_blocking = run_blocking
        self._subscribers: list[Subscriber] = []
        self.image = ClusterImage(cluster_id)
        """What is committed."""
        self._latest = self.image
        """What is committed and what is on its way."""
        self._values = values
        self._values_of: Mapping[tuple[int, str], Mapping[str, str]] = {}
        self._gathering: _Group | None = None
        self._syncing: _Group | None = None
        self._damaged = False
        self._task: asyncio.Task[None] | None = None
        self._log: MetadataLog | None = None

    @property
    def log(self) -> MetadataLog:
        assert self._log is not None, "open comes first"
        return self._log

    @property
    def epoch(self) -> int:
        return self.log.epoch

    # --- the start and the end ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load the log. Blocking; raises StorageFailure, UnreadableMetadata and BadQuorumState."""
        self._log = MetadataLog(self._world, self._directory, self.node_id)
        delta = ClusterDelta(self.image)
        offset = -1
        for stored in self._log.read():
            try:
                delta.replay_all(stored.facts)
            except BadFact as problem:
                raise UnreadableMetadata(
                    f"The metadata log in {self._directory} cannot be used: up to offset {stored.offset}, {problem}. "
                    "Restore it from a copy."
                ) from problem
            offset = stored.offset
        self.image = self._latest = delta.apply(offset, self._log.epoch)

    def register(self, registration: Registration) -> None:
        """Begin an epoch, give a new cluster its first facts, and take this node's broker in. Blocking."""
        log = self.log
        log.begin_epoch()
        facts: list[Fact] = []
        if log.interrupted:
            facts.append(AbortTransactionRecord(reason="the leader that began it is gone"))
            log.append(facts)
            log.interrupted = False
        delta = ClusterDelta(self.image)
        if not self.image.features:
            facts = self._first_facts()
            delta.replay_all(facts)
            log.append(facts)
        facts = register(registration, log.end_offset)
        delta.replay_all(facts)
        offset = log.append(facts)
        log.sync()
        self._latest = delta.apply(offset, log.epoch)
        self._publish(_Change(delta, self._latest))

    def _first_facts(self) -> list[Fact]:
        # One number for the whole cluster is what elections of eligible replicas go by.
        least = ConfigRecord(
            resource_type=ResourceType.BROKER,
            resource_name="",
            name=MIN_IN_SYNC,
            value=str(self._static_values.integer(MIN_IN_SYNC)),
        )
        return [*features.bootstrap(), least]

    async def stop(self) -> None:
        """Wait for what is on its way to the disk."""
        if self._task is not None:
            await self._task

    def close(self) -> None:
        """Let the files go. Blocking."""
        self.log.close()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hear of every change from here on; `image` is what came before."""
        self._subscribers.append(subscriber)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return await self._submit(
            lambda image: topics.create(request, image, self._current_values(image), self._world.random),
            lambda refusal: replies.create_topics(request, refusal),
        )

    async def delete_topics(self, request: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse:
        enabled = self._static_values.boolean("delete.topic.enable")
        return await self._submit(
            lambda image: topics.delete(request, image, enabled, version),
            lambda refusal: replies.delete_topics(request, refusal),
        )

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return await self._submit(
            lambda image: topics.create_partitions(request, image, self._world.random),
            lambda refusal: replies.create_partitions(request, refusal),
        )

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await self._submit(
            lambda image: configs.alter(request, self._place(image)),
            lambda refusal: replies.alter_configs(request, refusal),
        )

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        return await self._submit(
            lambda image: configs.alter_incrementally(request, self._place(image)),
            lambda refusal: replies.incremental_alter_configs(request, refusal),
        )

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._submit(
            lambda image: producer_ids.allocate(request, image),
            lambda refusal: AllocateProducerIdsResponse(error_code=refusal.error),
        )

    async def update_features(self, request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
        return await self._submit(
            lambda image: features.update(request, image, self.node_id, version),
            lambda refusal: UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message),
        )

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        return replies.describe_quorum(
            request, self.node_id, self.log.epoch, self.log.high_watermark, self._world.clock.now_ms()
        )

    def _place(self, image: ClusterImage) -> Place:
        return Place(image, self._current_values(image))

    def _current_values(self, image: ClusterImage) -> BrokerValues:
        if self._values_of is not image.configs:
            self._values_of = image.configs
            self._values = self._static_values.with_dynamic(
                image.config(ResourceType.BROKER, str(self.node_id)), image.config(ResourceType.BROKER, "")
            )
        return self._values

    # --- from a decision to the disk ---------------------------------------------------------------------------------

    async def _submit(self, decide: Callable[[ClusterImage], Decision[R]], refuse: Callable[[Refusal], R]) -> R:
        try:
            if self._damaged:
                self._repair()
            decision = decide(self._latest)
            if decision.facts:
                self._append(decision.facts)
        except StorageFailure as failure:
            logger.error("metadata cannot be stored: %s", failure)
            self._damaged = self._damaged or not failure.out_of_space
            return refuse(_storage_refusal(failure))
        # Also a reply without facts may rest on some that are not stored yet.
        group = self._gathering or self._syncing
        if group is not None:
            refusal = await asyncio.shield(group.outcome)
            if refusal is not None:
                return refuse(refusal)
        return decision.reply

    def _append(self, facts: list[Fact]) -> None:
        delta = ClusterDelta(self._latest)
        delta.replay_all(facts)
        offset = self.log.append(facts)
        self._latest = delta.apply(offset, self.log.epoch)
        if self._gathering is None:
            self._gathering = _Group()
        self._gathering.changes.append(_Change(delta, self._latest))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._sync())

    async def _sync(self) -> None:
        """Sync group after group: whatever is decided while a sync runs shares the next one."""
        while self._gathering is not None:
            group = self._syncing = self._gathering
            self._gathering = None
            try:
                ticket = self.log.begin_sync()
                if ticket is not None:
                    await self._run_blocking(ticket.run)
            except StorageFailure as failure:
                self._fail(failure)
            else:
                self.log.finish_sync(ticket)
                self._syncing = None
                for change in group.changes:
                    self._publish(change)
                group.outcome.set_result(None)
        self._task = None

    def _publish(self, change: _Change) -> None:
        self.image = change.image
        for subscriber in self._subscribers:
            try:
                subscriber(change.delta, change.image)
            except Exception:
                # The fact is stored: the others must hear of it, whatever one of them makes of it.
                logger.exception("a subscriber failed at offset %d of the metadata", change.image.offset)

    def _fail(self, failure: StorageFailure) -> None:
        """Nothing that waits has happened, nor what was decided on top of it."""
        logger.error("metadata cannot be stored: %s", failure)
        failed = [group for group in (self._syncing, self._gathering) if group is not None]
        self._syncing = self._gathering = None
        self._latest = self.image
        self._damaged = True
        try:
            # At once, lest a restart find facts that were refused.
            self._repair()
        except StorageFailure as second:
            logger.error("the metadata log cannot be repaired now: %s", second)
        for group in failed:
            group.outcome.set_result(_storage_refusal(failure))

    def _repair(self) -> None:
        """Begin again behind the last committed fact; raises StorageFailure while that cannot be."""
        if self._gathering is not None or self._syncing is not None:
            # Facts from before the failure are still on their way; they must not be cut off.
            raise StorageFailure(self._directory, 0, "an earlier write failed")
        self.log.repair(self.image.offset + 1)
        self._damaged = False


def _storage_refusal(failure: StorageFailure) -> Refusal:
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata cannot be stored: {failure}")
