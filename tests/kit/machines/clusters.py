"""Clusters for tests of metadata: images made of facts, and controllers on a disk that can fail."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from kit.disks.compacting import CountingRandom, ManualClock
from kit.disks.faulty_disk import FaultyDisk
from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.broker.controller_channel import ControllerChannel
from ottla.controller.controller import Controller
from ottla.controller.image_loader import ImageLoader
from ottla.log.files import World
from ottla.metadata import brokers
from ottla.metadata.decision import DecisionContext
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.features import SUPPORTED
from ottla.metadata.image import ClusterImage
from ottla.quorum.node import QuorumNode
from ottla.quorum.settings import QuorumIdentity, QuorumPlatform, QuorumSettings
from ottla.records.control import Voter
from ottla.runtime.disk import RealDisk
from ottla.wire.links import Link
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.stored.metadata import FenceBrokerRecord, PartitionRecord, TopicRecord, UnfenceBrokerRecord

CLUSTER = "a-cluster-of-the-tests"
DIRECTORY_ID = bytes(range(16))


def applied(facts: Iterable[Fact], image: ClusterImage | None = None) -> ClusterImage:
    """The image after some facts."""
    before = ClusterImage(CLUSTER) if image is None else image
    delta = ClusterDelta(before)
    listed = list(facts)
    delta.replay_all(listed)
    return delta.apply(before.offset + len(listed), 1)


def cluster(racks: Mapping[int, str | None] | int = 1, *, fenced: Sequence[int] = ()) -> ClusterImage:
    """Brokers by id with their racks; a number stands for so many without racks."""
    wanted = dict.fromkeys(range(1, racks + 1)) if isinstance(racks, int) else racks
    image = ClusterImage(CLUSTER)
    for broker_id, rack in wanted.items():
        place = DecisionContext(image, BrokerValues({}))
        facts = brokers.register(registration(broker_id, rack), place, broker_id, brokers.RegisteredProcess.GONE).facts
        image = applied([*facts, UnfenceBrokerRecord(id=broker_id, epoch=broker_id)], image)
    return applied([FenceBrokerRecord(id=broker_id, epoch=broker_id) for broker_id in fenced], image)


def registration(broker_id: int = 1, rack: str | None = None, *, incarnation: int = 0) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation_id=(incarnation or broker_id).to_bytes(16, "big"),
        listeners=[Listener("PLAINTEXT", "broker.test", 9092, 0)],
        features=[Feature(name, first, last) for name, (first, last) in SUPPORTED.items()],
        rack=rack,
        log_dirs=[directory_id(broker_id)],
    )


def directory_id(broker_id: int) -> bytes:
    """The one directory of a broker; that of broker 1 is DIRECTORY_ID."""
    return bytes([broker_id - 1, *DIRECTORY_ID[1:]])


def topic_facts(name: str, partitions: int = 1, replicas: Sequence[int] = (1,)) -> list[Fact]:
    """A topic whose id is its name."""
    topic_id = name.encode().ljust(16, b"-")[:16]
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directory_id(replica) for replica in replicas],
            )
            for number in range(partitions)
        ),
    ]


def with_topics(*names: str, image: ClusterImage | None = None, partitions: int = 1) -> ClusterImage:
    before = cluster() if image is None else image
    return applied([fact for name in names for fact in topic_facts(name, partitions)], before)


def new_topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    configs: Mapping[str, str | None] | None = None,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[CreatableReplicaAssignment(number, brokers) for number, brokers in assignments],
        configs=[CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )


def creation(*topics: CreatableTopic | str, validate_only: bool = False) -> CreateTopicsRequest:
    wanted = [new_topic(topic) if isinstance(topic, str) else topic for topic in topics]
    return CreateTopicsRequest(topics=wanted, validate_only=validate_only)


class NoLinks:
    """A quorum of one asks nobody."""

    def link(self, host: str, port: int) -> Link:
        raise AssertionError(f"nobody is to be asked, and {host}:{port} was")


class Controlled:
    """The controller of a quorum of one, on a disk that can fail; syncs wait for `release` once `hold` was called."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = str(directory / "__cluster_metadata-0")
        self.settings = {"node.id": "1", **(settings or {})}
        self.disk = FaultyDisk(RealDisk())
        self.clock = ManualClock(1_700_000_000_000)
        self.random = CountingRandom()
        self.syncs = 0
        self.starts = 0
        self.port = 9092
        self._gate: asyncio.Event | None = None
        self._started: tuple[Controller, QuorumNode] | None = None

    @property
    def controller(self) -> Controller:
        assert self._started is not None, "start comes first"
        return self._started[0]

    @property
    def channel(self) -> ControllerChannel:
        """The way of the node's own broker to it."""
        return ControllerChannel(self.controller, self.quorum, NoLinks(), self.controller)

    @property
    def quorum(self) -> QuorumNode:
        assert self._started is not None, "start comes first"
        return self._started[1]

    async def start(self) -> Controller:
        """Open the log as a process that starts does, and take broker 1 in."""
        if self._started is not None:
            # A process that was killed does nothing more.
            self.controller.stopped_leading(0)
        world = World(self.disk, self.clock, self.random)
        controller = Controller(ImageLoader(CLUSTER), 1, BrokerValues(self.settings), world)
        platform = QuorumPlatform(asyncio.get_running_loop(), world, self._run_blocking, self.directory)
        identity = QuorumIdentity(CLUSTER, 1, bytes(16), (Voter(1, bytes(16), (), 0, 0),), can_vote=True)
        quorum = QuorumNode(platform, identity, QuorumSettings(), NoLinks(), controller)
        controller.attach(quorum)
        self._started = (controller, quorum)
        quorum.open()
        quorum.start()
        self.starts += 1
        request = registration(1, incarnation=self.starts)
        request.listeners[0].port = self.port
        epoch = (await controller.register_broker(request)).broker_epoch
        await controller.broker_heartbeat(BrokerHeartbeatRequest(1, epoch, controller.image.offset))
        return controller

    async def heal(self) -> None:
        """The disk works again, and the quorum has noticed."""
        self.disk.heal()
        led = asyncio.Event()
        self.controller.when_leading(led.set)
        if not self.controller.active:
            await asyncio.wait_for(led.wait(), 60)

    async def stop(self) -> None:
        await self.quorum.stop()
        self.quorum.close()

    async def _run_blocking(self, work: Callable[[], None]) -> None:
        self.syncs += 1
        await asyncio.sleep(0)
        if self._gate is not None:
            await self._gate.wait()
        work()

    def hold(self) -> None:
        self._gate = asyncio.Event()

    def release(self) -> None:
        assert self._gate is not None
        self._gate.set()
        self._gate = None


def settled(image: ClusterImage) -> ClusterImage:
    """What of an image must survive a restart: all but what a broker that begins anew changes each time."""
    registered = {key: broker._replace(epoch=0, incarnation_id=b"") for key, broker in image.brokers.items()}
    topics = {
        name: topic._replace(
            partitions=tuple(
                each._replace(leader_epoch=0, partition_epoch=0, recovering=False) for each in topic.partitions
            )
        )
        for name, topic in image.topics.items()
    }
    by_id = {topic.topic_id: topic for topic in topics.values()}
    return image._replace(offset=0, epoch=0, brokers=registered, topics=topics, topics_by_id=by_id)


def assigned(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    """The answer of a controller that takes note of where all these replicas lie."""
    return AssignReplicasToDirsResponse(
        directories=[
            ResponseDirectoryData(
                directory.id,
                [
                    ResponseTopicData(
                        topic.topic_id,
                        [ResponsePartitionData(each.partition_index, ErrorCode.NONE) for each in topic.partitions],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )
