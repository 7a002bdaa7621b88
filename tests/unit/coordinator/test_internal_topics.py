"""Which partition holds a group, and how the topic of groups is made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from kit.machines.clusters import cluster, with_topics
from kit.worlds.idle_brokers import idle_broker
from kit.worlds.unasked import UnaskedController
from ottla.base.errors import ErrorCode
from ottla.broker.broker import Broker
from ottla.coordinator.groups.group_coordinator import OFFSETS_TOPIC
from ottla.coordinator.runtime import java_hash
from ottla.metadata.image import ClusterImage
from ottla.wire.links import LinkDown
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("g-probe", 1_681_149_238),
        ("polygenelubricants", 0),  # its hash is Java's smallest number, which has no positive counterpart
        ("𝄞", 1_772_394),
        ("ünïcode", 609_351_766),
    ],
)
def test_group_ids_are_hashed_as_java_does(text: str, number: int) -> None:
    assert java_hash(text) == number


class Creating(UnaskedController):
    """A controller that is asked for topics."""

    def __init__(self, image: ClusterImage, error: ErrorCode | None) -> None:
        super().__init__(image)
        self.asked: list[CreatableTopic] = []
        self._error = error

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        self.asked += request.topics
        await asyncio.sleep(0)
        if self._error is None:
            raise LinkDown("nobody")
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=OFFSETS_TOPIC, error_code=self._error)])


def surroundings(
    image: ClusterImage, settings: Mapping[str, str] | None = None, error: ErrorCode | None = ErrorCode.NONE
) -> tuple[Broker, list[CreatableTopic]]:
    """A broker, and the topics that it asks for."""
    controller = Creating(image, error)
    return idle_broker(controller, settings), controller.asked


async def replicas(brokers: int, settings: Mapping[str, str] | None = None) -> int:
    broker, asked = surroundings(cluster(brokers), settings)
    await broker.groups.create_topic()
    (topic,) = asked
    return topic.replication_factor


async def test_a_node_that_is_alone_has_one_replica() -> None:
    assert await replicas(1) == 1


async def test_several_brokers_hold_what_the_settings_say() -> None:
    assert await replicas(2) == 2
    assert await replicas(5) == 3
    assert await replicas(5, {"offsets.topic.replication.factor": "5"}) == 5


async def test_what_is_asked_for_is_not_made_smaller() -> None:
    assert await replicas(1, {"offsets.topic.replication.factor": "3"}) == 3


async def test_a_cluster_that_is_just_starting_waits_for_the_brokers_that_are_voters() -> None:
    voters = "1@a:1,2@b:1,3@c:1"
    assert await replicas(1, {"controller.quorum.voters": voters}) == 3
    assert await replicas(1, {"controller.quorum.bootstrap.servers": "a:1,b:1"}) == 2
    assert await replicas(1, {"controller.quorum.voters": voters, "process.roles": "broker"}) == 1


async def test_no_more_replicas_are_needed_than_there_are() -> None:
    broker, asked = surroundings(cluster(1))
    await broker.transactions.create_topic()
    (topic,) = asked
    assert {config.name: config.value for config in topic.configs}["min.insync.replicas"] == "1"


async def test_everybody_who_asks_meanwhile_waits_for_one_creation() -> None:
    broker, asked = surroundings(cluster(1))
    host = broker.groups
    await asyncio.gather(host.create_topic(), host.create_topic())
    assert len(asked) == 1
    await host.create_topic()
    assert len(asked) == 2, "it did not appear"


async def test_what_exists_is_not_made() -> None:
    broker, asked = surroundings(with_topics(OFFSETS_TOPIC))
    await broker.groups.create_topic()
    assert asked == []


@pytest.mark.parametrize("error", [None, ErrorCode.INVALID_REPLICATION_FACTOR])
async def test_a_topic_that_cannot_be_made_now_is_asked_for_again(error: ErrorCode | None) -> None:
    broker, asked = surroundings(cluster(1), error=error)
    host = broker.groups
    for _ in range(2):
        await host.create_topic()
    assert len(asked) == 2
