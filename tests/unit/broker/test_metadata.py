"""Metadata while brokers fall: an answer names the successor of a leader, and always a broker to ask again."""

from collections.abc import Iterator

import pytest

from kit.worlds.broker_worlds import LISTENER, BrokerWorld
from ottla.base.vocabulary import TopicPartition
from ottla.broker.handlers import metadata
from ottla.metadata.brokers import FENCE
from ottla.net.dispatch import Context
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.stored.metadata import BrokerRegistrationChangeRecord

CONTEXT = Context(12, None, LISTENER, "test")
SECONDS = 5.0


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    """Broker 1 leads what broker 2 follows."""
    made = BrokerWorld({"orders": [[1, 2]]}, brokers=2)
    made.scheduler.run_for(1.0)
    yield made
    made.close()


def fall(world: BrokerWorld) -> None:
    """Broker 1 is gone, and broker 2 has noticed."""
    world.kill(1)
    while not world.nodes[2].broker.replicas.fetchers.just_lost():
        assert world.scheduler.step()


def leader_told(world: BrokerWorld) -> tuple[int, float]:
    """Who is named by broker 2 as the leader, and after how many seconds."""
    node, began = world.nodes[2], world.scheduler.now
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
    answer: MetadataResponse = world.scheduler.complete(
        node.loop, metadata.handle(node.broker, request, CONTEXT), SECONDS
    )
    return answer.topics[0].partitions[0].leader_id, world.scheduler.now - began


def test_who_asks_while_a_leader_falls_hears_of_its_successor(world: BrokerWorld) -> None:
    fall(world)
    world.scheduler.after(0.1, lambda: world.move(TopicPartition("orders", 0), 2, in_sync=[2]))
    leader, seconds = leader_told(world)
    assert leader == 2
    assert 0.1 < seconds < metadata.FALL_SECONDS


def test_a_leader_without_a_successor_is_not_waited_for_long(world: BrokerWorld) -> None:
    fall(world)
    leader, seconds = leader_told(world)
    assert leader == 1
    assert seconds == pytest.approx(metadata.FALL_SECONDS, abs=0.1)


def test_nobody_waits_while_all_leaders_answer(world: BrokerWorld) -> None:
    leader, seconds = leader_told(world)
    assert leader == 1
    assert seconds < 0.001


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
