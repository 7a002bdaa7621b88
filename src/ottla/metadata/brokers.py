"""Brokers: who is part of the cluster, where it can be reached, and whether it takes part.

Owns: BrokerRegistration, BrokerHeartbeat, UnregisterBroker and ControllerRegistration, with Kafka's checks, and the
facts that follow, those about partitions included. Never knows: when a broker was last heard of; who asks says so.
Invariants: the epoch of a registration is the offset of its fact, so a later registration always has a greater one; a
broker takes part only when it has seen its own registration; one that stops leads nothing when it may stop.
"""

from enum import Enum
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.metadata import partitions
from ottla.metadata.decision import DecisionContext, MetadataDecision, Refusal
from ottla.metadata.facts import Fact
from ottla.metadata.image import BrokerImage, ClusterImage
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.stored.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

FENCE = 1
UNFENCE = -1
SHUTTING_DOWN = 1
METADATA_FEATURE = "metadata.version"
FIRST_METADATA_VERSION = 1
"""What a broker supports that does not say."""


class HeartbeatState(NamedTuple):
    """What is known of a broker that sends a heartbeat, beyond the image."""

    shutdown_offset: int | None
    """Where the facts end that took its leaderships away, once it is shutting down."""
    lowest_offset: int
    """How far every other active broker has come."""


def is_current(broker_id: int, epoch: int, image: ClusterImage) -> bool:
    """Whether this is the registration that counts."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.epoch == epoch


# --- registration ----------------------------------------------------------------------------------------------------


class RegisteredProcess(Enum):
    """What is known of the process that has an id which another one asks for."""

    GONE = "gone"
    """Fenced, or silent for longer than a session."""
    UNHEARD = "unheard"
    """It had joined before this controller began; whether it still lives has yet to be heard."""
    ALIVE = "alive"


def register(
    request: BrokerRegistrationRequest, context: DecisionContext, epoch: int, holder: RegisteredProcess
) -> MetadataDecision[BrokerRegistrationResponse]:
    """BrokerRegistration; `epoch` is the offset of the next fact."""
    existing = context.image.brokers.get(request.broker_id)
    error = _registration_error(request, existing, context.image, holder)
    if error != ErrorCode.NONE:
        return MetadataDecision([], BrokerRegistrationResponse(error_code=error))
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        # The same process says something new of itself.
        lost = set(existing.directories) - set(request.log_dirs)
        facts = [
            *partitions.without_directories(existing, lost, context),
            _registered(request, existing.epoch, existing),
        ]
        return MetadataDecision(facts, BrokerRegistrationResponse(broker_epoch=existing.epoch))
    # One that nobody knows is in no in-sync set, but for trees that Kafka kept in ZooKeeper: there the set is believed.
    clean = existing is None or existing.epoch == request.previous_broker_epoch
    facts = [
        _registered(request, epoch, None),
        *partitions.stopped(request.broker_id, context, clean=clean, directories=request.log_dirs),
    ]
    return MetadataDecision(facts, BrokerRegistrationResponse(broker_epoch=epoch))


def _registered(request: BrokerRegistrationRequest, epoch: int, existing: BrokerImage | None) -> Fact:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        ],
        features=[
            BrokerFeature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ],
        rack=request.rack,
        fenced=existing is None or existing.fenced,
        in_controlled_shutdown=existing is not None and existing.in_controlled_shutdown,
        log_dirs=sorted(request.log_dirs),
    )


def _registration_error(
    request: BrokerRegistrationRequest, existing: BrokerImage | None, image: ClusterImage, holder: RegisteredProcess
) -> ErrorCode:
    if request.cluster_id != image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if existing is not None and not _may_have_id(request, existing, holder):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if request.is_migrating_zk_broker:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    directories = request.log_dirs
    if (
        not directories
        or len(set(directories)) != len(directories)
        or any(partitions.is_reserved(directory) for directory in directories)
        or any(
            directory in other.directories
            for other in image.brokers.values()
            if other.id != request.broker_id
            for directory in directories
        )
    ):
        return ErrorCode.INVALID_REGISTRATION
    supported = {METADATA_FEATURE: (FIRST_METADATA_VERSION, FIRST_METADATA_VERSION)}
    supported |= {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    for name, level in image.features.items():
        first, last = supported.get(name, (0, 0))
        if not first <= level <= last:
            return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def _may_have_id(request: BrokerRegistrationRequest, existing: BrokerImage, holder: RegisteredProcess) -> bool:
    if holder is RegisteredProcess.GONE or request.incarnation_id == existing.incarnation_id:
        return True
    # Two processes cannot have one address. Where nothing was heard of the other, this one came after it.
    return holder is RegisteredProcess.UNHEARD and existing.listeners == {
        each.name: (each.host, each.port) for each in request.listeners
    }


def register_controller(
    request: ControllerRegistrationRequest, image: ClusterImage
) -> MetadataDecision[ControllerRegistrationResponse]:
    """ControllerRegistration: a controller says where it is and what it can do; the same again is no fact."""
    known = image.controllers.get(request.controller_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        return MetadataDecision([], ControllerRegistrationResponse(error_message=None))
    fact = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        ],
        features=[
            ControllerFeature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ],
    )
    return MetadataDecision([fact], ControllerRegistrationResponse(error_message=None))


def unregister(
    request: UnregisterBrokerRequest, context: DecisionContext
) -> MetadataDecision[UnregisterBrokerResponse]:
    """UnregisterBroker: it does not come back, or only as a new one."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        refusal = Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered"
        )
        return MetadataDecision([], UnregisterBrokerResponse(error_code=refusal.error, error_message=refusal.message))
    facts = partitions.forgotten(broker.id, context)
    facts.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return MetadataDecision(facts, UnregisterBrokerResponse(error_message=None))


