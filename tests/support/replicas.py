"""Real brokers on virtual time, with a controller that does as it is told: for tests of replication alone."""

from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, TypeVar, cast

from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.broker.broker import Broker
from ottla.client.links import NodeLinks
from ottla.log.files import World
from ottla.log.store import LogStore
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.header import iterate_headers
from ottla.records.record import Record
from ottla.replicas.context import Platform
from ottla.replicas.partitions import Partition
from ottla.sim.disk import SimDisk
from ottla.sim.loop import Scheduler, SimLoop, SimThreads
from ottla.sim.network import Network
from ottla.sim.world import SimClock, SimRandom
from ottla.wire.links import Link
from ottla.wire.messages import alter_partition as alter
from ottla.wire.messages import fetch, produce
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from ottla.wire.stored import metadata as stored
from support.clusters import assigned

T = TypeVar("T")
TOPIC = "orders"
TOPIC_ID = bytes(range(16))
PORT = 9092
SETTINGS = {"replica.lag.time.max.ms": "10000"}
Subscriber = Callable[[ClusterDelta, ClusterImage], None]


class ToldController:
    """The image and who follows it; grants every change of an in-sync set that fits the partition's epoch."""

    def __init__(self) -> None:
        self.image = ClusterImage("a-cluster")
        self.supported_features: Mapping[str, tuple[int, int]] = {}
        self.subscribers: dict[SimLoop, Subscriber] = {}
        self.asked: list[tuple[int, tuple[int, ...]]] = []
        """Who proposed which in-sync set."""
        self.told: list[tuple[int, bytes]] = []
        """Who said that replicas lie in which directory."""
        self.silent = False

    def publish(self, *facts: Any) -> None:
        delta = ClusterDelta(self.image)
        delta.replay_all(facts)
        self.image = delta.apply(self.image.offset + len(facts), 1)
        for loop, subscriber in self.subscribers.items():
            loop.call_soon(subscriber, delta, self.image)

    def change(self, partition: int = 0, **fields: Any) -> None:
        self.publish(stored.PartitionChangeRecord(partition_id=partition, topic_id=TOPIC_ID, **fields))

    def partition(self, number: int = 0) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[number]

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.told += [(request.broker_id, directory.id) for directory in request.directories]
        return assigned(request)

    async def alter_partition(self, request: alter.AlterPartitionRequest, version: int) -> alter.AlterPartitionResponse:
        answers = []
        if self.silent:
            return alter.AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
        for topic in request.topics:
            for asked in topic.partitions:
                state = self.partition(asked.partition_index)
                in_sync = tuple(each.broker_id for each in asked.new_isr_with_epochs)
                self.asked.append((request.broker_id, in_sync))
                error = ErrorCode.NONE
                if asked.leader_epoch != state.leader_epoch:
                    error = ErrorCode.FENCED_LEADER_EPOCH
                elif asked.partition_epoch != state.partition_epoch:
                    error = ErrorCode.INVALID_UPDATE_VERSION
                else:
                    self.change(asked.partition_index, isr=list(in_sync))
                answers.append(alter.ResponsePartitionData(partition_index=asked.partition_index, error_code=error))
        return alter.AlterPartitionResponse(
            topics=[alter.ResponseTopicData(topic_id=request.topics[0].topic_id, partitions=answers)]
        )


class _Face:
    """What one broker sees of the controller."""

    def __init__(self, controller: ToldController, loop: SimLoop) -> None:
        self._controller = controller
        self._loop = loop

    def subscribe(self, subscriber: Subscriber) -> None:
        self._controller.subscribers[self._loop] = subscriber

    def __getattr__(self, name: str) -> Any:
        return getattr(self._controller, name)


