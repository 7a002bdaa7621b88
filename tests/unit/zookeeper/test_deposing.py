"""An office whose holder refuses connections is ended by most of those who should follow it, never by one alone."""

import asyncio
from typing import Any

from kit.worlds.zookeeper_nodes import MemoryCluster, MemoryLink, eventually
from kit.worlds.zookeeper_tree import MemorySession, MemoryTree
from ottla.wire.links import LinkDown
from ottla.zookeeper import layout
from ottla.zookeeper.deposing import LONGEST_PAUSE, Deposing
from ottla.zookeeper.layout import Chosen

HOLDER = 9
CHOSEN = Chosen(HOLDER, ("memory", HOLDER))
SESSION = 18.0


class Nodes:
    """An office, and nodes that are refused by its holder."""

    def __init__(self, brokers: int = 3) -> None:
        self.tree = MemoryTree()
        self.now = 0.0
        self._holder = MemorySession(self.tree, session_seconds=SESSION)
        self.deposing: dict[int, Deposing] = {}
        self._sessions: dict[int, MemorySession] = {}
        for path in layout.PERSISTENT:
            self.tree.create(path, b"", makepath=True)
        self.tree.create(layout.CONTROLLER_EPOCH, b"0")
        for number in range(1, brokers + 1):
            self.add(number)
        self.tree.create(f"{layout.BROKER_IDS}/{HOLDER}", b"", owner=self._holder.identity)
        self.elect()

    def add(self, number: int) -> None:
        session = self._sessions[number] = MemorySession(self.tree, session_seconds=SESSION)
        self.deposing[number] = Deposing(session, number, lambda: self.now)
        self.tree.create(f"{layout.BROKER_IDS}/{number}", b"", owner=session.identity)

    def elect(self) -> None:
        """The holder takes the office, again."""
        epoch = int(self.tree.nodes[layout.CONTROLLER_EPOCH].data) + 1
        self.tree.write(layout.CONTROLLER_EPOCH, str(epoch).encode())
        self.tree.create(
            layout.CONTROLLER, layout.controller_znode(HOLDER, ("memory", HOLDER), 0), owner=self._holder.identity
        )

    @property
    def held(self) -> bool:
        return layout.CONTROLLER in self.tree.nodes

    async def refuse(self, *numbers: int, times: int = 1) -> bool:
        """These are refused, one after the other; whether the office is still held."""
        for _ in range(times):
            for number in numbers:
                self.deposing[number].refused(CHOSEN)
                await self.settled(number)
            self.now += LONGEST_PAUSE
        return self.held

    async def reach(self, number: int) -> None:
        self.deposing[number].reached()
        await self.settled(number)

    async def settled(self, number: int) -> None:
        if (task := self.deposing[number]._task) is not None:
            await asyncio.wait([task])
            await asyncio.sleep(0)

    def end(self, number: int) -> None:
        self.tree.end_session(self._sessions[number].identity)


async def test_one_of_several_ends_no_office_however_often_it_is_refused() -> None:
    nodes = Nodes(4)
    assert await nodes.refuse(1, times=100)
    assert nodes.tree.children(layout.REFUSALS) == ["1"]


async def test_most_of_those_who_should_follow_end_it() -> None:
    nodes = Nodes(4)
    assert await nodes.refuse(1, 2)
    assert not await nodes.refuse(3)


async def test_one_that_should_follow_alone_is_enough() -> None:
    assert not await Nodes(1).refuse(1)


async def test_a_report_is_withdrawn_when_the_holder_is_reached_again() -> None:
    nodes = Nodes(3)
    await nodes.refuse(1)
    await nodes.reach(1)
    assert await nodes.refuse(2)
    assert nodes.tree.children(layout.REFUSALS) == ["2"]


async def test_a_report_goes_with_its_session() -> None:
    nodes = Nodes(3)
    await nodes.refuse(1)
    nodes.end(1)
    nodes.add(4)
    assert await nodes.refuse(2)


async def test_a_report_on_an_earlier_holding_does_not_count() -> None:
    nodes = Nodes(3)
    await nodes.refuse(1)
    nodes.tree.remove(layout.CONTROLLER)
    nodes.elect()
    assert await nodes.refuse(2)


async def test_a_broker_that_is_gone_is_not_counted() -> None:
    nodes = Nodes(3)
    await nodes.refuse(1)
    assert await nodes.refuse(2, times=0)
    nodes.end(2)
    nodes.end(3)
    assert not await nodes.refuse(1)


async def test_whoever_ended_an_office_leaves_the_next_ones_to_others_for_a_session_and_longer_each_time() -> None:
    nodes = Nodes(1)
    for seconds in (SESSION, 2 * SESSION, 4 * SESSION):
        assert not await nodes.refuse(1)
        began = nodes.now - LONGEST_PAUSE
        nodes.elect()
        nodes.now = began + seconds - 1
        assert await nodes.refuse(1)
        nodes.now = began + seconds
    # When there was peace for as long, it begins anew.
    assert not await nodes.refuse(1)
    nodes.now += 100 * SESSION
    nodes.elect()
    assert not await nodes.refuse(1)
    began = nodes.now - LONGEST_PAUSE
    nodes.elect()
    nodes.now = began + SESSION
    assert not await nodes.refuse(1)


async def test_others_end_an_office_while_one_abstains() -> None:
    nodes = Nodes(3)
    assert not await nodes.refuse(1, 2)
    nodes.elect()
    assert await nodes.refuse(2)
    assert await nodes.refuse(2)
    assert not await nodes.refuse(1)


async def test_a_controller_elected_meanwhile_keeps_its_office() -> None:
    nodes = Nodes(1)
    deposing = nodes.deposing[1]
    session: Any = deposing._session
    counted = session.children

    async def children(path: str) -> list[str]:
        # Between the look at the office and its end, another takes it.
        if nodes.held and path == layout.BROKER_IDS:
            nodes.tree.remove(layout.CONTROLLER)
            nodes.elect()
        return list(await counted(path))

    session.children = children
    deposing.refused(CHOSEN)
    await nodes.settled(1)

    assert nodes.held


class _Half:
    """Links of a node that some refuse."""

    def __init__(self, cluster: MemoryCluster, refusing: set[int]) -> None:
        self._cluster, self._refusing = cluster, refusing

    def link(self, host: str, port: int) -> Any:
        return _Refusing() if port in self._refusing else MemoryLink(self._cluster, port)


class _Refusing:
    async def ask(self, *arguments: object, **options: object) -> object:
        raise LinkDown("connection refused", refused=True)

    def close(self) -> None:
        """Nothing is open."""


async def test_a_node_that_all_others_refuse_and_that_refuses_them_deposes_nobody() -> None:
    async with MemoryCluster(5) as cluster:
        leader = await cluster.leader()
        for member in cluster.members.values():
            await member.register(leader.controller)
        lonely = next(each for each in cluster.members.values() if each is not leader)
        for member in cluster.members.values():
            refusing = {*cluster.members} - {member.node_id} if member is lonely else {lonely.node_id}
            member.node._follower._links = _Half(cluster, refusing)
            member.node._follow(None)
            member.node._look_again.set()
        report = f"{layout.REFUSALS}/{lonely.node_id}"
        await eventually(lambda: report in cluster.tree.nodes, "the lonely one reports")
        await eventually(
            lambda: lonely.node._deposing._pause > 0.4, "it has counted the reports again and again", seconds=60
        )
        assert leader.controller.active
        assert int(cluster.tree.nodes[layout.CONTROLLER_EPOCH].data) == 1
