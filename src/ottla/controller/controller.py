"""The controller: decides about metadata while this node leads the quorum, and answers when it is committed.

Owns: requests, the sessions of brokers, and what a new leader does first. Never knows: how to decide (that is in
`metadata`), how agreement is reached (that is in the quorum), sockets.
Invariants: every decision sees the facts of all decisions before it; a reply leaves when the facts it rests on are
committed and published on this node; a controller that does not lead answers NOT_CONTROLLER and changes nothing.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import DEBUG, INFO, WARNING
from typing import TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.controller import replies
from ottla.controller.heartbeats import Heartbeats
from ottla.controller.image_loader import ImageLoader, Subscriber
from ottla.controller.ledger import Ledger
from ottla.controller.ports import MetadataQuorum
from ottla.controller.timers import ControllerTimers, Intervals
from ottla.log.files import StorageFailure, World
from ottla.metadata import (
    brokers,
    configs,
    directories,
    elections,
    eligible,
    features,
    in_sync,
    producer_ids,
    reassignments,
    topics,
)
from ottla.metadata.brokers import RegisteredProcess
from ottla.metadata.decision import DecisionContext, MetadataDecision, Refusal
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.metadata.log_lines import LEFT, changed_partitions, cluster_log_lines
from ottla.metadata.quorum_events import NotLeader, Stored
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
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.stored.metadata import AbortTransactionRecord, NoOpRecord

logger = logging.getLogger("ottla.controller")
R = TypeVar("R")

NOT_CONTROLLER = Refusal(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


class Controller:
    """The controller of one node; it decides while that node leads the quorum.

    `attach` the quorum before it starts; it tells this object what was committed (QuorumEvents).
    """

    supported_features: Mapping[str, tuple[int, int]] = features.SUPPORTED

    def __init__(self, loader: ImageLoader, node_id: int, values: BrokerValues, world: World) -> None:
        self.node_id = node_id
        self._loader = loader
        self._world = world
        self._static_values = values
        self._values = values
        self._values_of: Mapping[tuple[int, str], Mapping[str, str]] = {}
        intervals = Intervals.of(values)
        self._heartbeats = Heartbeats(intervals.session)
        self._chores = ControllerTimers(self, self._heartbeats, world.clock, intervals)
        self._attached: tuple[MetadataQuorum, Ledger] | None = None
        self._when_leading: list[Callable[[], None]] = []
        self.elections = 0
        """Partitions that got another leader while this node decided."""
        self.unclean_elections = 0
        self._reasons: dict[int, str] = {}
        """Why brokers are being fenced."""
        loader.subscribe(self._published)
        self._is_present: Callable[[int, int], bool] = lambda broker_id, epoch: True
        self._may_judge: Callable[[float], bool] = lambda seconds: True
        self._may_found: Callable[[], bool] = lambda: True
        self._session_seconds = intervals.session

    def attach(self, quorum: MetadataQuorum) -> None:
        """Where decisions go. The quorum in turn is made with this object as its events."""
        self._attached = (quorum, Ledger(self._loader, quorum))

    @property
    def _quorum(self) -> MetadataQuorum:
        assert self._attached is not None, "attach comes first"
        return self._attached[0]

    @property
    def _ledger(self) -> Ledger:
        assert self._attached is not None, "attach comes first"
        return self._attached[1]

    @property
    def image(self) -> ClusterImage:
        """What is committed."""
        return self._loader.image

    @property
    def values(self) -> BrokerValues:
        """This node's settings, as the last decision saw them."""
        return self._values

    @property
    def active(self) -> bool:
        """Whether this node decides."""
        return self._attached is not None and self._ledger.latest is not None

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hear of every change from here on; `image` is what came before."""
        self._loader.subscribe(subscriber)

    def when_leading(self, began: Callable[[], None]) -> None:
        """Hear each time this node begins to decide."""
        self._when_leading.append(began)

    def lives_are_watched(self, is_present: Callable[[int, int], bool], may_judge: Callable[[float], bool]) -> None:
        """Who lives is also known from elsewhere, by broker and epoch; `broker_lost` tells who is gone.

        A heartbeat of a broker that is not there, as seen from there, does not let it take part again. A broker is
        fenced for its silence only where `may_judge` finds that it is not this controller that is cut off.
        """
        self._is_present = is_present
        self._may_judge = may_judge

    def founds_where(self, may_found: Callable[[], bool]) -> None:
        """Asked when this node leads a quorum that has committed nothing yet: whether a new cluster begins with it.

        Where not, it decides nothing, and the one who was asked sees to it that the node ends.
        """
        self._may_found = may_found

    def _published(self, delta: ClusterDelta, image: ClusterImage) -> None:
        """The log of the controller that decides tells what became of the cluster."""
        if not self.active:
            return
        reasons = {broker_id: self._reasons.pop(broker_id) for broker_id in delta.changed_brokers & {*self._reasons}}
        for each in cluster_log_lines(delta, image, reasons):
            logger.log(WARNING if each.alarming else INFO, "%s", each.text)
        for _, before, after in changed_partitions(delta, image, created=False):
            if before is not None and before.leader != after.leader and after.leader >= 0:
                self.elections += 1
                self.unclean_elections += after.recovering and not before.recovering

    # --- what the quorum tells ---------------------------------------------------------------------------------------

    def committed(self, batches: Sequence[Stored]) -> None:
        self._ledger.committed(batches)

    def snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        self._loader.snapshot(facts, offset, epoch)

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Only this node's own leadership makes a difference here."""

    def began_leading(self, epoch: int) -> None:
        if not self.image.features and not self._may_found():
            return
        logger.info("this node is the controller in epoch %d", epoch)
        self._ledger.begin()
        now = self._world.clock.monotonic()
        for broker in self.image.brokers.values():
            # Nobody knows what the one before has heard: each broker has a whole session to be heard. But for the one
            # of this node: it runs in this process, or not at all.
            if not broker.fenced and broker.id != self.node_id:
                self._heartbeats.begin(broker.id, broker.epoch, now)
        if self._quorum.interrupted:
            self._abort_transaction()
        if not self.image.features:
            self.carry_out(self._first_facts, "a new cluster begins")
        self.carry_out(eligible.outdated, "replicas are eligible no longer")
        self._chores.start()
        for began in self._when_leading:
            began()

    def stopped_leading(self, epoch: int) -> None:
        logger.info("this node is no longer the controller of epoch %d", epoch)
        self._chores.stop()
        self._heartbeats.clear()
        self._reasons.clear()
        self._ledger.end()

    def stop(self) -> None:
        """The node ends: a quorum of one has nobody to lead it from here on, and tells of no end."""
        if self.active:
            self.stopped_leading(self.epoch)

    def _abort_transaction(self) -> None:
        # Facts of a transaction count when it ends, so there is nothing in the image to change.
        try:
            self._quorum.append([AbortTransactionRecord(reason="the leader that began it is gone")])
        except (NotLeader, StorageFailure) as failure:
            logger.error("a transaction of another leader cannot be aborted: %s", failure)

    def _first_facts(self, context: DecisionContext) -> list[Fact]:
        return [*features.bootstrap(), *eligible.one_number(context.image, context.values)]

    # --- brokers and controllers -------------------------------------------------------------------------------------

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        broker_id = request.broker_id
        epoch = -1

        def decide(context: DecisionContext) -> MetadataDecision[BrokerRegistrationResponse]:
            nonlocal epoch
            broker = context.image.brokers.get(broker_id)
            holder = RegisteredProcess.GONE
            if broker is not None and not broker.fenced:
                holder = self._heartbeats.holder(broker_id, self._world.clock.monotonic())
            decision = brokers.register(request, context, self._quorum.end_offset, holder)
            epoch = decision.reply.broker_epoch
            if decision.reply.error_code != ErrorCode.NONE:
                why = ErrorCode(decision.reply.error_code).name
                logger.warning("the registration of broker %d is refused: %s", broker_id, why)
            return decision

        def decided(offset: int) -> None:
            self._heartbeats.begin(broker_id, epoch, self._world.clock.monotonic())

        return await self._submit(
            decide, lambda refusal: BrokerRegistrationResponse(error_code=refusal.error), decided=decided
        )

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        broker_id = request.broker_id
        shuts_down = False

        def decide(context: DecisionContext) -> MetadataDecision[BrokerHeartbeatResponse]:
            nonlocal shuts_down
            known = context.image.brokers.get(broker_id)
            if known is not None and known.fenced and not self._is_present(broker_id, known.epoch):
                request.want_fence = True
            active = [broker.id for broker in context.image.brokers.values() if broker.active]
            decision = brokers.heartbeat(request, context, self._heartbeats.standing(broker_id, active))
            reply = decision.reply
            if reply.error_code == ErrorCode.NONE:
                now = self._world.clock.monotonic()
                self._heartbeats.hear(broker_id, request.broker_epoch, request.current_metadata_offset, now)
                if reply.should_shut_down:
                    self._reasons[broker_id] = LEFT
                    self._heartbeats.forget(broker_id)
                shuts_down = request.want_shut_down and not reply.is_fenced
            return decision

        def decided(offset: int) -> None:
            if shuts_down:
                self._heartbeats.stops(broker_id, offset)

        return await self._submit(
            decide, lambda refusal: BrokerHeartbeatResponse(error_code=refusal.error), decided=decided
        )

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        def decide(context: DecisionContext) -> MetadataDecision[UnregisterBrokerResponse]:
            decision = brokers.unregister(request, context)
            if decision.facts:
                self._heartbeats.forget(request.broker_id)
            return decision

        return await self._submit(
            decide, lambda refusal: UnregisterBrokerResponse(error_code=refusal.error, error_message=refusal.message)
        )

    async def controller_registration(self, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
        return await self._submit(
            lambda context: brokers.register_controller(request, context.image),
            lambda refusal: ControllerRegistrationResponse(error_code=refusal.error, error_message=refusal.message),
        )

    def broker_lost(self, broker_id: int, why: str) -> None:
        """A broker's process is certainly gone: others take over at once, and a new process may have its id."""
        self._fence(broker_id, why)

    def session_expired(self, broker_id: int) -> None:
        # Half the time: what this controller hears last need not be the heartbeats.
        if self._may_judge(self._session_seconds / 2):
            self._fence(broker_id, "its session ended")

    def _fence(self, broker_id: int, why: str) -> None:
        latest = self._ledger.latest
        broker = None if latest is None else latest.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            self._reasons[broker_id] = why
            # What it comes to is told with its reason when it is committed.
            stored = self.carry_out(
                lambda context: brokers.fence(broker, context), f"fencing broker {broker_id}", DEBUG
            )
            if not stored:
                self._reasons.pop(broker_id, None)
                return
        self._heartbeats.forget(broker_id)

    # --- partitions --------------------------------------------------------------------------------------------------

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        return await self._submit(
            lambda context: in_sync.alter(request, context),
            lambda refusal: AlterPartitionResponse(error_code=refusal.error),
        )

    async def elect_leaders(self, request: ElectLeadersRequest, version: int) -> ElectLeadersResponse:
        return await self._submit(
            lambda context: elections.elect(request, context),
            lambda refusal: replies.elect_leaders(request, refusal),
        )

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        return await self._submit(
            lambda context: reassignments.alter(request, context),
            lambda refusal: AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=request.allow_replication_factor_change,
                error_code=refusal.error,
                error_message=refusal.message,
            ),
        )

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return await self._submit(
            lambda context: MetadataDecision([], reassignments.in_progress(request, context.image)),
            lambda refusal: ListPartitionReassignmentsResponse(error_code=refusal.error, error_message=refusal.message),
        )

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        return await self._submit(
            lambda context: directories.assign(request, context),
            lambda refusal: AssignReplicasToDirsResponse(error_code=refusal.error),
        )

    # --- topics, configs and the rest --------------------------------------------------------------------------------

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return await self._submit(
            lambda context: topics.create(request, context.image, context.values, self._world.random),
            lambda refusal: replies.create_topics(request, refusal),
        )

    async def delete_topics(self, request: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse:
        enabled = self._static_values.boolean("delete.topic.enable")
        return await self._submit(
            lambda context: topics.delete(request, context.image, enabled, version),
            lambda refusal: replies.delete_topics(request, refusal),
        )

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return await self._submit(
            lambda context: topics.create_partitions(request, context.image, self._world.random),
            lambda refusal: replies.create_partitions(request, refusal),
        )

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await self._submit(
            lambda context: configs.alter(request, context), lambda refusal: replies.alter_configs(request, refusal)
        )

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        return await self._submit(
            lambda context: configs.alter_incrementally(request, context),
            lambda refusal: replies.incremental_alter_configs(request, refusal),
        )

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._submit(
            lambda context: producer_ids.allocate(request, context.image),
            lambda refusal: AllocateProducerIdsResponse(error_code=refusal.error),
        )

    async def update_features(self, request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
        return await self._submit(
            lambda context: features.update(request, context, self.node_id, version),
            lambda refusal: UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message),
        )

    # --- from a decision to the quorum -------------------------------------------------------------------------------

    async def _submit(
        self,
        decide: Callable[[DecisionContext], MetadataDecision[R]],
        refuse: Callable[[Refusal], R],
        *,
        decided: Callable[[int], None] | None = None,
    ) -> R:
        """Decide, store, and answer when it is committed; `decided` hears at once where the facts end."""
        if not self.active:
            return refuse(self._absence())
        try:
            decision = decide(self._context())
            if decision.facts:
                offset = self._append(decision.facts)
                if decided is not None:
                    decided(offset)
        except NotLeader:
            return refuse(self._absence())
        except StorageFailure as failure:
            logger.error("metadata cannot be stored: %s", failure)
            return refuse(_storage_refusal(failure))
        # Also a reply without facts may rest on some that are not committed yet.
        if await self._ledger.settled():
            return decision.reply
        return refuse(self._absence())

    def _absence(self) -> Refusal:
        """Why this node does not decide: another one does, unless there is none and the disk is to blame."""
        damaged = self._quorum.damaged
        if damaged is None or len(self._quorum.voters) > 1:
            return NOT_CONTROLLER
        return _storage_refusal(damaged)

    def carry_out(self, decide: Callable[[DecisionContext], list[Fact]], why: str, level: int = INFO) -> int:
        """Something that nobody waits for; how many facts it came to."""
        if not self.active:
            return 0
        facts = decide(self._context())
        if not facts:
            return 0
        logger.log(level, "%s: %d facts", why, len(facts))
        try:
            self._append(facts)
        except (NotLeader, StorageFailure) as failure:
            logger.error("%s, but that cannot be stored now: %s", why, failure)
            return 0
        return len(facts)

    def write_no_op(self) -> None:
        followed = len(self._quorum.voters) > 1 or any(broker != self.node_id for broker in self.image.brokers)
        if followed and self.active:
            try:
                self._append([NoOpRecord()])
            except (NotLeader, StorageFailure) as failure:
                logger.warning("no sign of life can be stored: %s", failure)

    def _append(self, facts: list[Fact]) -> int:
        offset = self._ledger.append(facts)
        self._chores.stored()
        return offset

    def _context(self) -> DecisionContext:
        image = self._ledger.latest
        assert image is not None
        if self._values_of is not image.configs:
            self._values_of = image.configs
            self._values = self._static_values.with_dynamic(
                image.config(ResourceType.BROKER, str(self.node_id)), image.config(ResourceType.BROKER, "")
            )
        return DecisionContext(image, self._values)


def _storage_refusal(failure: StorageFailure) -> Refusal:
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata cannot be stored: {failure}")
