"""A broker's own znode: it lasts as long as the session, and two processes never have one between them."""

import pytest

from kit.disks.compacting import ManualClock
from kit.worlds.zookeeper_tree import MemorySession, MemoryTree
from ottla.zookeeper import layout
from ottla.zookeeper.layout import Presence
from ottla.zookeeper.presence import BrokerPresence, Duplicate

PATH = f"{layout.BROKER_IDS}/1"


def presence(host: str = "here", epoch: int = 5) -> Presence:
    return Presence({"PLAINTEXT": (host, 9092)}, {"PLAINTEXT": 0}, None, {}, epoch)


def broker(tree: MemoryTree) -> tuple[BrokerPresence, MemorySession]:
    session = MemorySession(tree)
    return BrokerPresence(session, 1, ManualClock()), session


async def test_a_broker_is_there_until_it_leaves() -> None:
    tree = MemoryTree()
    own, session = broker(tree)
    await own.announce(presence())
    assert own.held
    assert tree.nodes[PATH].owner == session.identity
    await own.announce(presence(epoch=6))
    assert layout.read_presence(1, tree.nodes[PATH].data).epoch == 6
    await own.withdraw()
    assert not own.held
    assert PATH not in tree.nodes


async def test_a_session_that_ends_is_told_and_the_broker_can_come_back() -> None:
    tree = MemoryTree()
    own, session = broker(tree)
    lost: list[bool] = []
    own.when_lost(lambda: lost.append(own.held))
    await own.announce(presence())
    session.suspend()
    assert own.held, "nobody knows yet"
    session.reconnect()
    assert own.held
    session.expire()
    assert lost == [False]
    assert PATH not in tree.nodes
    await own.announce(presence())
    assert own.held


async def test_what_the_process_before_left_behind_is_taken_over_when_it_has_the_same_address() -> None:
    tree = MemoryTree()
    before, _ = broker(tree)
    await before.announce(presence())
    own, session = broker(tree)
    await own.announce(presence(epoch=9))
    assert tree.nodes[PATH].owner == session.identity


async def test_a_broker_elsewhere_keeps_its_id() -> None:
    tree = MemoryTree()
    other, session = broker(tree)
    await other.announce(presence("elsewhere"))
    own, _ = broker(tree)
    with pytest.raises(Duplicate, match="another broker that lives has the id 1"):
        await own.announce(presence())
    assert tree.nodes[PATH].owner == session.identity
    assert not own.held
