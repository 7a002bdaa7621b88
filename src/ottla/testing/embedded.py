"""`ottla.testing.broker()` and `ottla.testing.cluster()`: real brokers in the test's own process.

Owns: which nodes a system has, their settings, and everything a test may do to them. Never knows: the inside of a node.
Invariants: both forms of `with` give the same object; methods may be called from any thread, and from a test's event
loop too, since the nodes live on loops of their own; after the end no thread, file or socket of the system is left.
"""

import asyncio
import atexit
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from ottla.base.errors import ErrorCode
from ottla.base.settings.file import check_static
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.client.errors import BrokerError, DeadlineExceeded
from ottla.log.files import World
from ottla.node.formatting import Wishes, format_directories
from ottla.runtime.world import RealRandom
from ottla.testing.faults import Failing, Faults
from ottla.testing.files import OwnedDisk, TemporaryDirectory
from ottla.testing.life import Life, Ports, SharedWorld
from ottla.testing.network import HOST, KeptPort, Network
from ottla.testing.settings import node_settings, setting_texts, texts_of_nodes
from ottla.testing.steered import SteeredTime
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

PATIENCE_SECONDS = 30.0
"""How long anything may take before a test is told that it does not happen."""
LOOK_SECONDS = 0.002
ALONE_STEPS = 64
CLUSTER_STEP_SECONDS = 1.0
"""Nodes that watch each other must hear of each other while time flies: well below every time-out between them."""
CLUSTER_MOST_SECONDS = 900.0
"""What timers of a cluster are moved at most; the calendar has no limit."""
TURNS = 4
"""Turns of every node between two steps of time: a question to another node, and its answer."""
BREATH_SECONDS = 0.001
WRITING_SECONDS = 1.0
"""How long a turn waits for the threads that write: on a busy machine they, too, must come to it while time flies."""
DELETE_TOPICS_VERSION = 6


class Node:
    """One node through all its lives."""

    def __init__(self, node_id: int, settings: Mapping[str, str], ports: Ports, around: SharedWorld) -> None:
        self.node_id = node_id
        self.values = BrokerValues(settings)
        self._ports = ports
        self._around = around
        self.life: Life | None = None
        for port in ports:
            if port is not None:
                around.network.place(node_id, port.number)

    @property
    def address(self) -> str:
        return f"{HOST}:{self._ports.broker.number}"

    @property
    def running(self) -> bool:
        return self.life is not None and not self.life.ended.done()

    @property
    def serves(self) -> bool:
        return self.life is not None and self.life.serves

    def begin(self) -> "Future[None]":
        if self.life is None or self.life.ended.done():
            self.life = Life(self.node_id, self.values, self._ports, self._around)
        return self.life.started

    def forget(self) -> None:
        self._ports.release()


