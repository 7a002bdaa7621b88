"""Metadata while brokers fall: an answer names the successor of a leader, and always a broker to ask again."""

import asyncio
from types import SimpleNamespace
from typing import Any

from ottla.broker.handlers import metadata
from ottla.metadata.brokers import FENCE
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.net.dispatch import Context
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.stored.metadata import BrokerRegistrationChangeRecord
from support.broker_worlds import LISTENER, BrokerWorld

ID = b"t" * 16
CONTEXT = Context(12, None, "PLAINTEXT", "test")


def image_led_by(leader: int) -> ClusterImage:
    broker = SimpleNamespace(id=leader, fenced=False, listeners={"PLAINTEXT": ("h", 1)})
    topic = TopicImage("orders", ID, (PartitionImage((1, 2), (1, 2), leader, 5, 1),))
    brokers: Any = {leader: broker}
    return ClusterImage("c", topics={"orders": topic}, topics_by_id={ID: topic}, brokers=brokers)


class Fall:
    """A broker that has just lost broker 1, which leads; a change of metadata is on its way."""

    def __init__(self, successor: int) -> None:
        self.image = image_led_by(1)
        self.loop = asyncio.get_running_loop()
        self.node_id = 2
        self.controller_id = lambda: 2
        self.fetchers = SimpleNamespace(just_lost=lambda: {1})
        self.replicas = self
        self._successor = successor
        self.waited = 0

    def nodes(self, listener: str) -> list[Any]:
        return []

    async def next_change(self, seconds: float) -> None:
        self.waited += 1
        if self._successor == 1:
            await asyncio.sleep(seconds)
        self.image = image_led_by(self._successor)


async def leader_told(fall: Fall) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
    answer: MetadataResponse = await metadata.handle(fall, request, CONTEXT)
    return answer.topics[0].partitions[0].leader_id


async def test_who_asks_while_a_leader_falls_hears_of_its_successor() -> None:
    fall = Fall(successor=2)
    assert await leader_told(fall) == 2
    assert fall.waited == 1


async def test_a_leader_without_a_successor_is_not_waited_for_long(monkeypatch: Any) -> None:
    monkeypatch.setattr(metadata, "FALL_SECONDS", 0.01)
    assert await asyncio.wait_for(leader_told(Fall(successor=1)), 60) == 1


async def test_nobody_waits_while_all_leaders_answer() -> None:
    fall = Fall(successor=2)
    fall.fetchers.just_lost = set
    assert await leader_told(fall) == 1
    assert fall.waited == 0


def test_clients_are_told_of_brokers_that_live_or_else_of_the_one_they_asked() -> None:
    world = BrokerWorld({}, brokers=2)
    try:
        told = []
        for broker_id in (2, 1):
            fenced = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=FENCE)
            world.publish(fenced)
            world.scheduler.run_for(world.lag())
            told.append({node.id: [each[0] for each in node.broker.nodes(LISTENER)] for node in world.nodes.values()})
        assert told == [{1: [1], 2: [1]}, {1: [1], 2: [2]}]
    finally:
        world.close()
