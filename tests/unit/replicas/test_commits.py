"""Waiting until records are committed, on three brokers and virtual time."""

from collections.abc import Iterator

import pytest

from kit.worlds.replicas import Replicas
from ottla.base.errors import ErrorCode


@pytest.fixture
def three() -> Iterator[Replicas]:
    replicas = Replicas()
    replicas.create([1, 2, 3], {"min.insync.replicas": "2"})
    yield replicas
    replicas.close()


def wait_for(three: Replicas, offset: int, seconds: float = 5.0) -> list[ErrorCode]:
    told: list[ErrorCode] = []
    three.broker(1).loop.call_soon(
        three.broker(1).replicas.commits.when_committed, [(three.partition(1), offset)], told.append, seconds
    )
    three.advance(0.001)
    return told


def test_what_is_committed_is_told_at_once(three: Replicas) -> None:
    three.complete(three.produce(1, b"one"))
    assert wait_for(three, 1) == [ErrorCode.NONE]


def test_what_is_not_yet_committed_is_told_when_it_is(three: Replicas) -> None:
    told = wait_for(three, 2)
    three.complete(three.produce(1, b"one"))
    assert told == []
    three.complete(three.produce(1, b"two"))
    assert told == [ErrorCode.NONE]


def test_the_deadline_is_told_once_and_nothing_stays_behind(three: Replicas) -> None:
    told = wait_for(three, 1, seconds=0.5)
    three.advance(1)
    assert told == [ErrorCode.REQUEST_TIMED_OUT]
    assert not three.partition(1).commits
    three.complete(three.produce(1, b"one"))
    assert told == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_lost_leadership_is_told(three: Replicas) -> None:
    told = wait_for(three, 1)
    three.change(leader=2)
    three.advance(0.1)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert wait_for(three, 1) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_too_few_in_sync_replicas_are_told(three: Replicas) -> None:
    told = wait_for(three, 1)
    three.change(isr=[1])
    three.advance(0.1)
    assert told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_the_same_leader_elected_again_still_commits(three: Replicas) -> None:
    told = wait_for(three, 1)
    three.change(leader=1)
    three.advance(0.1)
    assert three.partition(1).leader_epoch == 1
    three.complete(three.produce(1, b"one"))
    assert told == [ErrorCode.NONE]
