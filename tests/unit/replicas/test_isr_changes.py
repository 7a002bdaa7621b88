"""What leaders ask the controller for, and what becomes of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from kit.worlds.replicas import TOPIC_ID, Replicas
from ottla.base.errors import ErrorCode
from ottla.wire.links import LinkDown
from ottla.wire.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from ottla.wire.stored.metadata import BrokerRegistrationChangeRecord


@pytest.fixture
def three() -> Iterator[Replicas]:
    replicas = Replicas()
    replicas.create([1, 2, 3])
    yield replicas
    replicas.close()


def answering(three: Replicas, *answers: ErrorCode | Exception) -> list[Any]:
    """Let the controller answer these in turn, then as it does; answers the list of what it was asked."""
    asked: list[Any] = []
    given = list(answers)
    grant = three.controller.alter_partition

    async def answer(request: Any, version: int) -> Any:
        asked.append(request)
        if not given:
            return await grant(request, version)
        first = given.pop(0)
        if isinstance(first, Exception):
            raise first
        return AlterPartitionResponse(topics=[ResponseTopicData(TOPIC_ID, [ResponsePartitionData(0, first)])])

    three.controller.alter_partition = answer  # type: ignore[method-assign]
    return asked


def shrink(three: Replicas) -> None:
    three.kill(3)
    three.complete(three.produce(1, b"one", acks=1))


def test_a_controller_that_cannot_be_reached_is_asked_again(three: Replicas) -> None:
    asked = answering(three, LinkDown("gone"), LinkDown("gone"))
    shrink(three)
    three.until(lambda: three.state().in_sync == (1, 2))
    assert len(asked) == 3


def test_a_change_that_is_refused_is_forgotten_and_asked_for_with_the_next_look(three: Replicas) -> None:
    asked = answering(three, ErrorCode.INELIGIBLE_REPLICA)
    shrink(three)
    three.until(lambda: len(asked) == 1)
    three.advance(0.01)
    leading = three.partition(1).leading
    assert leading is not None
    assert leading.pending is None
    three.until(lambda: three.state().in_sync == (1, 2))


def test_a_change_that_came_too_late_waits_for_the_image(three: Replicas) -> None:
    asked = answering(three, ErrorCode.INVALID_UPDATE_VERSION)
    shrink(three)
    three.until(lambda: len(asked) == 1)
    three.advance(20)
    assert len(asked) == 1
    three.change(eligible_leader_replicas=[])
    three.until(lambda: three.state().in_sync == (1, 2))


def test_a_fenced_follower_is_not_proposed(three: Replicas) -> None:
    three.publish(BrokerRegistrationChangeRecord(3, 3, fenced=1))
    three.change(isr=[1, 2])
    three.advance(2)
    assert three.controller.asked == []
    three.publish(BrokerRegistrationChangeRecord(3, 3, fenced=-1))
    three.until(lambda: three.state().in_sync == (1, 2, 3), 2)


def test_an_idle_follower_that_was_put_out_joins_again(three: Replicas) -> None:
    three.complete(three.produce(1, b"one"))
    three.advance(3)
    three.change(isr=[1, 2])
    three.until(lambda: three.state().in_sync == (1, 2, 3), 2)


def test_many_changes_are_asked_for_together() -> None:
    three = Replicas()
    three.create([1, 2, 3], partitions=20)
    asked = answering(three)
    for number in range(20):
        three.change(number, isr=[1, 2])
    three.until(lambda: all(three.state(number).in_sync == (1, 2, 3) for number in range(20)), 3)
    assert len(asked) < 10
    three.close()


def test_the_proposal_names_the_lives_of_the_brokers(three: Replicas) -> None:
    asked = answering(three)
    three.change(isr=[1, 2])
    three.until(lambda: bool(asked), 2)
    (partition,) = asked[0].topics[0].partitions
    assert [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs] == [(1, 1), (2, 2), (3, 3)]


def test_a_change_that_waited_while_the_follower_began_another_life_is_not_asked_for(three: Replicas) -> None:
    """It was true of a log that the new life need not have any more."""
    three.change(isr=[1, 2])
    three.network.cut("node-3", "node-1")
    three.advance(1)
    partition = three.partition(1)
    leading = partition.leading
    assert leading is not None
    leader = three.broker(1)

    def live_on() -> None:
        leading.fetched(3, 0, 0, 3, 0, leader.clock.monotonic())
        leader.replicas.isr_changes.follower_fetched(partition, 3)
        assert leading.pending is not None
        leading.fetched(3, 0, 0, 4, 0, leader.clock.monotonic())

    leader.loop.call_soon(live_on)
    three.advance(1)
    assert leading.pending is None
    assert three.controller.asked == []
    assert leading.maximal == {1, 2}, "nobody waits for one that was never proposed"


def test_a_change_that_is_asked_for_again_names_the_lives_that_were_seen_first(three: Replicas) -> None:
    asked = answering(three, LinkDown("gone"))
    three.change(isr=[1, 2])
    three.until(lambda: len(asked) == 1, 2)
    three.kill(3)
    leading = three.partition(1).leading
    assert leading is not None
    leading.fetched(3, 0, 0, 4, 0, three.broker(1).clock.monotonic())
    three.until(lambda: len(asked) == 2, 2)
    (partition,) = asked[1].topics[0].partitions
    assert [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs] == [(1, 1), (2, 2), (3, 3)]
