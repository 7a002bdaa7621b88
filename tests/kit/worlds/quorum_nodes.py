"""Quorum nodes on real files in one event loop, with links that call each other directly and can be cut."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from ottla.base.ports import Disk
from ottla.log.files import StorageFailure, World
from ottla.metadata.facts import Fact
from ottla.metadata.quorum_events import Stored
from ottla.quorum.node import QuorumNode
from ottla.quorum.settings import QuorumIdentity, QuorumPlatform, QuorumSettings
from ottla.records.control import Endpoint, Voter
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock
from ottla.wire import codec
from ottla.wire.links import LinkDown
from ottla.wire.schema import LATEST, Root
from ottla.wire.stored.metadata import TopicRecord

R = TypeVar("R", bound=Root)
QUICK = QuorumSettings(
    election_timeout=0.1, election_backoff_max=0.1, fetch_timeout=0.3, request_timeout=0.3, retry_backoff=0.01
)


class DrawnRandom:
    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def identity(self) -> bytes:
        return self._source.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return self._source.uniform(low, high)


class Heard:
    """What a node was told, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.offsets: list[int] = []
        self.events: list[tuple[str, int]] = []
        self.leader = -1

    def committed(self, batches: Sequence[Stored]) -> None:
        for batch in batches:
            assert not self.offsets or batch.offset > self.offsets[-1]
            self.offsets.append(batch.offset)
            self.names += [fact.name for fact in batch.facts if isinstance(fact, TopicRecord)]

    def snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        self.names = [fact.name for fact in facts if isinstance(fact, TopicRecord)]
        self.offsets.append(offset)
        self.events.append(("snapshot", offset))

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        self.leader = leader_id

    def began_leading(self, epoch: int) -> None:
        self.events.append(("began", epoch))

    def stopped_leading(self, epoch: int) -> None:
        self.events.append(("stopped", epoch))


class _DirectLink:
    def __init__(self, quorum: "Quorum", source: int, target: int) -> None:
        self._quorum = quorum
        self._source = source
        self._target = target

    async def ask(self, request: Root, answer: type[R], seconds: float, *, highest: int = LATEST) -> R:
        quorum = self._quorum
        await asyncio.sleep(0)
        node = quorum.nodes.get(self._target)
        if (self._source, self._target) in quorum.cuts:
            await asyncio.sleep(seconds)
            raise LinkDown("cut")
        if node is None:
            raise LinkDown("nobody listens", refused=True)
        version = type(request).VERSIONS[1]
        try:
            sent = await asyncio.wait_for(node.handle(_copied(request, version), version), seconds)
        except TimeoutError:
            raise LinkDown("too slow") from None
        except StorageFailure as failure:
            raise LinkDown(str(failure)) from None
        if (self._target, self._source) in quorum.cuts or quorum.nodes.get(self._target) is not node:
            raise LinkDown("cut on the way back")
        found = _copied(sent, version)
        assert isinstance(found, answer)
        return found

    def close(self) -> None:
        pass


def _copied(message: Root, version: int) -> Root:
    """Over the wire and back, so that nothing is shared and everything has its bytes."""
    out = bytearray()
    codec.write(out, message, version)
    read = codec.reader(type(message), version, version >= type(message).FLEXIBLE_FROM)
    copied, position = read(memoryview(bytes(out)), 0)
    assert position == len(out)
    assert isinstance(copied, Root)
    return copied


class _DirectLinks:
    def __init__(self, quorum: "Quorum", source: int) -> None:
        self._quorum = quorum
        self._source = source

    def link(self, host: str, port: int) -> _DirectLink:
        return _DirectLink(self._quorum, self._source, port)


class Quorum:
    """Some nodes; those with an id below `voters` vote."""

    def __init__(self, path: Path, voters: int, *, dynamic: bool = False, disk: Disk | None = None) -> None:
        self._path = path
        self._disk = disk or RealDisk()
        self.dynamic = dynamic
        self.voters = tuple(self.voter(node_id) for node_id in range(voters))
        self.nodes: dict[int, QuorumNode] = {}
        self.heard: dict[int, Heard] = {}
        self.cuts: set[tuple[int, int]] = set()
        self.settings = QUICK
        self._begun = 0

    def voter(self, node_id: int) -> Voter:
        directory = self.directory_id(node_id) if self.dynamic else bytes(16)
        return Voter(node_id, directory, (Endpoint("CONTROLLER", "here", node_id),), 0, 1)

    def directory_id(self, node_id: int) -> bytes:
        return bytes(15) + bytes([node_id + 100])

    def start(self, node_id: int) -> QuorumNode:
        loop = asyncio.get_running_loop()
        self._begun += 1

        async def run_blocking(work: Callable[[], None]) -> None:
            await loop.run_in_executor(None, work)

        world = World(self._disk, RealClock(), DrawnRandom(self._begun))
        heard = self.heard[node_id] = Heard()
        node = QuorumNode(
            QuorumPlatform(loop, world, run_blocking, str(self._path / f"node-{node_id}")),
            QuorumIdentity(
                "test",
                node_id,
                self.directory_id(node_id),
                self.voters,
                self.dynamic or node_id < len(self.voters),
                endpoints=self.voter(node_id).endpoints,
            ),
            self.settings,
            _DirectLinks(self, node_id),
            heard,
        )
        node.open()
        self.nodes[node_id] = node
        node.start()
        return node

    async def stop(self, node_id: int) -> None:
        node = self.nodes[node_id]
        await node.stop()
        self.nodes.pop(node_id, None)
        node.close()

    async def kill(self, node_id: int) -> None:
        """It says nothing more, to nobody."""
        node = self.nodes.pop(node_id)
        self.cuts |= {pair for other in range(9) for pair in ((node_id, other), (other, node_id))}
        await node.stop(resign=False)
        node.log.abandon()
        self.cuts -= {pair for other in range(9) for pair in ((node_id, other), (other, node_id))}

    async def stop_all(self) -> None:
        for node_id in list(self.nodes):
            await self.stop(node_id)

    def isolate(self, node_id: int) -> None:
        self.cuts |= {pair for other in self.nodes if other != node_id for pair in ((node_id, other), (other, node_id))}

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, "it did not happen in time"
            await asyncio.sleep(0.005)

    def leaders(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.leads]

    async def leader(self, among: Iterable[int] | None = None) -> int:
        chosen = set(self.nodes if among is None else among)
        await self.until(lambda: bool(chosen & set(self.leaders())))
        return next(iter(chosen & set(self.leaders())))

    def decide(self, node_id: int, *names: str) -> int:
        return self.nodes[node_id].append([topic(name) for name in names])

    async def all_know(self, *names: str, among: Iterable[int] | None = None) -> None:
        chosen = list(self.nodes if among is None else among)
        await self.until(lambda: all(self.heard[node_id].names == list(names) for node_id in chosen))


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))
