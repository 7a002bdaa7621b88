"""What becomes of an office whose holder refuses connections: who says so, and who ends it.

Owns: this node's report (`/ottla/refusals/N`, which goes with its session), counting the reports, and how often this
node ends an office. Never knows: elections, what is followed. Invariants: an office is ended only when most of the
living brokers that should follow its holder report that its machine refuses them; a report is withdrawn when the holder
is reached again, and counts for the one office that it names; whoever ended an office ends none for a session, and
twice as long each time that it happens again soon.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.zookeeper import layout
from ottla.zookeeper.layout import BadZnode, Chosen
from ottla.zookeeper.ports import Ensemble, EnsembleRefusal, Unreachable
from ottla.zookeeper.translation import Remove

logger = logging.getLogger("ottla.zookeeper")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Between two counts of the reports on one office."""
LONGEST_ABSTENTION = 3600.0


# The same judgement of a controller on ZooKeeper: design/0008.
class Deposing:
    """Of one node; see the module."""

    def __init__(self, session: Ensemble, node_id: int, now: Callable[[], float]) -> None:
        self._session = session
        self._node_id = node_id
        self._path = f"{layout.REFUSALS}/{node_id}"
        self._now = now
        self._reported: tuple[int, bytes] | None = None
        """The session in which this node reports, and the office that it reports on."""
        self._about: Chosen | None = None
        self._pause = FIRST_PAUSE
        self._next_count = 0.0
        self._abstention = 0.0
        self._abstains_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def refused(self, chosen: Chosen) -> None:
        """The controller's machine says that nobody listens there."""
        if chosen != self._about:
            self._about = chosen
            self._forget_pause()
        if self._task is None and self._now() >= self._next_count:
            self._begin(self._report(chosen))

    def reached(self) -> None:
        """The controller answers this node."""
        if self._reported is not None and self._task is None:
            self._begin(self._withdraw())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if task.cancelled() or (problem := task.exception()) is None:
            return
        if isinstance(problem, Unreachable | EnsembleRefusal | BadZnode):
            logger.debug("an office without a holder stays until its session ends: %s", problem)
        else:
            logger.error("an office without a holder stays until its session ends", exc_info=problem)

    async def _report(self, chosen: Chosen) -> None:
        epoch = await self._session.get(layout.CONTROLLER_EPOCH)
        found = await self._session.get(layout.CONTROLLER)
        if epoch is None or found is None or found.stat.owner == self._session.identity:
            return
        if layout.read_controller(found.data) != chosen:
            return
        # Every holding of the office has an epoch of its own.
        office = epoch.data
        await self._name(office)
        reporting, following = await self._count(chosen, office)
        self._next_count = self._now() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if 2 * reporting <= following or self._now() < self._abstains_until:
            return
        logger.info(
            "the controller on node %d is gone: %d of %d that should follow it are refused",
            chosen.broker_id,
            reporting,
            following,
        )
        self._abstain()
        # The next one counts the epoch up in the same step in which it takes the office.
        await self._session.commit([Remove(layout.CONTROLLER)], checks=((layout.CONTROLLER_EPOCH, epoch.stat.version),))

    async def _name(self, office: bytes) -> None:
        """Be among those who report on this office."""
        session = self._session.identity
        if self._reported == (session, office):
            return
        self._forget_pause()
        await self._session.remove(self._path)
        await self._session.create(self._path, office, ephemeral=True)
        self._reported = session, office

    async def _count(self, chosen: Chosen, office: bytes) -> tuple[int, int]:
        """How many report on the office, and how many should follow its holder."""
        reporting: set[int] = set()
        for name in await self._session.children(layout.REFUSALS):
            found = await self._session.get(f"{layout.REFUSALS}/{name}")
            if found is not None and found.data == office:
                reporting.add(int(name))
        living = {int(name) for name in await self._session.children(layout.BROKER_IDS)}
        # One that reports is there, also before its broker is; a new process with the holder's number is its successor.
        following = (living | reporting) - ({chosen.broker_id} - {self._node_id})
        return len(reporting & following), len(following)

    async def _withdraw(self) -> None:
        await self._session.remove(self._path)
        self._reported = None
        self._forget_pause()

    def _forget_pause(self) -> None:
        self._pause = FIRST_PAUSE
        self._next_count = 0.0

    def _abstain(self) -> None:
        now, session = self._now(), self._session.session_seconds
        soon = now < self._abstains_until + self._abstention
        self._abstention = min(2 * self._abstention, LONGEST_ABSTENTION) if soon else session
        self._abstains_until = now + self._abstention
