"""A power cut before a flush: what it takes from a lone replica, and which settings leave it nothing to take.

The documentation warns of it; here the loss is shown, and that flushing every message, or a second replica on another
machine, prevents it.
"""

from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, TypeVar

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import ClientError
from ottla.sim.client import SimProducer, SimSession
from ottla.sim.cluster import SimCluster
from ottla.sim.loop import Scheduler
from ottla.sim.network import Network

T = TypeVar("T")

BOTH = "broker,controller"
PARTITION = TopicPartition("orders", 0)
RECORDS = 20
PATIENCE = 60.0


class Story:
    """A cluster, one client, and a way to ask until it works."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.scheduler = Scheduler(Random(seed))
        self.cluster = SimCluster(self.scheduler, Network(self.scheduler), [BOTH] * nodes, {})
        self.loop = self.cluster.client("client")
        self.cluster.boot()
        self.until_ready()

    def until_ready(self) -> None:
        deadline = self.scheduler.now + PATIENCE
        while not all(node.ready for node in self.cluster.nodes):
            assert self.scheduler.now < deadline, "the nodes did not come up"
            self.scheduler.run_for(0.1)

    def ask(self, work: Callable[[SimSession], Coroutine[Any, Any, T]]) -> T:
        async def repeat() -> T:
            session = SimSession(self.cluster.addresses, Random(0))
            deadline = session.deadline(PATIENCE)
            while True:
                try:
                    return await work(session)
                except ClientError:
                    assert session.deadline(0) < deadline, "the cluster did not answer"
                await session.pause()

        return self.scheduler.complete(self.loop, repeat(), PATIENCE + 30)

    def write(self, replicas: int, configs: Mapping[str, str]) -> None:
        """Records that were all acknowledged."""
        self.ask(lambda session: session.create_topic(PARTITION.topic, 1, replicas, configs))
        producer = self.ask(lambda session: session.init_producer(None, 60_000))
        for number in range(RECORDS):
            value = str(number).encode()

            async def produce(
                session: SimSession, value: bytes = value, number: int = number, producer: SimProducer = producer
            ) -> int:
                return await session.produce(PARTITION, [value], producer, number, 3.0)

            assert self.ask(produce) == number

    def left(self) -> int:
        """How many records a consumer finds once everybody is back."""
        for node in self.cluster.nodes:
            if not node.alive:
                node.boot()
        self.until_ready()
        return self.ask(lambda session: session.end_offset(PARTITION))

    def leader(self) -> int:
        async def find(session: SimSession) -> int:
            return (await session.cluster.leader(PARTITION, session.deadline(5))).leader

        return self.ask(find)


def lost(seed: int, nodes: int, replicas: int, configs: Mapping[str, str]) -> int:
    """Acknowledged records that are gone after the power of the leader's machine was cut."""
    story = Story(seed, nodes)
    try:
        story.write(replicas, configs)
        story.cluster.nodes[story.leader() - 1].cut_power()
        if nodes > 1:
            # The others notice and go on while the machine is dark.
            story.scheduler.run_for(30.0)
        return RECORDS - story.left()
    finally:
        story.scheduler.close()


SEEDS = range(8)


def test_a_lone_replica_loses_what_was_not_flushed() -> None:
    assert sum(lost(seed, 1, 1, {}) for seed in SEEDS) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lone_replica_that_flushes_every_message_loses_nothing(seed: int) -> None:
    assert lost(seed, 1, 1, {"flush.messages": "1"}) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_on_other_machines_lose_nothing(seed: int) -> None:
    assert lost(seed, 3, 3, {"min.insync.replicas": "2"}) == 0