class System:
    """What a broker and a cluster have in common."""

    def __init__(self, count: int, settings: Mapping[str, str], parent: str | os.PathLike[str] | None) -> None:
        self._around = SharedWorld(SteeredTime(), Network(), Faults())
        self._settings = settings
        self._parent = parent
        self._count = count
        self._nodes: dict[int, Node] = {}
        self._directory: TemporaryDirectory | None = None
        self._closed = False

    # --- its life ---

    def _prepare(self) -> "list[Future[None]]":
        """Choose ports and directories, and let the nodes begin."""
        assert self._directory is None, "it is used already"
        together = self._count > 1
        ports = [Ports(KeptPort(), KeptPort() if together else None) for _ in range(self._count)]
        voters = [
            f"{number}@{HOST}:{port.controller.number}" for number, port in enumerate(ports, 1) if port.controller
        ]
        directory = self._directory = TemporaryDirectory(self._parent)
        atexit.register(self.close)
        try:
            for number, port in enumerate(ports, 1):
                values = node_settings(number, port, voters)
                values |= self._settings
                values["log.dirs"] = os.path.join(directory.path, f"node-{number}")
                check_static(values)
                self._nodes[number] = Node(number, values, port, self._around)
            if together:
                self._format()
        except BaseException:
            for port in ports:
                port.release()
            self.close()
            raise
        return [node.begin() for node in self._nodes.values()]

    def _format(self) -> None:
        world = World(OwnedDisk(), self._around.time, RealRandom())
        cluster_id = identity_text(world.random.identity())
        for node in self._nodes.values():
            format_directories(world, node.values, Wishes(cluster_id))

    def start(self) -> Self:
        """What `with` does first: returns when all nodes serve. Raises StartFailure and InvalidSetting."""
        try:
            for started in self._prepare():
                started.result(PATIENCE_SECONDS)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """What `with` does last: everything is gone afterwards. Does nothing the second time."""
        for ended in self._end():
            ended.result(PATIENCE_SECONDS)
        self._clean()

    def _end(self) -> "list[Future[None]]":
        # Nobody will read what they would write in a clean end.
        lives = [node.life for node in self._nodes.values() if node.life is not None]
        for life in lives:
            life.kill()
        return [life.ended for life in lives]

    def _clean(self) -> None:
        atexit.unregister(self.close)
        for node in self._nodes.values():
            node.forget()
        self._nodes.clear()
        if self._directory is not None and not self._closed:
            self._closed = True
            self._directory.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            for started in self._prepare():
                await asyncio.wait_for(asyncio.wrap_future(started), PATIENCE_SECONDS)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for ended in self._end():
            await asyncio.wrap_future(ended)
        self._clean()

    # --- using it ---

    @property
    def bootstrap(self) -> str:
        """`host:port` of every node, for `bootstrap.servers` of any client."""
        return ",".join(node.address for node in self._nodes.values())

    @property
    def directory(self) -> str:
        """Where the data lies while it runs."""
        assert self._directory is not None, "it has not been started"
        return self._directory.path

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> str:
        """Make a topic; returns its name when every node that can know it does. Raises BrokerError."""
        configs = [CreatableTopicConfig(name=key, value=text) for key, text in setting_texts(settings or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas or -1, configs=configs)
        best = self._best()
        asking = best.do(best.broker.controller.create_topics(CreateTopicsRequest(topics=[topic])))
        (result,) = asking.result(PATIENCE_SECONDS).topics
        if result.error_code != ErrorCode.NONE:
            raise BrokerError(result.error_code, name, result.error_message)
        hear = [life for life in self._serving() if self._around.network.hear(best.node_id, life.node_id)]
        self._wait(f"topic {name} on every node", lambda: all(_knows(life, name) for life in hear if life.serves))
        return name

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all it holds. Raises BrokerError."""
        best = self._best()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=int(PATIENCE_SECONDS * 1000))
        asking = best.do(best.broker.controller.delete_topics(request, DELETE_TOPICS_VERSION))
        (result,) = asking.result(PATIENCE_SECONDS).responses
        if result.error_code != ErrorCode.NONE:
            raise BrokerError(result.error_code, name, result.error_message)

    # --- faults and time ---

    def delay(self, api: str, seconds: float) -> None:
        """Let requests of an API (by Kafka's name: "Produce") wait so long before they are served; 0 ends that."""
        self._around.faults.delay(api, seconds)

    def advance(self, seconds: float) -> None:
        """Let so much time pass for the nodes, now: retention, sessions, time-outs of transactions.

        Clients keep their own time: a member of a group whose session is shorter than this is gone afterwards unless
        it sends a heartbeat in between. What is done in the background may end a moment after this returns.
        """
        steered = self._around.time
        if self._count > 1:
            step, timers = CLUSTER_STEP_SECONDS, min(seconds, CLUSTER_MOST_SECONDS)
        else:
            step, timers = max(seconds / ALONE_STEPS, CLUSTER_STEP_SECONDS), seconds
        steered.calendar_ahead_ms += int((seconds - timers) * 1000)
        while timers > 0:
            part = min(step, timers)
            steered.calendar_ahead_ms += int(part * 1000)
            steered.timers_ahead += part
            timers -= part
            self._turns()

    def _turns(self) -> None:
        time.sleep(BREATH_SECONDS)
        for _ in range(TURNS):
            deadline = time.monotonic() + WRITING_SECONDS
            while any(life.writes for life in self._serving()) and time.monotonic() < deadline:
                time.sleep(BREATH_SECONDS)
            for turned in [life.turn() for life in self._serving()]:
                turned.result(PATIENCE_SECONDS)

    def recover(self) -> None:
        """Take all faults back: nodes run and hear each other, and nothing fails or waits. Time stays where it is."""
        self._around.faults.clear()
        self._around.network.heal()
        for node in self._nodes.values():
            if node.running and node.life is not None:
                node.life.resume()
        for started in [node.begin() for node in self._nodes.values() if not node.running]:
            started.result(PATIENCE_SECONDS)

    # --- nodes ---

    def _node(self, number: int) -> Node:
        if number not in self._nodes:
            raise ValueError(f"there is no node {number}; there are {', '.join(map(str, self._nodes))}")
        return self._nodes[number]

    def _running(self, number: int) -> Life:
        node = self._node(number)
        if node.life is None or not node.running:
            raise ValueError(f"node {number} does not run")
        return node.life

    def _kill(self, number: int) -> None:
        life = self._running(number)
        life.kill()
        life.ended.result(PATIENCE_SECONDS)

    def _stop(self, number: int) -> None:
        life = self._running(number)
        life.stop()
        life.ended.result(PATIENCE_SECONDS)

    def _restart(self, number: int) -> None:
        if self._node(number).running:
            self._stop(number)
        self._node(number).begin().result(PATIENCE_SECONDS)

    def _serving(self) -> list[Life]:
        return [node.life for node in self._nodes.values() if node.life is not None and node.serves]

    def _best(self) -> Life:
        """The node that knows most: the controller, or whoever is nearest to it when nodes are cut off."""
        serving = self._serving()
        if not serving:
            raise ValueError("no node runs")
        return max(serving, key=_standing)

    def _wait(self, what: str, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise DeadlineExceeded(what)
            time.sleep(LOOK_SECONDS)


class Broker(System):
    """One broker; made by `broker()`."""

    def fail_next(self, api: str, times: int = 1, error: ErrorCode | str | int | None = None) -> Failing:
        """Let the next requests of an API fail with an error, by Kafka's name; without one the connection breaks."""
        return self._around.faults.fail_next(api, times, error, None)

    def kill(self) -> None:
        """As `kill -9`: nothing is flushed or closed cleanly. `restart` lets it come back at the same port."""
        self._kill(1)

    def stop(self) -> None:
        """End it cleanly; `restart` lets it come back."""
        self._stop(1)

    def restart(self) -> None:
        """Stop it, if it runs, and start it again with its data."""
        self._restart(1)

    def pause(self) -> None:
        """It answers nobody until `resume`; connections stay."""
        self._running(1).pause()

    def resume(self) -> None:
        self._running(1).resume()


class Cluster(System):
    """Several nodes, numbered from 1, each broker and controller; made by `cluster()`."""

    @property
    def nodes(self) -> list[int]:
        return list(self._nodes)

    def address(self, node: int) -> str:
        return self._node(node).address

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition, as the others see it; -1 while there is none."""
        found = self._best().assembly.loader.image.topics.get(topic)
        if found is None or partition >= len(found.partitions):
            raise ValueError(f"there is no partition {partition} of {topic}")
        return found.partitions[partition].leader

    def controller(self) -> int:
        """The node that leads the quorum; -1 while there is none."""
        return self._best().assembly.quorum.leader[0]

    def fail_next(
        self, api: str, times: int = 1, error: ErrorCode | str | int | None = None, *, node: int | None = None
    ) -> Failing:
        """Let the next requests of an API fail with an error, by Kafka's name; without one the connection breaks."""
        return self._around.faults.fail_next(api, times, error, node)

    def kill(self, node: int) -> None:
        """As `kill -9`: nothing is flushed or closed cleanly. `restart` lets it come back at the same port."""
        self._kill(node)

    def stop(self, node: int) -> None:
        """End a node cleanly: its leaderships go to others first."""
        self._stop(node)

    def restart(self, node: int) -> None:
        """Stop a node, if it runs, and start it again with its data."""
        self._restart(node)

    def pause(self, node: int) -> None:
        """It answers nobody until `resume`; connections stay."""
        self._running(node).pause()

    def resume(self, node: int) -> None:
        self._running(node).resume()

    def partition(self, *nodes: int) -> None:
        """Cut these nodes off from all others until `heal`; clients reach both sides."""
        cut = {self._node(number).node_id for number in nodes}
        self._around.network.part(cut, self._nodes.keys() - cut)

    def heal(self) -> None:
        self._around.network.heal()

    def wait_in_sync(self, topics: Iterable[str] = ()) -> None:
        """Until every replica of these topics (of all, where none is named) is in sync and has a leader."""
        wanted = set(topics)

        def in_sync() -> bool:
            found = self._best().assembly.loader.image.topics
            return wanted <= found.keys() and all(
                state.leader >= 0 and len(state.in_sync) == len(state.replicas)
                for name, topic in found.items()
                if name in wanted or not wanted
                for state in topic.partitions
            )

        self._wait("every replica in sync", in_sync)


def broker(
    settings: Mapping[str, object] | None = None,
    /,
    *,
    directory: str | os.PathLike[str] | None = None,
    **keywords: object,
) -> Broker:
    """A broker, started by `with` or `async with`, with a broker's settings by Kafka's names or as keywords.

    `directory` is where its temporary directory is made; without one that is memory where the machine offers it.
    """
    return Broker(1, texts_of_nodes({**(settings or {}), **keywords}), directory)


def cluster(
    nodes: int = 3,
    settings: Mapping[str, object] | None = None,
    /,
    *,
    directory: str | os.PathLike[str] | None = None,
    **keywords: object,
) -> Cluster:
    """A cluster of nodes, as `broker`; topics have three copies unless they ask for something else."""
    if nodes < 1:
        raise ValueError("a cluster has at least one node")
    return Cluster(nodes, texts_of_nodes({**(settings or {}), **keywords}), directory)


def _knows(life: Life, topic: str) -> bool:
    found = life.broker.image.topics.get(topic)
    return found is not None and all(state.leader >= 0 for state in found.partitions)


def _standing(life: Life) -> tuple[int, bool, int]:
    assembly = life.assembly
    leader, epoch = assembly.quorum.leader
    return epoch, leader == life.node_id, assembly.loader.image.offset
