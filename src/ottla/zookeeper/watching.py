"""What a controller watches in the tree: who lives, and what other programs ask for.

Owns: the watches of one controller's term, and reading again whenever one fires. Never knows: what the controller
decides; it hears of everything through `ControllerActions`. Invariants: between two looks nothing is missed, because
each look sets the next watch first; a request that was placed in the tree is removed when it was carried out, or cannot
be, and by nobody but the controller of this epoch; what other programs wrote into the state itself is not merged but
makes the controller begin anew from the tree.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ottla.base.ports import Clock
from ottla.metadata.image import ClusterImage, ConfigKey
from ottla.zookeeper import layout
from ottla.zookeeper.layout import BadZnode, Move
from ottla.zookeeper.ports import Ensemble, EnsembleRefusal, Unreachable, Watch
from ottla.zookeeper.translation import ANY_VERSION, Operation, Remove, Write

logger = logging.getLogger("ottla.zookeeper")

AGAIN_SECONDS = 0.2
GATHER_SECONDS = 0.5
NOTIFICATION_MS = 15 * 60 * 1000
"""How long a notification stays in the tree, as with Kafka."""


class ControllerActions(Protocol):
    """Who carries out what is found. Called on the loop."""

    def broker_gone(self, broker_id: int, why: str) -> None:
        """A broker's session ended, or it left."""
        ...

    async def delete_topics(self, topics: Sequence[str]) -> None: ...

    async def reassign(self, wanted: Sequence[Move]) -> None: ...

    async def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None: ...


class ControllerTerm(Protocol):
    """The controller's own view of what is in the tree."""

    @property
    def latest(self) -> ClusterImage:
        """With everything that was decided, stored or not."""
        ...

    @property
    def settled(self) -> ClusterImage:
        """What is stored."""
        ...

    def found(self, path: str) -> None:
        """Another program created this znode."""
        ...

    def removed(self, path: str) -> None:
        """A request was taken out of the tree."""
        ...

    def begin_anew(self, why: str) -> None:
        """The tree does not say what this controller believes."""
        ...


