"""Several brokers on a seeded world, and the test as their controller.

Owns: brokers as real nodes run them (logs, followers, links, connections), on simulated loops, disks and network; the
facts of the cluster are what the test says, and reach each broker a little later. So leaders move exactly when a test
wants them to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, TypeVar, cast

from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import TopicPartition
from ottla.broker.broker import Broker
from ottla.client.address import Address
from ottla.client.errors import BrokerError, ClientError
from ottla.client.links import NodeLinks
from ottla.log.files import World
from ottla.log.store import LogStore
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.features import SUPPORTED
from ottla.metadata.image import ClusterImage
from ottla.replicas.context import Platform
from ottla.sim.client import Session
from ottla.sim.disk import SimDisk
from ottla.sim.loop import Scheduler, SimLoop, SimThreads
from ottla.sim.network import Network, SimSocket
from ottla.sim.world import BIG_BANG_MS, SimClock, SimRandom
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from ottla.wire.stored.metadata import (
    BrokerEndpoint,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from support.clusters import assigned

T = TypeVar("T")
PORT = 9092
LISTENER = "PLAINTEXT"
CLUSTER_ID = "a-cluster-of-the-tests"
BLOCK = 1_000
DELAY = (0.0001, 0.002)
"""How long facts are under way to a broker."""
RETRIES = 400
PAUSE_SECONDS = 0.05
AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.NETWORK_EXCEPTION,
}


async def patiently(step: Callable[..., Awaitable[T]], *arguments: Any, **named: Any) -> T:
    """As clients do: again, until it works or cannot work."""
    for _ in range(RETRIES):
        try:
            return await step(*arguments, **named)
        except BrokerError as problem:
            if problem.code not in AGAIN:
                raise
        except ClientError:
            pass
        await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError("it does not come to an end")


async def read_committed(session: Session, name: TopicPartition) -> list[bytes]:
    """What readers of committed records see, to the end."""
    values: list[bytes] = []
    offset = 0
    while True:
        seen = await patiently(session.fetch, name, offset, committed=True, wait_ms=1)
        values += [record.value or b"" for record in seen.records]
        if seen.next_offset == offset:
            return values
        offset = seen.next_offset


class Metadata:
    """The controller as one broker sees it."""

    supported_features: Mapping[str, tuple[int, int]] = SUPPORTED

    def __init__(self, world: BrokerWorld) -> None:
        self._world = world
        self.image = world.image
        self._subscribers: list[Callable[[ClusterDelta, ClusterImage], None]] = []

    def subscribe(self, subscriber: Callable[[ClusterDelta, ClusterImage], None]) -> None:
        self._subscribers.append(subscriber)

    def take(self, facts: Sequence[Fact]) -> None:
        delta = ClusterDelta(self.image)
        delta.replay_all(facts)
        self.image = delta.apply(self.image.offset + len(facts), 1)
        for subscriber in self._subscribers:
            subscriber(delta, self.image)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        start = self._world.next_producer_id
        self._world.next_producer_id += BLOCK
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK)

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        return assigned(request)

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """In-sync sets are what the test says."""
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


class Node:
    """One broker."""

    def __init__(self, world: BrokerWorld, node_id: int, settings: Mapping[str, str]) -> None:
        self.id = node_id
        self.name = f"node-{node_id}"
        self.loop = SimLoop(world.scheduler, self.name)
        world.network.attach(self.loop)
        random = Random(world.random.getrandbits(64))
        disk = SimDisk(random, lambda: BIG_BANG_MS + int(world.scheduler.now * 1000))
        threads = SimThreads(self.loop, lambda: random.uniform(0.0001, 0.001))
        parts = World(disk, SimClock(self.loop.time, 0), SimRandom(random))
        values = BrokerValues({"node.id": str(node_id), "process.roles": "broker", "log.dirs": "/data", **settings})
        store = LogStore(["/data"], parts)
        store.open(node_id, CLUSTER_ID)
        store.load(lambda name: world.log_settings(values), is_stray=lambda name, topic_id: False)
        self.metadata = Metadata(world)
        self._world = world
        self._values = values
        self._platform = Platform(self.loop, parts, cast(Any, threads), NodeLinks())
        self._store = store
        self.broker: Broker

    async def start(self) -> None:
        controller = cast(Any, self.metadata)
        self.broker = Broker(self._platform, self.id, self._values, self._store, controller, self._give_up)
        self.broker.start()
        self._world.network.listen(PORT, self.loop, self._accept)

    def _accept(self, accepted: SimSocket, peer: str) -> None:
        self.broker.connections.accept(cast(Any, accepted), peer, LISTENER, self.broker.dispatcher)

    def _give_up(self, reason: str) -> None:
        raise AssertionError(reason)


class BrokerWorld:
    """See the module. `layout`: for each topic the replicas of its partitions; the first of them leads."""

    def __init__(
        self,
        layout: Mapping[str, Sequence[Sequence[int]]],
        *,
        brokers: int = 3,
        seed: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.random = Random(seed)
        self.scheduler = Scheduler(self.random)
        self.network = Network(self.scheduler)
        self.next_producer_id = 0
        self.image = ClusterImage(CLUSTER_ID)
        self._facts: list[Fact] = [
            FeatureLevelRecord(name="transaction.version", feature_level=2),
            FeatureLevelRecord(name="group.version", feature_level=1),
        ]
        self._facts += [_registered(node_id) for node_id in range(1, brokers + 1)]
        for name, partitions in layout.items():
            self._facts += _topic(name, partitions)
        self._apply(self._facts)
        self.nodes = {node_id: Node(self, node_id, settings or {}) for node_id in range(1, brokers + 1)}
        self._arrival = dict.fromkeys(self.nodes, 0.0)
        for node in self.nodes.values():
            self.scheduler.complete(node.loop, node.start(), 5.0)

    def log_settings(self, values: BrokerValues) -> Any:
        from ottla.log.settings import LogSettings

        return LogSettings.from_values(values.topic_values({}))

    def _apply(self, facts: Sequence[Fact]) -> None:
        delta = ClusterDelta(self.image)
        delta.replay_all(facts)
        self.image = delta.apply(self.image.offset + len(facts), 1)

    # --- what the controller says ---

    def publish(self, *facts: Fact, late: Mapping[int, float] | None = None) -> None:
        """Facts reach the brokers, in their order; some of them `late` by so many seconds."""
        self._apply(facts)
        for node in self.nodes.values():
            delay = self.random.uniform(*DELAY) + (late or {}).get(node.id, 0.0)
            when = self._arrival[node.id] = max(self._arrival[node.id] + DELAY[0], self.scheduler.now + delay)
            self.scheduler.at(when, lambda node=node: node.loop.call_soon(node.metadata.take, facts))  # type: ignore[misc]

    def lag(self) -> float:
        """Seconds until everybody has heard of everything that was published."""
        return max(0.0, max(self._arrival.values()) - self.scheduler.now) + DELAY[0]

    def move(
        self, name: TopicPartition, leader: int, *, in_sync: Sequence[int] = (), late: Mapping[int, float] | None = None
    ) -> None:
        """Another broker leads a partition (or the same, in another epoch)."""
        topic = self.image.topics[name.topic]
        change = PartitionChangeRecord(partition_id=name.partition, topic_id=topic.topic_id, leader=leader)
        if in_sync:
            change.isr = list(in_sync)
        self.publish(change, late=late)

    # --- clients ---

    def client(self, name: str = "client") -> SimLoop:
        loop = SimLoop(self.scheduler, name)
        self.network.attach(loop)
        return loop

    def session(self) -> Session:
        """Of the loop that runs."""
        return Session([Address(node.name, PORT) for node in self.nodes.values()], self.random)

    def run(self, story: Callable[[Session], Coroutine[Any, Any, T]], seconds: float = 60.0) -> T:
        """Let a client do something, and everybody else meanwhile."""

        async def told() -> T:
            return await story(self.session())

        result = self.scheduler.complete(self.client(), told(), seconds)
        self.check()
        return result

    def check(self) -> None:
        for node in self.nodes.values():
            assert node.loop.failures == [], node.loop.failures

    def close(self) -> None:
        self.scheduler.close()


def _registered(node_id: int) -> Fact:
    endpoint = BrokerEndpoint(name=LISTENER, host=f"node-{node_id}", port=PORT, security_protocol=0)
    identity = node_id.to_bytes(16, "big")
    return RegisterBrokerRecord(
        broker_id=node_id, incarnation_id=identity, broker_epoch=node_id, end_points=[endpoint], fenced=False
    )


def _topic(name: str, partitions: Sequence[Sequence[int]]) -> list[Fact]:
    topic_id = name.encode().ljust(16, b"-")[:16]
    facts: list[Fact] = [TopicRecord(name=name, topic_id=topic_id)]
    for number, replicas in enumerate(partitions):
        facts.append(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return facts
