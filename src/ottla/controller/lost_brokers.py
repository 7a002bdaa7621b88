"""The watch over brokers whose process may be gone.

Owns: which connections are a broker's own, when to look at a broker's address, and what a refusal is worth. Never
knows: how a broker is fenced, sessions, requests.
Invariants: a broker is looked at only when the last of its own connections to this controller has ended, or when this
controller is new and has none of it; one look at a broker at a time, and a bounded number at all. A broker counts as
gone only when every address asked is refused by its machine, none of its connections is open, and no heartbeat came
since the look began. A registration that was heard after it had been given up makes its refusals worth nothing for a
while that doubles each time.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.base.ports import Clock
from ottla.metadata.image import BrokerImage, ClusterImage
from ottla.net.connection import Connection
from ottla.wire.links import LinkDown, Links
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

logger = logging.getLogger("ottla.controller")

# When a refused connection means that a broker is gone, and when it does not: design/0008.
LOOK_SECONDS = 1.0
"""How long a look at a broker's address may take; one that takes longer says nothing."""
PAUSES = (0.01, 0.04, 0.15, 0.5)
"""Between looks at an address that takes a connection and lets it go: so does a process that is just ending, whose
connections the system may close before the port."""
LOOKS_AT_ONCE = 32
FIRST_DOUBT_SECONDS, LONGEST_DOUBT_SECONDS = 10.0, 3600.0


class Chief(Protocol):
    """Who decides what becomes of a broker that is gone."""

    @property
    def node_id(self) -> int: ...

    @property
    def active(self) -> bool: ...

    @property
    def image(self) -> ClusterImage: ...

    def broker_lost(self, broker_id: int, why: str) -> None: ...


class _Doubt(NamedTuple):
    """Refusals of one registration were wrong before."""

    epoch: int
    seconds: float
    until: float


class LostBrokers:
    """Of one controller. `listener` names the addresses that brokers have for each other; None where nobody said."""

    def __init__(self, chief: Chief, links: Links, clock: Clock, listener: str | None) -> None:
        self._chief = chief
        self._links = links
        self._clock = clock
        self._listener = listener
        self._owners: dict[Connection, int] = {}
        self._open: dict[int, int] = {}
        """How many connections each broker has here."""
        self._heard: dict[int, float] = {}
        self._given_up: dict[int, int] = {}
        """The registrations that were given up for a refusal, and not heard of since."""
        self._doubts: dict[int, _Doubt] = {}
        self._looks: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()
        self._room = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._stopped = False

    # --- what connections tell ---

    def came_by(self, connection: Connection, broker_id: int) -> None:
        """A request that only the process of this broker sends came by this connection."""
        if broker_id >= 0 and connection not in self._owners:
            self._owners[connection] = broker_id
            self._open[broker_id] = self._open.get(broker_id, 0) + 1

    def heartbeat(self, broker_id: int, epoch: int) -> None:
        """A registration shows that it lives."""
        broker = self._chief.image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return
        now = self._clock.monotonic()
        self._heard[broker_id] = now
        if self._given_up.pop(broker_id, None) != epoch:
            return
        doubt = self._doubts.get(broker_id)
        again = doubt is not None and doubt.epoch == epoch
        seconds = min(2 * doubt.seconds, LONGEST_DOUBT_SECONDS) if doubt is not None and again else FIRST_DOUBT_SECONDS
        self._doubts[broker_id] = _Doubt(epoch, seconds, now + seconds)
        logger.warning(
            "broker %d lives although its address refuses this controller: refusals count for nothing for %g s",
            broker_id,
            seconds,
        )

    def closed(self, connection: Connection) -> None:
        broker_id = self._owners.pop(connection, None)
        if broker_id is None:
            return
        self._open[broker_id] -= 1
        if not self._open[broker_id]:
            del self._open[broker_id]
            self._look_at(broker_id)

    # --- looking ---

    def look_at_all(self) -> None:
        """This controller is new: nobody knows what the one before has heard."""
        for broker_id in self._chief.image.brokers:
            self._look_at(broker_id)

    def _look_at(self, broker_id: int) -> None:
        if self._stopped or self._suspect(broker_id) is None:
            return
        if broker_id in self._looks:
            self._again.add(broker_id)
            return
        task = self._looks[broker_id] = asyncio.get_running_loop().create_task(self._look(broker_id))
        task.add_done_callback(lambda done: self._looked(broker_id, done))

    def _looked(self, broker_id: int, task: "asyncio.Task[None]") -> None:
        self._looks.pop(broker_id, None)
        if not task.cancelled() and task.exception() is not None:
            logger.error("looking for broker %d failed", broker_id, exc_info=task.exception())

    def _suspect(self, broker_id: int) -> BrokerImage | None:
        """The broker, if it may be gone and its refusal would say so."""
        broker = self._chief.image.brokers.get(broker_id)
        if not self._chief.active or broker is None or broker.fenced or not broker.listeners:
            return None
        if broker_id == self._chief.node_id or broker_id in self._open:
            return None
        doubt = self._doubts.get(broker_id)
        if doubt is not None and doubt.epoch == broker.epoch and self._clock.monotonic() < doubt.until:
            return None
        return broker

    async def _look(self, broker_id: int) -> None:
        while (broker := self._suspect(broker_id)) is not None:
            self._again.discard(broker_id)
            began = self._clock.monotonic()
            async with self._room:
                why = await self._refusal(self._addresses(broker))
            current = self._suspect(broker_id)
            heard = self._heard.get(broker_id, -math.inf) >= began
            if why is not None and not heard and current is not None and current.epoch == broker.epoch:
                self._given_up[broker_id] = broker.epoch
                self._chief.broker_lost(broker_id, why)
            if broker_id not in self._again:
                return

    def _addresses(self, broker: BrokerImage) -> Sequence[tuple[str, int]]:
        """Where brokers reach it; where that is not known here, all of its addresses have to say the same."""
        between = None if self._listener is None else broker.listeners.get(self._listener)
        return tuple(broker.listeners.values()) if between is None else (between,)

    async def _refusal(self, addresses: Sequence[tuple[str, int]]) -> str | None:
        """What the machine says if nobody listens at any of these."""
        why = None
        for address in addresses:
            why = await self._refusal_of(address)
            if why is None:
                return None
        return why

    async def _refusal_of(self, address: tuple[str, int]) -> str | None:
        deadline = self._clock.monotonic() + LOOK_SECONDS
        for pause in (*PAUSES, None):
            link = self._links.link(*address)
            try:
                await link.ask(
                    ApiVersionsRequest(client_software_name="ottla", client_software_version="node"),
                    ApiVersionsResponse,
                    LOOK_SECONDS,
                )
                return None
            except LinkDown as problem:
                if problem.refused:
                    return str(problem)
            finally:
                link.close()
            if pause is None or self._clock.monotonic() + pause >= deadline:
                return None
            await asyncio.sleep(pause)
        return None

    def stop(self) -> None:
        """Connections that end from here on end because this node does."""
        self._stopped = True
        for task in self._looks.values():
            task.cancel()
