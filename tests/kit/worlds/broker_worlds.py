"""Several brokers on a seeded world, and the test as their controller.

Owns: brokers as real nodes run them (logs, followers, links, connections), on simulated loops, disks and network, to be
killed and started again; the facts of the cluster are what the test says, and reach each broker a little later. So
leaders move exactly when a test wants them to. `replicas.py` has requests about one topic on top of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar, cast

from kit.machines.clusters import assigned
from kit.worlds.unasked import UnaskedController
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
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.replicas.context import Platform
from ottla.sim.client import SimSession
from ottla.sim.disk import SimDisk
from ottla.sim.loop import Scheduler, SimLoop, SimThreads
from ottla.sim.network import Network, SimSocket
from ottla.sim.world import SimClock, SimRandom
from ottla.wire.messages import alter_partition as alter
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from ottla.wire.stored.metadata import (
    BrokerEndpoint,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

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


async def read_committed(session: SimSession, name: TopicPartition) -> list[bytes]:
    """What readers of committed records see, to the end."""
    values: list[bytes] = []
    offset = 0
    while True:
        seen = await patiently(session.fetch, name, offset, committed=True, wait_ms=1)
        values += [record.value or b"" for record in seen.records]
        if seen.next_offset == offset:
            return values
        offset = seen.next_offset


class ToldController:
    """What brokers ask the controller for. The facts of the cluster are the test's: see `BrokerWorld.publish`."""

    def __init__(self, world: BrokerWorld) -> None:
        self._world = world
        self.refusal: ErrorCode = ErrorCode.STALE_BROKER_EPOCH
        """What brokers that ask for another in-sync set are told; NONE: every change that fits is made."""
        self.asked: list[tuple[int, tuple[int, ...]]] = []
        """Who proposed which in-sync set."""
        self.told: list[tuple[int, bytes]] = []
        """Who said that replicas lie in which directory."""
        self._next_producer_id = 0

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        start = self._next_producer_id
        self._next_producer_id += BLOCK
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK)

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.told += [(request.broker_id, directory.id) for directory in request.directories]
        return assigned(request)

    async def alter_partition(self, request: alter.AlterPartitionRequest, version: int) -> alter.AlterPartitionResponse:
        if self.refusal != ErrorCode.NONE:
            return alter.AlterPartitionResponse(error_code=self.refusal)
        topics = []
        for topic in request.topics:
            answers = [self._alter(request.broker_id, topic.topic_id, asked) for asked in topic.partitions]
            topics.append(alter.ResponseTopicData(topic_id=topic.topic_id, partitions=answers))
        return alter.AlterPartitionResponse(topics=topics)

    def _alter(self, broker_id: int, topic_id: bytes, asked: alter.PartitionData) -> alter.ResponsePartitionData:
        index = asked.partition_index
        state = self._world.image.topics_by_id[topic_id].partitions[index]
        in_sync = [each.broker_id for each in asked.new_isr_with_epochs]
        self.asked.append((broker_id, tuple(in_sync)))
        error = ErrorCode.NONE
        if asked.leader_epoch != state.leader_epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.partition_epoch != state.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        else:
            self._world.publish(PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=in_sync))
        return alter.ResponsePartitionData(partition_index=index, error_code=error)


class ControllerLink(UnaskedController):
    """The controller as one broker sees it, with the image as far as it has heard of it."""

    def __init__(self, world: BrokerWorld) -> None:
        super().__init__(world.image)
        self._controller = world.controller

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._controller.allocate_producer_ids(request)

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        return await self._controller.assign_replicas_to_dirs(request)

    async def alter_partition(self, request: alter.AlterPartitionRequest, version: int) -> alter.AlterPartitionResponse:
        return await self._controller.alter_partition(request, version)


