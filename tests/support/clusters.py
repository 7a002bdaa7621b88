"""Clusters for tests of metadata: images made of facts, and controllers on a disk that can fail."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ottla.base.settings.values import BrokerValues
from ottla.controller.sole_controller import Controller, Listener, Registration, register
from ottla.log.files import World
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage
from ottla.runtime.disk import RealDisk
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.stored.metadata import FenceBrokerRecord, PartitionRecord, TopicRecord
from support.compacting import CountingRandom, ManualClock
from support.faulty_disk import FaultyDisk

CLUSTER = "a-cluster-of-the-tests"
DIRECTORY_ID = bytes(range(16))


def applied(facts: Iterable[Fact], image: ClusterImage | None = None) -> ClusterImage:
    """The image after some facts."""
    before = ClusterImage(CLUSTER) if image is None else image
    delta = ClusterDelta(before)
    listed = list(facts)
    delta.replay_all(listed)
    return delta.apply(before.offset + len(listed), 1)


def cluster(brokers: Mapping[int, str | None] | int = 1, *, fenced: Sequence[int] = ()) -> ClusterImage:
    """Brokers by id with their racks; a number stands for so many without racks."""
    racks = dict.fromkeys(range(1, brokers + 1)) if isinstance(brokers, int) else brokers
    facts: list[Fact] = []
    for broker_id, rack in racks.items():
        facts += register(registration(broker_id, rack), epoch=broker_id)
    facts += [FenceBrokerRecord(id=broker_id, epoch=broker_id) for broker_id in fenced]
    return applied(facts)


def registration(broker_id: int = 1, rack: str | None = None) -> Registration:
    listeners = {"PLAINTEXT": Listener("broker.test", 9092)}
    return Registration(broker_id, broker_id.to_bytes(16, "big"), listeners, [DIRECTORY_ID], rack)


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
                directories=[DIRECTORY_ID for _ in replicas],
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


class Controlled:
    """A controller on a disk that can fail; syncs wait for `release` once `hold` was called."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = str(directory / "__cluster_metadata-0")
        self.settings = {"node.id": "1", **(settings or {})}
        self.disk = FaultyDisk(RealDisk())
        self.clock = ManualClock(1_700_000_000_000)
        self.random = CountingRandom()
        self.syncs = 0
        self._gate: asyncio.Event | None = None
        self.controller = self.start()

    def start(self) -> Controller:
        """Open the log as a process that starts does."""
        self.controller = Controller(
            World(self.disk, self.clock, self.random),
            self.directory,
            CLUSTER,
            1,
            BrokerValues(self.settings),
            self._run_blocking,
        )
        self.controller.open()
        self.controller.register(registration())
        return self.controller

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
    """What of an image must survive a restart: all but the position and the registration, which are new each time."""
    brokers = {key: broker._replace(epoch=0) for key, broker in image.brokers.items()}
    return image._replace(offset=0, epoch=0, brokers=brokers)
