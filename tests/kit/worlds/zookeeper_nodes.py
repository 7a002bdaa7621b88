"""Controllers whose cluster lives in a tree in memory: several nodes in one process, without sockets and processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kit.disks.compacting import CountingRandom, ManualClock
from kit.machines.clusters import CLUSTER, registration
from kit.worlds.zookeeper_tree import MemorySession, MemoryTree
from ottla.base.settings.values import BrokerValues
from ottla.controller.controller import Controller
from ottla.controller.image_loader import ImageLoader
from ottla.log.files import World
from ottla.node.coordination import ControllerOrders
from ottla.records.control import Endpoint
from ottla.runtime.disk import RealDisk
from ottla.wire.links import LinkDown
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.schema import LATEST, Root
from ottla.zookeeper.layout import Presence
from ottla.zookeeper.node import ZooKeeperIdentity, ZooKeeperNode, ZooKeeperPlatform
from ottla.zookeeper.presence import BrokerPresence

R = TypeVar("R", bound=Root)
Result = TypeVar("Result")


async def eventually(condition: Callable[[], Result], what: str, seconds: float = 60.0) -> Result:
    """The first true answer; a failure that names `what` after the deadline."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (answer := condition()):
        assert asyncio.get_running_loop().time() < deadline, f"{what}: not within {seconds:g} s"
        await asyncio.sleep(0.005)
    return answer


class MemoryLink:
    """A link to one of the nodes; see the port."""

    def __init__(self, cluster: MemoryCluster, port: int) -> None:
        self._cluster = cluster
        self._port = port

    async def ask(self, request: Root, answer: type[R], seconds: float, *, highest: int = LATEST) -> R:
        member = self._cluster.members.get(self._port)
        if member is None:
            raise LinkDown("connection refused", refused=True)
        if self._port in self._cluster.cut:
            await asyncio.sleep(0.02)
            raise LinkDown("no answer")
        found: Any = await member.node.handle(request, min(request.VERSIONS[1], highest))
        assert isinstance(found, answer)
        return found

    def close(self) -> None:
        """Nothing is open."""


class Member:
    """One node: its session, its controller, its copy of the metadata."""

    def __init__(self, cluster: MemoryCluster, node_id: int, settings: dict[str, str]) -> None:
        self.node_id = node_id
        self.session = MemorySession(cluster.tree, session_seconds=cluster.session_seconds)
        world = World(RealDisk(), ManualClock(1_700_000_000_000), cluster.random)
        self.loader = ImageLoader(CLUSTER)
        self.controller = Controller(self.loader, node_id, BrokerValues({"node.id": str(node_id), **settings}), world)
        loop = asyncio.get_running_loop()

        async def run_blocking(work: Callable[[], None]) -> None:
            work()

        self.node = ZooKeeperNode(
            ZooKeeperPlatform(loop, world, run_blocking, cluster),
            ZooKeeperIdentity(CLUSTER, node_id, Endpoint("CONTROLLER", "memory", node_id)),
            self.session,
            self.controller,
            ControllerOrders(self.controller),
        )
        self.controller.attach(self.node)
        self.controller.lives_are_watched(self.node.is_present, self.node.may_judge)
        self.presence = BrokerPresence(self.session, node_id, world.clock)
        self.broker_epoch = -1

    async def register(self, controller: Controller) -> None:
        """Be a broker of the cluster that takes part."""
        request = registration(self.node_id)
        answer = await controller.register_broker(request)
        assert answer.error_code == 0, answer
        self.broker_epoch = answer.broker_epoch
        await self.presence.announce(
            Presence({"PLAINTEXT": ("memory", self.node_id)}, {"PLAINTEXT": 0}, None, {}, answer.broker_epoch)
        )
        for _ in range(1000):
            if await self.beats(controller):
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"broker {self.node_id} is not let in")

    async def beats(self, controller: Controller) -> bool:
        """Whether the controller lets the broker take part."""
        offset = controller.image.offset
        answer = await controller.broker_heartbeat(BrokerHeartbeatRequest(self.node_id, self.broker_epoch, offset))
        return answer.error_code == 0 and not answer.is_fenced


class MemoryCluster:
    """Use it as an asynchronous context manager; the nodes are numbered from 1."""

    def __init__(
        self, nodes: int = 3, *, session_seconds: float = 30.0, settings: dict[str, str] | None = None
    ) -> None:
        self.tree = MemoryTree()
        self.random = CountingRandom()
        self.session_seconds = session_seconds
        self.members: dict[int, Member] = {}
        self.cut: set[int] = set()
        """Nodes that nobody reaches."""
        self._count = nodes
        self._settings = settings or {}

    def link(self, host: str, port: int) -> MemoryLink:
        return MemoryLink(self, port)

    def add(self, node_id: int) -> Member:
        member = self.members[node_id] = Member(self, node_id, self._settings)
        member.node.start()
        return member

    async def leader(self, *others: int) -> Member:
        """The one that decides, and is none of these."""

        def look() -> Member | None:
            active = (each for each in self.members.values() if each.controller.active)
            return next((each for each in active if each.node_id not in others), None)

        found = await eventually(look, "a controller")
        assert found is not None
        return found

    async def agreed(self) -> None:
        """Every node has the image of the one that decides."""
        leader = await self.leader()

        def look() -> bool:
            image = leader.loader.image
            return all(each.loader.image == image for each in self.members.values() if each.node_id not in self.cut)

        await eventually(look, "all nodes have one image")

    async def crash(self, node_id: int) -> Member:
        """The process ends without a word; its session is noticed later."""
        member = self.members.pop(node_id)
        member.session.oversleep(ended=False)
        member.controller.stop()
        return member

    async def __aenter__(self) -> MemoryCluster:
        for node_id in range(1, self._count + 1):
            self.add(node_id)
        return self

    async def __aexit__(self, *ended: object) -> None:
        for member in self.members.values():
            await member.node.stop()
