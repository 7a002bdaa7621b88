"""Stories of whole clusters on virtual time: one partition, three replicas, and what is done to them step by step.

The nodes are those of `ottla.sim`; a story says itself what goes wrong, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.base.vocabulary import TopicPartition
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.sim.client import SimSession
from ottla.sim.cluster import SimCluster, SimNode
from ottla.sim.loop import Scheduler
from ottla.sim.network import Network
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

T = TypeVar("T")

APART = ("controller", "broker", "broker", "broker")
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "1000",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.enable": "false",
}
TOLD = TopicPartition("told", 0)


class ClusterStory:
    """A cluster and the partition that the story is about; `assignment` says who holds it, the leader first."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        roles: Sequence[str] = APART,
        assignment: Sequence[int] = (2, 3, 4),
        topics: Sequence[str] = (TOLD.topic,),
        seed: int = 1,
    ) -> None:
        self.scheduler = Scheduler(Random(seed))
        self.network = Network(self.scheduler)
        self.network.weather.delay = (0.001, 0.002)
        self.cluster = SimCluster(self.scheduler, self.network, roles, {**SETTINGS, **(settings or {})})
        self.nodes = {node.id: node for node in self.cluster.nodes}
        self._client = self.cluster.client("client")
        self.cluster.boot()
        self.until(lambda: all(node.ready for node in self.cluster.nodes), "all nodes are ready")
        for topic in topics:
            self.ask(lambda session, topic=topic: _create(session, topic, assignment))  # type: ignore[misc]
        self.until(lambda: all(topic in node.assembly.loader.image.topics for node in self._ready for topic in topics))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.scheduler.close()
        if error is None:
            failures = [*self.cluster.failures, *(each for loop in self.scheduler.loops for each in loop.failures)]
            assert failures == []

    # --- time and requests ---

    def until(self, true: Callable[[], Any], what: str = "it", seconds: float = 60.0) -> None:
        deadline = self.scheduler.now + seconds
        while not true():
            assert self.scheduler.now < deadline, f"{what} did not come true in {seconds:g} s; {self}"
            self.scheduler.run_for(0.002)

    def run(self, seconds: float) -> None:
        self.scheduler.run_for(seconds)

    def ask(self, work: Callable[[SimSession], Coroutine[Any, Any, T]], seconds: float = 60.0) -> T:
        async def go() -> T:
            return await work(SimSession(self.cluster.addresses, Random(0)))

        return self.scheduler.complete(self._client, go(), seconds)

    def write(self, count: int, topic: str = TOLD.topic) -> int:
        """So many records with acks=all, one after the other; answers the offset behind the last."""

        async def write(session: SimSession) -> int:
            producer = await session.init_producer(None, 0)
            last = -1
            for number in range(count):
                last = await session.produce(TopicPartition(topic, 0), [b"x" * 300], producer, number, 3.0)
            return last + 1

        return self.ask(write, 120.0)

    # --- what there is ---

    @property
    def _ready(self) -> list[Any]:
        return [node for node in self.cluster.nodes if node.ready]

    @property
    def image(self) -> ClusterImage:
        """As the node with the lowest number that serves knows it: the controller, where it stands apart."""
        known: ClusterImage = self._ready[0].assembly.loader.image
        return known

    def state(self, topic: str = TOLD.topic) -> PartitionImage:
        return self.image.topics[topic].partitions[0]

    def log(self, number: int, topic: str = TOLD.topic) -> PartitionLog | None:
        node = self.nodes[number]
        if not node.ready or node.assembly is None or node.assembly.broker is None:
            return None
        partition = node.assembly.broker.partitions.get(TopicPartition(topic, 0))
        return None if partition is None else partition.log

    def end(self, number: int, topic: str = TOLD.topic) -> int:
        log = self.log(number, topic)
        return -1 if log is None else log.end_offset

    def __str__(self) -> str:
        ends = {number: self.end(number) for number in self.nodes}
        return f"{self.state() if self._ready else 'nobody serves'}, log ends {ends}"

    # --- what is done to it ---

    def stop(self, number: int) -> SimNode:
        node = self.nodes[number]
        node.stop()
        self.until(lambda: not node.alive, f"{node.name} has stopped")
        return node

    def kill(self, number: int) -> SimNode:
        """And wait until the others go on without it."""
        node = self.nodes[number]
        node.kill()
        self.until(lambda: number not in self.state().in_sync, f"{node.name} is missed")
        return node

    def boot(self, *numbers: int) -> None:
        for number in numbers:
            self.nodes[number].boot()
        self.until(lambda: all(self.nodes[number].ready for number in numbers), "those that were booted serve")

    def part(self, one: int, other: int) -> None:
        for pair in ((one, other), (other, one)):
            self.network.cut(*(self.nodes[number].name for number in pair))

    def join(self, one: int, other: int) -> None:
        for pair in ((one, other), (other, one)):
            self.network.mend(*(self.nodes[number].name for number in pair))


async def _create(session: SimSession, topic: str, assignment: Sequence[int]) -> None:
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(0, list(assignment))],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=3000)
    answer = await session.cluster.ask_any(request, CreateTopicsResponse, session.deadline(5))
    assert not answer.topics[0].error_code, answer
