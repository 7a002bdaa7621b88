"""A broker's standing in the cluster: it registers, lives by heartbeats, and leaves with notice.

Owns: the registration's epoch and the rhythm of heartbeats. Never knows: elections, how the controller is reached.
Invariants: one heartbeat at a time; a broker that learns that its registration does not count any more registers anew;
leaving ends by its deadline, whatever the controller says.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.broker.controller_channel import ControllerUnavailable
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger("ottla.broker")

RETRY_SECONDS = 0.1
LEAVE_SECONDS = 30.0
"""How long a leaving broker waits until others lead what it led."""
_LATER = (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.KAFKA_STORAGE_ERROR)
SILENCE_SECONDS = 2.0
"""After this silence a controller is not waited for: when a whole cluster stops, the last brokers have none."""
_ANEW = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


class Presence(NamedTuple):
    """What a broker says of itself when it registers."""

    incarnation_id: bytes
    """New with every start of the process."""
    listeners: Mapping[str, tuple[str, int]]
    rack: str | None
    directories: Sequence[bytes]
    previous_epoch: int = -1
    """The epoch of the registration that ended without losing anything; -1 when that is not certain."""


class CannotRegister(Exception):
    """The controller does not take this broker; the message says why."""


class Lifecycle:
    """`register` before the logs are loaded, `serve` when they are, `leave` before the broker stops."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._presence: Presence | None = None
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._leaving = False
        self._offline: tuple[bytes, ...] = ()

    @property
    def fenced(self) -> bool:
        return not self._unfenced.is_set()

    async def register(self, presence: Presence) -> None:
        """Be part of the cluster, fenced at first, and know everything that was committed before that.

        Raises CannotRegister, ControllerUnavailable.
        """
        self._presence = presence
        self._broker.controller.subscribe(self._published)
        await self._register()
        await self._catch_up()

    # A broker that was killed registers as one that lost nothing, until it finds otherwise: design/0013.
    async def vouch_for_nothing(self, incarnation_id: bytes) -> None:
        """What was found in the logs is not what the last life left there: be another broker than the one that had it.

        Before `serve`, so while the controller does not count on it: nobody was elected for what is not there. Raises
        CannotRegister, ControllerUnavailable.
        """
        assert self._presence is not None, "register comes first"
        self._presence = self._presence._replace(incarnation_id=incarnation_id, previous_epoch=-1)
        await self._register()
        await self._catch_up()

    async def _catch_up(self) -> None:
        while self._broker.controller.image.offset < self._broker.context.broker_epoch:
            self._moved.clear()
            await self._moved.wait()

    async def serve(self) -> None:
        """Send heartbeats from here on, and wait until the controller counts on this broker."""
        await self._mark()
        self._task = self._broker.loop.create_task(self._beat())
        await self._unfenced.wait()

    async def _register(self) -> None:
        """After a crash the process before this one still counts as alive: its session has to end first.

        A controller that has no room to store the registration may find some.
        """
        loop = self._broker.loop
        deadline = loop.time() + self._broker.values.integer("initial.broker.registration.timeout.ms") / 1000
        while (error := await self._ask_to_register()) in _LATER:
            if loop.time() >= deadline:
                break
            await asyncio.sleep(RETRY_SECONDS)
        if error != ErrorCode.NONE:
            raise CannotRegister(_why_not(self._broker.node_id, error))

    async def _mark(self) -> None:
        """The directories say who uses them, so that a next life can tell what it finds there."""
        epoch = self._broker.context.broker_epoch
        for failure in await self._broker.run_blocking(lambda: self._broker.store.mark_running(epoch)):
            self._broker.storage_failed(failure)

    async def _ask_to_register(self) -> ErrorCode:
        broker = self._broker
        presence = self._presence
        assert presence is not None, "register comes first"
        answer = await broker.controller.register_broker(
            BrokerRegistrationRequest(
                broker_id=broker.node_id,
                cluster_id=broker.controller.image.cluster_id,
                incarnation_id=presence.incarnation_id,
                listeners=[
                    Listener(name=name, host=host, port=port) for name, (host, port) in presence.listeners.items()
                ],
                features=[
                    Feature(name=name, min_supported_version=first, max_supported_version=last)
                    for name, (first, last) in broker.supported_features.items()
                ],
                rack=presence.rack,
                log_dirs=sorted(each for each in presence.directories if each not in self._offline),
                previous_broker_epoch=presence.previous_epoch,
            )
        )
        if answer.error_code == ErrorCode.NONE:
            broker.context.broker_epoch = answer.broker_epoch
        return ErrorCode(answer.error_code)

    def directory_failed(self, directory_id: bytes) -> None:
        """Tell the controller with the next heartbeat, which is sent now."""
        self._offline = (*self._offline, directory_id)
        self.hurry()

    def hurry(self) -> None:
        """Something happened to this broker's standing: the next heartbeat is sent now."""
        self._moved.set()

    def _published(self, delta: ClusterDelta, image: ClusterImage) -> None:
        # What a fenced broker waited for may have come; and one that leaves waits until the others have seen it.
        leaving = (image.brokers.get(broker_id) for broker_id in delta.changed_brokers)
        if self.fenced or any(broker is not None and broker.in_controlled_shutdown for broker in leaving):
            self._moved.set()

    async def _beat(self) -> None:
        interval = self._broker.values.integer("broker.heartbeat.interval.ms") / 1000
        offline = 0
        while not self._leaving:
            self._moved.clear()
            pause = interval
            try:
                if len(self._offline) != offline:
                    offline = len(self._offline)
                    await self._mark()
                answer = await self._send(want_shut_down=False)
                error = ErrorCode(answer.error_code)
                if error in _ANEW:
                    logger.warning(
                        "the registration of this broker does not count any more (%s): registers anew", error.name
                    )
                    self._fence()
                    self._broker.replicas.registration_changed(False)
                    await self._register()
                    await self._mark()
                    continue
                if error != ErrorCode.NONE:
                    pause = RETRY_SECONDS
                elif answer.is_fenced:
                    self._fence()
                    if answer.is_caught_up:
                        pause = RETRY_SECONDS
                elif self.fenced:
                    logger.info(
                        "the controller counts on this broker from here on (epoch %d)",
                        self._broker.context.broker_epoch,
                    )
                    self._unfenced.set()
                    self._broker.replicas.registration_changed(True)
            except (ControllerUnavailable, CannotRegister) as problem:
                logger.warning("the controller cannot be told that this broker lives: %s", problem)
                pause = RETRY_SECONDS
            await self._pause(pause)

    def _fence(self) -> None:
        if not self.fenced:
            logger.warning("the controller has fenced this broker: others lead until it is let in again")
            self._unfenced.clear()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            pass

    async def _send(self, want_shut_down: bool) -> BrokerHeartbeatResponse:
        broker = self._broker
        return await broker.controller.broker_heartbeat(
            BrokerHeartbeatRequest(
                broker_id=broker.node_id,
                broker_epoch=broker.context.broker_epoch,
                current_metadata_offset=broker.image.offset,
                want_fence=False,
                want_shut_down=want_shut_down,
                offline_log_dirs=list(self._offline),
            )
        )

    async def leave(self) -> None:
        """Let others lead what this broker leads, as long as that takes, but not for ever."""
        self._leaving = True
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if not self._broker.values.boolean("controlled.shutdown.enable"):
            return
        loop = self._broker.loop
        deadline = loop.time() + LEAVE_SECONDS
        try:
            while loop.time() < deadline:
                self._moved.clear()
                async with asyncio.timeout(SILENCE_SECONDS):
                    answer = await self._send(want_shut_down=True)
                if answer.should_shut_down or answer.error_code != ErrorCode.NONE:
                    return
                await self._pause(RETRY_SECONDS)
            logger.warning("leaves although it still leads partitions: others did not take over in time")
        except (TimeoutError, ControllerUnavailable):
            logger.warning("leaves without notice: no controller answers")


def _why_not(node_id: int, error: ErrorCode) -> str:
    reasons = {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION: f"another broker that lives has the id {node_id} (node.id)",
        ErrorCode.INCONSISTENT_CLUSTER_ID: "its data belongs to another cluster",
        ErrorCode.INVALID_REGISTRATION: "one of its data directories has the id (directory.id in meta.properties) of a "
        "directory of another broker, so it is a copy; use an empty one in its place",
        ErrorCode.UNSUPPORTED_VERSION: "the cluster uses features that this release does not know",
    }
    return f"The cluster does not take this broker: {reasons.get(error, error.name)}."
