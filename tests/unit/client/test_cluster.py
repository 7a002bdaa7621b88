"""Bootstrap, metadata, leaders, and what is tried again."""

from __future__ import annotations

import pytest

from kit.wire.scripted_broker import ScriptedBroker
from kit.worlds.loop_time import LoopTime
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError, ConnectionFailed
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

LATER = 60.0


def metadata(broker: ScriptedBroker, *topics: MetadataResponseTopic) -> MetadataResponse:
    host, port = broker.address
    return MetadataResponse(brokers=[MetadataResponseBroker(1, host, port)], controller_id=1, topics=topics)


def topic(name: str, leaders: list[int], error: ErrorCode = ErrorCode.NONE) -> MetadataResponseTopic:
    parts = [MetadataResponsePartition(0, number, leader) for number, leader in enumerate(leaders)]
    return MetadataResponseTopic(error, name, partitions=parts[::-1])


async def nobody() -> Address:
    async with ScriptedBroker() as gone:
        return gone.address


async def test_the_first_address_that_answers_is_enough() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[MetadataRequest] = lambda _: metadata(broker)
        async with Cluster([await nobody(), broker.address]) as cluster:
            await cluster.connect(cluster.deadline(LATER))
            assert list(cluster.brokers) == [1]
            assert broker.connections == 1


async def test_without_any_broker_connecting_fails_at_once() -> None:
    async with Cluster([await nobody()]) as cluster:
        with pytest.raises(ConnectionFailed, match="refused"):
            await cluster.connect(cluster.deadline(LATER))


async def test_leaders_are_looked_up_once_and_partitions_are_in_order() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[MetadataRequest] = lambda _: metadata(broker, topic("t", [1, 1]))
        async with Cluster([broker.address]) as cluster:
            for number in (0, 1, 0):
                found = await cluster.leader(TopicPartition("t", number), cluster.deadline(LATER))
                assert (found.number, found.leader) == (number, 1)
            assert len(broker.received(MetadataRequest)) == 1


async def test_a_topic_that_is_not_there_is_said_at_once_unless_it_may_be_created() -> None:
    answers = iter([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE])
    async with ScriptedBroker() as broker:
        broker.answers[MetadataRequest] = lambda _: metadata(broker, topic("t", [], next(answers)))
        async with Cluster([broker.address]) as cluster:
            with pytest.raises(BrokerError) as raised:
                await cluster.topic("t", cluster.deadline(LATER))
            assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            later = iter([topic("t", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), topic("t", [1])])
            broker.answers[MetadataRequest] = lambda _: metadata(broker, next(later))
            assert (await cluster.topic("t", cluster.deadline(LATER), create=True)).name == "t"
            asked = broker.received(MetadataRequest)
            assert [request.allow_auto_topic_creation for request in asked] == [False, True, True]


async def test_a_partition_without_leader_is_asked_about_again() -> None:
    async with ScriptedBroker() as broker:
        answers = iter([topic("t", [-1]), topic("t", [1])])
        broker.answers[MetadataRequest] = lambda _: metadata(broker, next(answers))
        async with Cluster([broker.address]) as cluster:
            deadline = cluster.deadline(LATER)
            found = await cluster.retry(lambda: cluster.leader(TopicPartition("t", 0), deadline), deadline)
            assert found.leader == 1


async def test_at_the_deadline_the_last_failure_is_what_the_caller_hears(loop_time: LoopTime) -> None:
    def without_leader(_: object) -> MetadataResponse:
        loop_time.forward(LATER / 3)
        return metadata(broker, topic("t", [-1]))

    async with ScriptedBroker() as broker:
        broker.answers[MetadataRequest] = without_leader
        async with Cluster([broker.address]) as cluster:
            deadline = cluster.deadline(LATER)
            with pytest.raises(BrokerError) as raised:
                await cluster.retry(lambda: cluster.leader(TopicPartition("t", 0), deadline), deadline)
            assert raised.value.code == ErrorCode.LEADER_NOT_AVAILABLE
            assert len(broker.received(MetadataRequest)) > 1


async def test_a_lost_connection_is_made_again() -> None:
    async with ScriptedBroker() as broker:
        broker.answers[MetadataRequest] = lambda _: metadata(broker)
        async with Cluster([broker.address]) as cluster:
            await cluster.connect(cluster.deadline(LATER))
            broker.hang_up()
            deadline = cluster.deadline(LATER)
            await cluster.retry(lambda: cluster.refresh((), deadline), deadline)
            assert broker.connections == 2