class Node:
    """One broker, from its start to its end; its disk may be that of an earlier one."""

    def __init__(self, world: BrokerWorld, node_id: int, settings: Mapping[str, str], disk: SimDisk | None) -> None:
        self.id = node_id
        self.name = f"node-{node_id}"
        self.loop = SimLoop(world.scheduler, self.name)
        world.network.attach(self.loop)
        random = Random(world.random.getrandbits(64))
        clock = SimClock(self.loop.time, 0)
        self.disk = SimDisk(random, clock.now_ms) if disk is None else disk
        threads = SimThreads(self.loop, lambda: random.uniform(0.0001, 0.001))
        parts = World(self.disk, clock, SimRandom(random))
        values = BrokerValues({"node.id": str(node_id), "process.roles": "broker", "log.dirs": "/data", **settings})
        self._store = LogStore(values.listing("log.dirs"), parts)
        self._store.open(node_id, CLUSTER_ID)
        self.controller = ControllerLink(world)
        self._world = world
        self._values = values
        self._platform = Platform(self.loop, parts, threads, NodeLinks())
        self.broker: Broker

    async def start(self) -> None:
        broker = Broker(self._platform, self.id, self._values, self._store, self.controller, self._give_up)
        self.broker = broker
        broker.context.broker_epoch = broker.image.brokers[self.id].epoch
        self._store.load(lambda name: broker.replicas.settings_of(broker.image, name.topic))
        broker.start()
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
        racks: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.random = Random(seed)
        self.scheduler = Scheduler(self.random)
        self.network = Network(self.scheduler)
        self.image = ClusterImage(CLUSTER_ID)
        """What is committed; each broker hears of it a little later."""
        self.controller = ToldController(self)
        self.nodes: dict[int, Node] = {}
        """Those that live."""
        self._settings = dict(settings or {})
        self._racks = racks
        self._disks: dict[int, SimDisk] = {}
        self._arrival: dict[int, float] = {}
        self._epoch = 0
        self.publish(
            FeatureLevelRecord(name="transaction.version", feature_level=2),
            FeatureLevelRecord(name="group.version", feature_level=1),
        )
        numbers = range(1, brokers + 1)
        for node_id in numbers:
            self._register(node_id)
        for name, partitions in layout.items():
            self.publish(*topic_facts(name, partitions))
        for node_id in numbers:
            self._start(node_id)

    # --- brokers ---

    def boot(self, node_id: int) -> None:
        """Start a broker, on its old disk where there is one."""
        self._register(node_id)
        self._start(node_id)

    def _register(self, node_id: int) -> None:
        self._epoch += 1
        self.publish(
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=self._epoch.to_bytes(16, "big"),
                broker_epoch=self._epoch,
                end_points=[BrokerEndpoint(name=LISTENER, host=f"node-{node_id}", port=PORT, security_protocol=0)],
                rack=f"rack-{node_id}" if self._racks else None,
                fenced=False,
            )
        )

    def _start(self, node_id: int) -> None:
        node = self.nodes[node_id] = Node(self, node_id, self._settings, self._disks.get(node_id))
        self._disks[node_id] = node.disk
        self._arrival[node_id] = self.scheduler.now
        self.scheduler.complete(node.loop, node.start(), 5.0)

    def kill(self, node_id: int, power: bool = False) -> None:
        """Its process ends without a word; with `power` its machine does."""
        node = self.nodes.pop(node_id)
        node.loop.kill()
        if power:
            node.disk.cut_power()
            self.network.cut_power(node.loop)
        else:
            node.disk.kill()
            self.network.kill(node.loop)

    # --- what the controller says ---

    def publish(self, *facts: Fact, late: Mapping[int, float] | None = None) -> None:
        """Facts reach the brokers, in their order; some of them `late` by so many seconds."""
        delta = ClusterDelta(self.image)
        delta.replay_all(facts)
        self.image = delta.apply(self.image.offset + len(facts), 1)
        for node in self.nodes.values():
            delay = self.random.uniform(*DELAY) + (late or {}).get(node.id, 0.0)
            when = self._arrival[node.id] = max(self._arrival[node.id] + DELAY[0], self.scheduler.now + delay)
            self.scheduler.at(when, partial(self._tell, node, facts))

    def _tell(self, node: Node, facts: Sequence[Fact]) -> None:
        if self.nodes.get(node.id) is node:
            node.loop.call_soon(node.controller.take, *facts)

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

    def session(self) -> SimSession:
        """Of the loop that runs."""
        return SimSession([Address(node.name, PORT) for node in self.nodes.values()], self.random)

    def run(self, story: Callable[[SimSession], Coroutine[Any, Any, T]], seconds: float = 60.0) -> T:
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


def topic_id_of(name: str) -> bytes:
    """What a topic has as its id in these worlds."""
    return name.encode().ljust(16, b"-")[:16]


def topic_facts(name: str, partitions: Sequence[Sequence[int]], config: Mapping[str, str] | None = None) -> list[Fact]:
    """A topic, given by the replicas of its partitions."""
    topic_id = topic_id_of(name)
    facts: list[Fact] = [TopicRecord(name=name, topic_id=topic_id)]
    facts += [ConfigRecord(ResourceType.TOPIC, name, key, value) for key, value in (config or {}).items()]
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