class Replicas:
    """Some brokers and a client."""

    def __init__(self, count: int = 3, seed: int = 1, racks: bool = False, settings: Mapping[str, str] = {}) -> None:
        self.random = Random(seed)
        self.scheduler = Scheduler(self.random)
        self.network = Network(self.scheduler)
        self.controller = ToldController()
        self.client = SimLoop(self.scheduler, "client")
        self.network.attach(self.client)
        self.brokers: dict[int, Broker] = {}
        self._disks: dict[int, SimDisk] = {}
        self._links: dict[int, Link] = {}
        self._settings = {**SETTINGS, **settings}
        self._epoch = 0
        for number in range(1, count + 1):
            self.boot(number, f"rack-{number}" if racks else None)

    # --- brokers ---

    def boot(self, number: int, rack: str | None = None) -> Broker:
        """Start a broker, on its old disk where there is one."""
        loop = SimLoop(self.scheduler, f"n{number}")
        self.network.attach(loop)
        clock = SimClock(loop.time, 0)
        disk = self._disks.setdefault(number, SimDisk(self.random, clock.now_ms))
        world = World(disk, clock, SimRandom(self.random))
        values = BrokerValues({"node.id": str(number), "log.dirs": "/data", **self._settings})
        store = LogStore(values.listing("log.dirs"), world)
        store.open(number, "a-cluster")
        self._epoch += 1
        self.controller.publish(
            stored.RegisterBrokerRecord(
                number,
                broker_epoch=self._epoch,
                end_points=[stored.BrokerEndpoint("PLAINTEXT", f"n{number}", PORT, 0)],
                rack=rack,
                fenced=False,
            )
        )
        face = cast(Any, _Face(self.controller, loop))
        platform = Platform(loop, world, SimThreads(loop, lambda: 0.001), NodeLinks())
        broker = Broker(platform, number, values, store, face, self._give_up)
        broker.context.broker_epoch = self._epoch
        store.load(lambda name: broker.replicas.settings_of(broker.image, name.topic))
        self.brokers[number] = broker

        async def start() -> None:
            broker.start()

        self.scheduler.complete(loop, start(), 1)
        accept = broker.connections.accept
        self.network.listen(
            PORT, loop, lambda socket, peer: accept(cast(Any, socket), peer, "PLAINTEXT", broker.dispatcher)
        )
        return broker

    def _give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def kill(self, number: int, power: bool = False) -> None:
        broker = self.brokers.pop(number)
        loop = cast(SimLoop, broker.loop)
        loop.kill()
        self.controller.subscribers.pop(loop, None)
        if power:
            self._disks[number].cut_power()
            self.network.cut_power(loop)
        else:
            self._disks[number].kill()
            self.network.kill(loop)

    def disk(self, number: int) -> SimDisk:
        return self._disks[number]

    def close(self) -> None:
        self.scheduler.close()

    # --- the topic ---

    def create(self, replicas: list[int], config: Mapping[str, str] = {}, partitions: int = 1) -> None:
        facts: list[Any] = [stored.TopicRecord(TOPIC, TOPIC_ID)]
        facts += [stored.ConfigRecord(2, TOPIC, name, value) for name, value in config.items()]
        facts += [
            stored.PartitionRecord(
                number, TOPIC_ID, replicas, replicas, leader=replicas[0], leader_epoch=0, partition_epoch=0
            )
            for number in range(partitions)
        ]
        self.controller.publish(*facts)
        self.run(0.1)

    def partition(self, broker: int, number: int = 0) -> Partition:
        found = self.brokers[broker].partitions.held(TOPIC, number)
        assert isinstance(found, Partition), found
        return found

    def end(self, broker: int) -> int:
        log = self.partition(broker).log
        assert log is not None
        return log.end_offset

    def watermark(self, broker: int) -> int:
        log = self.partition(broker).log
        assert log is not None
        return log.high_watermark

    # --- time and requests ---

    def run(self, seconds: float) -> None:
        self.scheduler.run_for(seconds)

    def until(self, true: Callable[[], bool], seconds: float = 30) -> None:
        deadline = self.scheduler.now + seconds
        while not true():
            assert self.scheduler.now < deadline, "it did not come true in time"
            assert self.scheduler.step()

    def complete(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        return self.scheduler.complete(self.client, work, seconds)

    def link(self, broker: int) -> Link:
        if broker not in self._links:
            self._links[broker] = NodeLinks().link(f"n{broker}", PORT)
        return self._links[broker]

    async def produce(
        self, broker: int, value: bytes, acks: int = -1, timeout_ms: int = 5000, partition: int = 0
    ) -> produce.PartitionProduceResponse:
        batch = build_batch([Record(0, 1_750_000_000_000, None, value)])
        request = produce.ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                produce.TopicProduceData(
                    topic_id=TOPIC_ID, partition_data=[produce.PartitionProduceData(partition, bytes(batch))]
                )
            ],
        )
        answer = await self.link(broker).ask(request, produce.ProduceResponse, 30)
        self.last_produced = answer
        return answer.responses[0].partition_responses[0]

    async def fetch(self, broker: int, offset: int, rack: str = "", wait_ms: int = 0) -> fetch.PartitionData:
        request = fetch.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_epoch=-1,
            rack_id=rack,
            topics=[
                fetch.FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[fetch.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)],
                )
            ],
        )
        answer = await self.link(broker).ask(request, fetch.FetchResponse, 30)
        self.last_fetched = answer
        return answer.responses[0].partitions[0]

    def values(self, broker: int) -> list[bytes | None]:
        """Everything in a broker's log, committed or not."""
        log = self.partition(broker).log
        assert log is not None
        found: list[bytes | None] = []
        position = log.start_offset
        while position < log.end_offset:
            part = log.read(position, 1 << 20, log.end_offset, True)
            assert part is not None
            assert not isinstance(part, ErrorCode)
            data = part.file.read_at(part.position, part.length)
            for start, header in iterate_headers(data):
                found += [record.value for record in read_records(data, header, start)]
                position = header.next_offset
        return found