# --- taking part -----------------------------------------------------------------------------------------------------


def fence(broker: BrokerImage, context: DecisionContext) -> list[Fact]:
    """The broker takes part no longer: others lead, and it is in sync with nobody."""
    facts = partitions.without_broker(broker.id, context)
    facts.append(BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE))
    return facts


def heartbeat(
    request: BrokerHeartbeatRequest, context: DecisionContext, standing: HeartbeatState
) -> MetadataDecision[BrokerHeartbeatResponse]:
    """BrokerHeartbeat: a broker lives, and says whether it wants to take part, to pause or to stop."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return MetadataDecision([], BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    caught_up = request.current_metadata_offset >= broker.epoch
    fenced, stop = broker.fenced, False
    facts: list[Fact] = []
    if broker.fenced:
        stop = request.want_shut_down
        if not stop and not request.want_fence and caught_up:
            fenced = False
            facts = [
                BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE),
                *partitions.with_broker(broker.id, context),
            ]
    elif request.want_fence or _may_stop(request, broker, context.image, standing):
        fenced, stop = True, request.want_shut_down or broker.in_controlled_shutdown
        facts = fence(broker, context)
    elif request.want_shut_down and not broker.in_controlled_shutdown:
        facts = [
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=SHUTTING_DOWN
            ),
            *partitions.without_broker(broker.id, context),
        ]
    facts += _directories(request, broker, facts, context)
    reply = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=fenced, should_shut_down=stop)
    return MetadataDecision(facts, reply)


def _may_stop(
    request: BrokerHeartbeatRequest, broker: BrokerImage, image: ClusterImage, standing: HeartbeatState
) -> bool:
    """A broker may stop when it leads nothing and everybody knows."""
    if not (request.want_shut_down or broker.in_controlled_shutdown) or partitions.leads_any(broker.id, image):
        return False
    return standing.shutdown_offset is None or standing.shutdown_offset <= standing.lowest_offset


def _directories(
    request: BrokerHeartbeatRequest, broker: BrokerImage, decided: list[Fact], context: DecisionContext
) -> list[Fact]:
    """What a heartbeat says of directories: some stopped working, some shall get no new replicas."""
    facts: list[Fact] = []
    lost = [directory for directory in request.offline_log_dirs if directory in broker.directories]
    if lost:
        facts = partitions.without_directories(broker, lost, context.after(decided))
        remaining = [directory for directory in broker.directories if directory not in lost]
        facts.append(BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=remaining))
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and tuple(sorted(cordoned)) != broker.cordoned:
        facts.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=sorted(cordoned)
            )
        )
    return facts