class Watching:
    """All watches of one office. `begin`, then `start`; `stop` at its end.

    `fence` is a znode and its version: while it has that, the office lasts.
    """

    def __init__(
        self, session: Ensemble, orders: ControllerActions, office: ControllerTerm, clock: Clock, fence: tuple[str, int]
    ) -> None:
        self._session = session
        self._fence = fence
        self._orders = orders
        self._office = office
        self._clock = clock
        self.present: dict[int, int] = {}
        """Who lives: the epoch of the registration by broker."""
        self._tasks: list[asyncio.Task[None]] = []
        self._brokers_changed = asyncio.Event()
        self._seen: dict[str, int] = {}
        """When each notification about settings was made that was looked at."""
        self._moves_changed = asyncio.Event()
        self._moves_changed.set()
        self._moving: set[Move] = set()
        """What the request for other replicas lists and is under way."""

    async def begin(self) -> None:
        """Know who lives. Raises Unreachable, Refused."""
        await self._read_brokers(self._brokers_changed.set)

    def start(self) -> None:
        for look, changed in (
            (self._brokers, self._brokers_changed),
            (self._topics, None),
            (self._deletions, None),
            (self._elections, None),
        ):
            self._tasks.append(asyncio.create_task(self._watch(look, changed)))
        self._tasks.append(asyncio.create_task(self._watch(self._reassignments, self._moves_changed, GATHER_SECONDS)))
        for look in (self._config_changes, self._in_sync_changes):
            # Most of them are this controller's own, and many come together.
            self._tasks.append(asyncio.create_task(self._watch(look, None, GATHER_SECONDS)))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def stored(self) -> None:
        """Another decision is in the tree: a move that somebody waits for may be over with it."""
        if self._moving:
            self._moves_changed.set()

    async def _watch(
        self, look: Callable[[Watch], Awaitable[None]], begun: asyncio.Event | None, gather: float = 0.0
    ) -> None:
        """Look, and again whenever the watch that the last look set has fired, so many seconds later."""
        changed = begun or asyncio.Event()
        if begun is not None:
            await begun.wait()
        while True:
            changed.clear()
            try:
                await look(changed.set)
                await changed.wait()
                await asyncio.sleep(gather)
            except (Unreachable, EnsembleRefusal) as problem:
                # The connection is gone, and with it perhaps this office; if not, there is more to see afterwards.
                logger.debug("a look at ZooKeeper failed: %s", problem)
                await asyncio.sleep(AGAIN_SECONDS)
            except BadZnode as problem:
                logger.error("what was placed in ZooKeeper cannot be used: %s", problem)
                await changed.wait()

    # --- brokers ---

    async def _brokers(self, watch: Watch) -> None:
        before = self.present
        await self._read_brokers(watch)
        for broker_id in before:
            if broker_id not in self.present:
                self._orders.broker_gone(broker_id, "its session with ZooKeeper ended")

    async def _read_brokers(self, watch: Watch) -> None:
        present: dict[int, int] = {}
        for name in await self._session.children(layout.BROKER_IDS, watch):
            found = await self._session.get(f"{layout.BROKER_IDS}/{name}") if name.isdigit() else None
            if found is not None:
                try:
                    present[int(name)] = layout.read_presence(int(name), found.data).epoch
                except BadZnode as problem:
                    logger.error("a broker's znode cannot be read: %s", problem)
        self.present = present

    # --- state that others changed ---

    async def _topics(self, watch: Watch) -> None:
        foreign = self._unknown(await self._session.children(layout.TOPICS, watch))
        if foreign:
            # One of this controller's own may be on its way in or out; another program's is still there later.
            await asyncio.sleep(GATHER_SECONDS)
            foreign &= self._unknown(await self._session.children(layout.TOPICS))
        if foreign:
            self._office.begin_anew(f"another program created the topic {min(foreign)}")

    def _unknown(self, topics: Sequence[str]) -> set[str]:
        return set(topics) - set(self._office.latest.topics) - set(self._office.settled.topics)

    async def _config_changes(self, watch: Watch) -> None:
        names = await self._session.children(layout.CONFIG_CHANGES, watch)
        self._seen = {name: created for name, created in self._seen.items() if name in names}
        for name in names:
            path = f"{layout.CONFIG_CHANGES}/{name}"
            if name not in self._seen:
                found = await self._session.get(path)
                if found is None:
                    continue
                self._seen[name] = found.stat.created_ms
                key = layout.read_config_change(path, found.data)
                if key is not None and await self._differs(key):
                    await asyncio.sleep(GATHER_SECONDS)
                    if await self._differs(key):
                        self._office.begin_anew(f"another program changed {layout.config_path(*key)}")
            if self._clock.now_ms() - self._seen[name] > NOTIFICATION_MS:
                await self._session.remove(path)

    async def _differs(self, key: ConfigKey) -> bool:
        """Whether settings in the tree are neither those that are stored nor those on their way."""
        path = layout.config_path(*key)
        znode = await self._session.get(path)
        values = {} if znode is None else layout.read_config(path, znode.data)
        said = [dict(image.configs.get(key, {})) for image in (self._office.settled, self._office.latest)]
        return values not in said

    async def _in_sync_changes(self, watch: Watch) -> None:
        """Kafka's controllers took them away when they had seen them, and so does this one."""
        seen: list[Operation] = []
        for name in await self._session.children(layout.IN_SYNC_CHANGES, watch):
            path = f"{layout.IN_SYNC_CHANGES}/{name}"
            found = await self._session.get(path)
            if found is None:
                continue
            seen.append(Remove(path))
            if not layout.is_ours(path, found.data):
                await self._compare(layout.read_partitions(path, found.data))
        if seen:
            await self._session.commit(seen, [self._fence])

    async def _compare(self, partitions: Sequence[tuple[str, int]]) -> None:
        for topic, number in partitions:
            state = await self._session.get(layout.state_path(topic, number))
            partition = self._office.latest.partition(topic, number)
            if state is not None and partition is not None and state.stat.version > partition.partition_epoch:
                self._office.begin_anew(f"another program changed the in-sync set of {topic}-{number}")

    # --- requests ---

    async def _deletions(self, watch: Watch) -> None:
        names = await self._session.children(layout.DELETE_TOPICS, watch)
        for name in names:
            self._office.found(f"{layout.DELETE_TOPICS}/{name}")
        wanted = [name for name in names if name in self._office.latest.topics]
        if wanted:
            logger.info("ZooKeeper asks for the end of %s", ", ".join(wanted))
            await self._orders.delete_topics(wanted)
        for name in names:
            path = f"{layout.DELETE_TOPICS}/{name}"
            if name not in self._office.settled.topics or name in self._office.latest.topics:
                # Done or refused. A removal that is on its way takes the request with it.
                await self._take_away(path)
                self._office.removed(path)

    async def _reassignments(self, watch: Watch) -> None:
        """The request stays, with what is left of it, until every partition it lists has moved: tools look there."""
        path = layout.REASSIGN_PARTITIONS
        found = await self._session.get(path, watch)
        if found is None:
            self._moving = set()
            return
        try:
            listed = layout.read_reassignment(found.data)
        except BadZnode:
            await self._take_away(path)
            raise
        begun = [move for move in listed if move not in self._moving]
        if begun:
            logger.info("ZooKeeper asks for the reassignment of %d partitions", len(begun))
            await self._orders.reassign(begun)
        left = [move for move in listed if self._is_moving(move)]
        self._moving = set(left)
        if not left:
            await self._take_away(path, found.stat.version)
        elif len(left) < len(listed):
            written = Write(path, layout.reassignment_znode(left), found.stat.version)
            await self._session.commit([written], [self._fence])

    def _is_moving(self, move: Move) -> bool:
        """Whether a partition is on its way there: neither refused nor done, nor sent elsewhere since."""
        topic, number, replicas = move
        partition = self._office.settled.partition(topic, number)
        if partition is None or not (partition.adding or partition.removing):
            return False
        return partition.replicas == (*replicas, *partition.removing)

    async def _elections(self, watch: Watch) -> None:
        found = await self._session.get(layout.PREFERRED_ELECTION, watch)
        if found is None:
            return
        try:
            partitions = layout.read_partitions(layout.PREFERRED_ELECTION, found.data)
        except BadZnode:
            await self._take_away(layout.PREFERRED_ELECTION)
            raise
        logger.info("ZooKeeper asks for the preferred leaders of %d partitions", len(partitions))
        await self._orders.elect_preferred(partitions)
        await self._take_away(layout.PREFERRED_ELECTION)

    async def _take_away(self, path: str, version: int = ANY_VERSION) -> None:
        """Only while this office lasts: the next controller has not carried the request out."""
        checks = [self._fence]
        if version != ANY_VERSION:
            checks.append((path, version))
        try:
            await self._session.commit([Remove(path)], checks)
        except EnsembleRefusal as refusal:
            if not refusal.missing:
                raise
