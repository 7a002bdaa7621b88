"""A controller on virtual time, and a quorum of which the test decides when it agrees and who leads it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from kit.machines.clusters import CLUSTER, registration
from ottla.base.settings.values import BrokerValues
from ottla.controller.controller import Controller
from ottla.controller.image_loader import ImageLoader
from ottla.log.files import StorageFailure, World
from ottla.metadata.facts import Fact, decode_facts, encode_facts
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.metadata.quorum_events import NotLeader, Stored
from ottla.records.control import Voter
from ottla.runtime.disk import RealDisk
from ottla.sim.loop import Scheduler, SimLoop
from ottla.sim.world import SimClock, SimRandom
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.stored.metadata import AbortTransactionRecord

T = TypeVar("T")


def voters(count: int) -> tuple[Voter, ...]:
    return tuple(Voter(number, bytes(16), (), 0, 0) for number in range(100, 100 + count))


class ScriptedQuorum:
    """Keeps what is appended until the test, or the next turn of the loop, has it agreed on."""

    def __init__(self, office: "Office") -> None:
        self._office = office
        self.stored: list[Stored] = []
        self.waiting: list[Stored] = []
        self.end_offset = 0
        self.epoch = 0
        self.leads = False
        self.patient = False
        """Whether agreement waits for `agree`."""
        self.interrupted = False
        self.damaged: StorageFailure | None = None
        self.failure: StorageFailure | None = None
        self.voters: Sequence[Voter] = voters(3)

    def append(self, facts: list[Fact]) -> int:
        if self.failure is not None:
            raise self.failure
        if not self.leads:
            raise NotLeader
        self.end_offset += len(facts)
        # As bytes and back: what others hear must not share anything with what was decided.
        self.waiting.append(Stored(decode_facts(encode_facts(facts)), self.end_offset - 1, self.epoch))
        if not self.patient:
            self._office.loop.call_soon(self.agree)
        return self.end_offset - 1

    def agree(self) -> None:
        agreed, self.waiting = self.waiting, []
        self.stored += agreed
        # The records around a transaction are the quorum's own business.
        told = [
            batch._replace(facts=[fact for fact in batch.facts if not isinstance(fact, AbortTransactionRecord)])
            for batch in agreed
        ]
        self._office.controller.committed(told)

    def lead(self) -> None:
        self.epoch += 1
        self.end_offset += 1  # the record that begins an epoch
        self.leads = True
        self._office.controller.began_leading(self.epoch)

    def lose(self) -> None:
        """Another node leads, and what was not agreed on is gone."""
        self.leads = False
        self.end_offset -= sum(len(batch.facts) for batch in self.waiting)
        self.waiting.clear()
        self._office.controller.stopped_leading(self.epoch)


class Office:
    """A controller, its quorum, and time that passes when it is told to."""

    def __init__(self, settings: dict[str, str] | None = None, *, leads: bool = True) -> None:
        self.scheduler = Scheduler(Random(1))
        self.loop = SimLoop(self.scheduler, "controller")
        world = World(RealDisk(), SimClock(self.loop.time, 0), SimRandom(Random(2)))
        self.loader = ImageLoader(CLUSTER)
        self.controller = Controller(self.loader, 100, BrokerValues({"node.id": "100", **(settings or {})}), world)
        self.quorum = ScriptedQuorum(self)
        self._incarnations = 0
        self.controller.attach(self.quorum)
        if leads:
            self.do(self.quorum.lead)
            self.wait(0.01)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.scheduler.complete(self.loop, work, 60)

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Something that goes on while the test does more."""
        task = self.loop.create_task(work)
        self.wait(0.001)
        return task

    def do(self, what: Callable[[], None]) -> None:
        """Call something on the loop."""

        async def call() -> None:
            what()

        self.run(call())

    def wait(self, seconds: float) -> None:
        self.scheduler.run_for(seconds)

    def join(self, *broker_ids: int) -> None:
        """Brokers register and take part."""
        for broker_id in broker_ids:
            reply = self.run(self.controller.register_broker(registration(broker_id)))
            assert reply.error_code == 0
            self.beat(broker_id)

    def join_again(self, broker_id: int) -> None:
        """A broker that was killed comes back."""
        self.wait(0.01)
        self._incarnations += 1
        again = registration(broker_id, incarnation=1000 + self._incarnations)
        assert self.run(self.controller.register_broker(again)).error_code == 0
        self.beat(broker_id)

    def follow(self, topic: str, broker_id: int) -> None:
        """The leader of a topic's only partition takes a follower into its in-sync set."""
        found = self.image.topics[topic]
        partition = found.partitions[0]
        members = [*partition.in_sync, broker_id]
        data = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[BrokerState(each, self.image.brokers[each].epoch) for each in members],
            partition_epoch=partition.partition_epoch,
        )
        leader = self.image.brokers[partition.leader]
        request = AlterPartitionRequest(leader.id, leader.epoch, [TopicData(found.topic_id, [data])])
        reply = self.run(self.controller.alter_partition(request, 3))
        assert reply.topics[0].partitions[0].error_code == 0

    def configure(self, topic: str, name: str, value: str) -> None:
        resource = AlterConfigsResource(ResourceType.TOPIC, topic, [AlterableConfig(name, 0, value)])
        request = IncrementalAlterConfigsRequest([resource])
        assert self.run(self.controller.incremental_alter_configs(request)).responses[0].error_code == 0

    def beat(self, broker_id: int, *, offset: int | None = None, stop: bool = False) -> BrokerHeartbeatResponse:
        broker = self.image.brokers[broker_id]
        seen = self.image.offset if offset is None else offset
        request = BrokerHeartbeatRequest(broker_id, broker.epoch, seen, want_shut_down=stop)
        return self.run(self.controller.broker_heartbeat(request))

    def close(self) -> None:
        self.scheduler.close()
