"""One node's part in a cluster that ZooKeeper coordinates: the other way to keep the metadata.

Owns: the election on `/controller`, whom this node follows, and the face that controller and broker see, which is that
of `quorum.node`. Never knows: what facts say, what a broker does. Invariants: only the holder of the newest
`/controller_epoch` can write (`zookeeper.leadership`); whoever is deposed, cannot reach ZooKeeper for as long as a
session lasts, or finds something else in the tree than it believes, leads no longer and begins anew from the tree;
every node is told the same decisions in the same order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure, World
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage
from ottla.metadata.quorum_events import NotLeader, QuorumEvents, Stored, UnreadableMetadata
from ottla.raft.log_view import LogPosition
from ottla.raft.messages import Answer, Believed, Fetch, Fetched, FetchedSnapshot, FetchSnapshot
from ottla.raft.translation import misdirected, read_request, write_answer
from ottla.records.control import Endpoint, Voter
from ottla.wire.links import Links
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.wire.schema import Root
from ottla.zookeeper import layout
from ottla.zookeeper.deposing import Deposing
from ottla.zookeeper.feed import Feed
from ottla.zookeeper.follower import Follower
from ottla.zookeeper.followers import Followers
from ottla.zookeeper.layout import BadZnode, Chosen
from ottla.zookeeper.leadership import PORTION_BYTES, Leadership, Term
from ottla.zookeeper.loading import load_tree
from ottla.zookeeper.ports import ConnectionState, Ensemble, EnsembleRefusal, Unreachable
from ottla.zookeeper.translation import Create, Loaded, Operation, Tree, TreeWriter, Write, portions, read_tree
from ottla.zookeeper.unsupported import unsupported
from ottla.zookeeper.watching import ControllerActions, Watching

logger = logging.getLogger("ottla.zookeeper")

PAUSE_SECONDS = 0.1
LONG_PAUSE_SECONDS = 2.0
OFFSETS_IN_EPOCH = 1 << 40
"""Each controller counts from a place of its own, above all before it."""


class ZooKeeperIdentity(NamedTuple):
    """Who this node is, and where its controller listens."""

    cluster_id: str
    node_id: int
    endpoint: Endpoint


class ZooKeeperPlatform(NamedTuple):
    """What it runs on."""

    loop: asyncio.AbstractEventLoop
    world: World
    run_blocking: Callable[[Callable[[], None]], Awaitable[None]]
    links: Links


# The quorum's twin: the same face, facts kept as one transaction on znodes each: design/0017.
class ZooKeeperNode:
    """One node of a cluster that ZooKeeper coordinates.

    `start` on the loop, then `stop`; the session is its own from there on.
    """

    def __init__(
        self,
        platform: ZooKeeperPlatform,
        identity: ZooKeeperIdentity,
        session: Ensemble,
        events: QuorumEvents,
        orders: ControllerActions,
    ) -> None:
        self._platform = platform
        self._identity = identity
        self._session = session
        self._events = events
        self._orders = orders
        self._follower = Follower(identity.cluster_id, identity.node_id, platform.links, events, self)
        self._leadership: Leadership | None = None
        self._feed: Feed | None = None
        self._watching: Watching | None = None
        self._settled: ClusterImage | None = None
        self._chosen: Chosen | None = None
        self._following: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._deposing = Deposing(session, identity.node_id, platform.loop.time)
        self._look_again = asyncio.Event()
        self._lapse: asyncio.TimerHandle | None = None
        self._followers = Followers(identity.node_id, platform.loop.time)
        self._counting: asyncio.TimerHandle | None = None
        self._abstains_until = 0.0
        session.listen(self._connection_changed)

    # --- how it stands -----------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self._identity.node_id

    @property
    def leader(self) -> tuple[int, int]:
        """The controller's id and its epoch; -1 when nobody is known."""
        return (-1 if self._chosen is None else self._chosen.broker_id), self.epoch

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """Where the controller listens."""
        return None if self._chosen is None else self._chosen.address

    @property
    def epoch(self) -> int:
        return self._follower.epoch

    @property
    def end_offset(self) -> int:
        return 0 if self._leadership is None else self._leadership.end_offset

    @property
    def voters(self) -> tuple[Voter, ...]:
        """Nobody votes here."""
        return ()

    @property
    def damaged(self) -> StorageFailure | None:
        """Nothing is stored on this node."""
        return None

    @property
    def interrupted(self) -> bool:
        """Nothing is ever half told."""
        return False

    def is_present(self, broker_id: int, epoch: int) -> bool:
        """Whether a broker's session lasts, and is that of this registration."""
        return self._watching is not None and self._watching.present.get(broker_id) == epoch

    @property
    def latest(self) -> ClusterImage:
        assert self._leadership is not None, "only a controller is watching"
        return self._leadership.latest

    @property
    def settled(self) -> ClusterImage:
        assert self._settled is not None, "only a controller is watching"
        return self._settled

    # --- the start and the end ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take part."""
        self._running = self._platform.loop.create_task(self._run())

    async def stop(self) -> None:
        """Leave in good order: a controller makes room at once."""
        tasks = [task for task in (self._running, self._following) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._deposing.stop()
        self._resign("this node stops")
        if self._session.state is ConnectionState.CONNECTED:
            await self._make_room()
        if self._lapse is not None:
            self._lapse.cancel()

    def close(self) -> None:
        """End the session. Blocking."""
        self._session.close()

    # --- decisions ---------------------------------------------------------------------------------------------------

    def append(self, facts: list[Fact]) -> int:
        """Write the facts of one decision; answers the offset of the last. They come back as committed, or never.

        Raises NotLeader, and then nothing was written.
        """
        if self._leadership is None:
            raise NotLeader
        return self._leadership.append(facts)

    def _stored(self, stored: Stored, image: ClusterImage) -> None:
        self._settled = image
        if self._feed is not None:
            self._feed.append(stored, image)
        self._events.committed([stored])
        if self._watching is not None:
            self._watching.stored()

    # --- the connection ----------------------------------------------------------------------------------------------

    def _connection_changed(self, state: ConnectionState) -> None:
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
        if state is ConnectionState.LOST:
            self._resign("its session with ZooKeeper ended")
        elif state is ConnectionState.SUSPENDED and self._leadership is not None:
            # Whether the session still lasts cannot be known after this time: another may lead by then.
            self._lapse = self._platform.loop.call_later(
                self._session.session_seconds, self._resign, "ZooKeeper was not reached for as long as a session lasts"
            )
        self._look_again.set()

    # --- who leads ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Look who leads whenever that may have changed, and lead where nobody does."""
        while True:
            self._look_again.clear()
            try:
                if self._session.state is ConnectionState.CONNECTED and not await self._look():
                    continue
                await self._look_again.wait()
            except (Unreachable, EnsembleRefusal) as problem:
                logger.info("looks again who is the controller: %s", problem)
                await asyncio.sleep(PAUSE_SECONDS)
            except (BadZnode, UnreadableMetadata) as problem:
                logger.error("cannot be the controller: %s", problem)
                await self._make_room()
                await asyncio.sleep(LONG_PAUSE_SECONDS)
            except Exception:
                # Whatever it is, a node that holds the office and does nothing would stop the whole cluster.
                logger.exception("cannot be the controller")
                self._resign("it failed")
                await self._make_room()
                await asyncio.sleep(LONG_PAUSE_SECONDS)

    async def _look(self) -> bool:
        """Whether there is nothing to do until something changes."""
        found = await self._session.get(layout.CONTROLLER, self._look_again.set)
        if found is None:
            self._resign("/controller was removed")
            self._follow(None)
            if not await self._abstained():
                await self._elect()
            return False
        if found.stat.owner != self._session.identity:
            self._resign("another node is the controller")
            self._follow(layout.read_controller(found.data))
            return True
        if self._leadership is None:
            # Of an office that ended while the session went on.
            await self._session.remove(layout.CONTROLLER)
            return False
        return True

    def _follow(self, chosen: Chosen | None) -> None:
        if chosen == self._chosen and (self._following is None) == (chosen is None):
            return
        if self._following is not None:
            self._following.cancel()
            self._following = None
        self._chosen = chosen
        if chosen is None:
            self._events.leader_changed(-1, self.epoch)
        elif chosen.address is None:
            logger.error("the controller on broker %d is none of ottla's; stop it first", chosen.broker_id)
        else:
            logger.info("follows the controller on node %d", chosen.broker_id)
            self._following = self._platform.loop.create_task(self._follower.follow(chosen.broker_id, chosen.address))

    def refused(self) -> None:
        """The controller's machine says that nobody listens there: its process may be gone, its session not yet."""
        if self._chosen is not None:
            self._deposing.refused(self._chosen)

    def reached(self) -> None:
        self._deposing.reached()

    async def _elect(self) -> None:
        """Be the controller, unless another node is faster. Raises Unreachable, Refused, BadZnode."""
        session, (_, node_id, endpoint) = self._session, self._identity
        found = await session.get(layout.CONTROLLER_EPOCH)
        if found is None:
            await session.ensure(layout.PERSISTENT)
            await _create(session, layout.CONTROLLER_EPOCH, b"0")
            return
        epoch = layout.read_number(layout.CONTROLLER_EPOCH, found.data) + 1
        address = (endpoint.host, endpoint.port)
        own = Create(layout.CONTROLLER, layout.controller_znode(node_id, address, self._platform.world.clock.now_ms()))
        try:
            await session.commit(
                [Write(layout.CONTROLLER_EPOCH, str(epoch).encode(), found.stat.version)], ephemeral=own
            )
        except EnsembleRefusal as refusal:
            logger.info("another node was elected first: %s", refusal)
            return
        logger.info("elected as the controller of epoch %d", epoch)
        self._chosen = Chosen(node_id, address)
        await self._begin(epoch, found.stat.version + 1)

    async def _begin(self, epoch: int, epoch_version: int) -> None:
        """From the election to the first decision."""
        session = self._session
        await session.ensure(layout.PERSISTENT)
        await _create(session, layout.LAST_OFFSET, b"0")
        mark = await session.get(layout.LAST_OFFSET)
        if mark is None:
            raise EnsembleRefusal("NoNode", layout.LAST_OFFSET, missing=True)
        tree = await load_tree(session)
        loaded = await self._read(tree)
        writer = TreeWriter(tree, epoch)
        await self._complete(loaded, writer, epoch_version)
        term = Term(epoch, epoch_version, mark.stat.version)
        watching = Watching(session, self._orders, self, self._platform.world.clock, term.fence)
        await watching.begin()
        offset = epoch * OFFSETS_IN_EPOCH
        image = loaded.image._replace(offset=offset, epoch=epoch)
        self._leadership = Leadership(session, term, image, writer, self._stored, self._write_failed)
        self._watching = watching
        self._settled = image
        self._follower.epoch = epoch
        self._follower.position = LogPosition(0, -1)
        believed = Believed(self._identity.node_id, epoch, self._identity.endpoint)
        self._feed = Feed(image, believed, self._platform.world.clock, self._platform.run_blocking)
        self._events.snapshot(loaded.facts, offset, epoch)
        self._events.leader_changed(self._identity.node_id, epoch)
        self._events.began_leading(epoch)
        if self._watching is watching:
            watching.start()
            self._followers.begin(watching.present)
            self._count_later(self._look_for_absent)

    async def _complete(self, loaded: Loaded, writer: TreeWriter, epoch_version: int) -> None:
        """Write what the tree lacks: ids of topics from before there were any, states of new partitions."""
        operations: list[Operation] = [
            Write(layout.topic_path(name), layout.topic_znode(loaded.image.topics[name])) for name in loaded.unnamed
        ]
        for topic, numbers in loaded.unstated.items():
            folder = await self._session.get(layout.partitions_path(topic))
            operations += writer.missing_states(loaded.image.topics[topic], numbers, folder=folder is None)
            for number in numbers:
                # A controller that did not finish may have left the folder of one without its state.
                if await self._session.get(layout.partition_path(topic, number)) is not None:
                    operations.remove(Create(layout.partition_path(topic, number), b""))
        for portion in portions(operations, PORTION_BYTES):
            if portion:
                await self._session.commit(portion, [(layout.CONTROLLER_EPOCH, epoch_version)])

    async def _read(self, tree: Tree) -> Loaded:
        """What the tree says; a large one takes its time, in a thread. Raises BadZnode."""
        loaded: list[Loaded] = []
        await self._platform.run_blocking(
            lambda: loaded.append(read_tree(tree, self._identity.cluster_id, self._new_ids()))
        )
        return loaded[0]

    def _new_ids(self) -> Iterator[bytes]:
        while True:
            yield self._platform.world.random.identity()

    # --- who follows -------------------------------------------------------------------------------------------------

    def _count_later(self, first: Callable[[], None] | None = None) -> None:
        self._counting = self._platform.loop.call_later(self._session.session_seconds, self._count, first)

    def _look_for_absent(self) -> None:
        """Brokers that have not come back since this office began: their sessions ended before it."""
        for broker in self.latest.brokers.values():
            if not broker.fenced and not self.is_present(broker.id, broker.epoch):
                self._orders.broker_gone(broker.id, "its session with ZooKeeper ended")

    def _count(self, first: Callable[[], None] | None = None) -> None:
        """A controller that most of the living brokers cannot reach makes room for one that they can."""
        if self._leadership is None or self._watching is None:
            return
        if first is not None:
            first()
        if self.may_judge(self._session.session_seconds):
            self._count_later()

    def may_judge(self, seconds: float) -> bool:
        """Whether those who were silent for so long are to blame, and not this controller: it resigns where it is."""
        if self._watching is None:
            return False
        # One that is fenced is known to be gone, though its session may last.
        brokers = self.latest.brokers
        living = [each for each in self._watching.present if each not in brokers or not brokers[each].fenced]
        why = self._followers.lacking(living, seconds)
        if why is not None:
            self._abstains_until = self._platform.loop.time() + 2 * self._session.session_seconds
            self._resign(why)
        return why is None

    async def _abstained(self) -> bool:
        """Whether this node left the election to others, until something changed or its time to do so was over."""
        pause = self._abstains_until - self._platform.loop.time()
        if pause <= 0:
            return False
        try:
            async with asyncio.timeout(pause):
                await self._look_again.wait()
        except TimeoutError:
            pass
        return True

    # --- the end of an office ----------------------------------------------------------------------------------------

    def _write_failed(self, why: str) -> None:
        self._resign(why)

    def begin_anew(self, why: str) -> None:
        self._resign(why)

    def found(self, path: str) -> None:
        if self._leadership is not None:
            self._leadership.writer.told_of(path)

    def removed(self, path: str) -> None:
        if self._leadership is not None:
            self._leadership.writer.forget(path)

    def _resign(self, why: str) -> None:
        """This node does not lead from here on, whatever ZooKeeper says; an office in ZooKeeper is given up soon."""
        leadership, self._leadership = self._leadership, None
        if leadership is None:
            return
        logger.warning("is no longer the controller of epoch %d: %s", leadership.epoch, why)
        leadership.end()
        if self._counting is not None:
            self._counting.cancel()
        if self._watching is not None:
            self._watching.stop()
            self._watching = None
        if self._feed is not None:
            self._feed.end()
            self._feed = None
        self._chosen = None
        self._events.stopped_leading(leadership.epoch)
        self._events.leader_changed(-1, leadership.epoch)
        # Whoever looks next finds an office without a holder, and gives it up.
        self._look_again.set()

    async def _make_room(self) -> None:
        """Give `/controller` up if it is ours, so that somebody else, or this node, begins anew."""
        try:
            found = await self._session.get(layout.CONTROLLER)
            if found is not None and found.stat.owner == self._session.identity and self._leadership is None:
                await self._session.remove(layout.CONTROLLER, found.stat.version)
        except (Unreachable, EnsembleRefusal) as problem:
            logger.debug("the office in ZooKeeper is given up later: %s", problem)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def handle(self, request: Root, version: int) -> Root:
        """Answer a node that follows. Whatever concerns a quorum is not served here."""
        if not isinstance(request, FetchRequest | FetchSnapshotRequest):
            return unsupported(request)
        asked = read_request(request, version)
        if not isinstance(asked, Fetch | FetchSnapshot):
            return misdirected(request)
        answer, records = await self._answer(asked)
        return write_answer(request, answer, records)

    async def _answer(self, asked: Fetch | FetchSnapshot) -> tuple[Answer, bytes]:
        feed = self._feed
        self._followers.heard(asked.replica.node_id)
        error = self._why_not(asked, feed)
        if feed is None or error != ErrorCode.NONE:
            endpoint = self._identity.endpoint if feed is not None else None
            believed = Believed(self.leader[0], self.epoch, endpoint)
            if isinstance(asked, FetchSnapshot):
                return FetchedSnapshot(error, believed, asked.snapshot, asked.position), b""
            return Fetched(error, believed), b""
        if isinstance(asked, FetchSnapshot):
            return await feed.portion(asked), b""
        return await feed.fetch(asked)

    def _why_not(self, asked: Fetch | FetchSnapshot, feed: Feed | None) -> ErrorCode:
        if asked.cluster_id is not None and asked.cluster_id != self._identity.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if asked.epoch > self.epoch and feed is not None:
            # Somebody has seen a newer controller, so this one is none any more.
            self._resign(f"node {asked.replica.node_id} has seen the epoch {asked.epoch}")
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if feed is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.FENCED_LEADER_EPOCH if asked.epoch < self.epoch else ErrorCode.NONE


async def _create(session: Ensemble, path: str, data: bytes) -> None:
    """It is there afterwards, whoever created it."""
    try:
        await session.create(path, data)
    except EnsembleRefusal as refusal:
        if not refusal.exists:
            raise
