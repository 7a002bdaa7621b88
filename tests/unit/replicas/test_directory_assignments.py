"""What a broker tells the controller of where its replicas lie."""

from collections.abc import Iterator
from typing import Any

import pytest

from kit.machines.clusters import assigned
from kit.worlds.replicas import TOPIC_ID, Replicas
from ottla.base.errors import ErrorCode
from ottla.replicas import directory_assignments as assignments
from ottla.wire.links import LinkDown
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse


@pytest.fixture
def one() -> Iterator[Replicas]:
    replicas = Replicas(1)
    yield replicas
    replicas.close()


def identity(replicas: Replicas) -> bytes:
    return replicas.broker(1).store.directories[0].identity


def hearing(replicas: Replicas, *problems: ErrorCode | Exception) -> list[Any]:
    """Let the controller answer these first; answers the list of what it was told."""
    told: list[Any] = []
    given = list(problems)

    async def answer(request: Any) -> Any:
        told.append([(each.partition_index) for topic in request.directories[0].topics for each in topic.partitions])
        first = given.pop(0) if given else ErrorCode.NONE
        if isinstance(first, Exception):
            raise first
        if first == ErrorCode.STALE_BROKER_EPOCH:
            return AssignReplicasToDirsResponse(error_code=first)
        found = assigned(request)
        found.directories[0].topics[0].partitions[0].error_code = first
        return found

    replicas.controller.assign_replicas_to_dirs = answer  # type: ignore[method-assign]
    return told


def test_the_controller_is_told_where_a_new_replica_lies(one: Replicas) -> None:
    one.create([1])
    one.advance(1)
    assert one.controller.told == [(1, identity(one))]


def test_what_the_image_already_says_is_not_told(one: Replicas) -> None:
    one.create([1])
    one.advance(1)
    one.change(directories=[identity(one)])
    one.advance(1)
    assert len(one.controller.told) == 1
    one.change(directories=[b"x" * 16])
    one.advance(1)
    assert len(one.controller.told) == 2, "somebody told it otherwise"


def test_a_controller_that_does_not_answer_is_told_again_and_again(one: Replicas) -> None:
    told = hearing(one, LinkDown("gone"), ErrorCode.STALE_BROKER_EPOCH, LinkDown("gone"))
    one.create([1])
    one.advance(0.35)
    assert 2 <= len(told) <= 3, "with pauses that grow"
    one.advance(5)
    assert told == [[0]] * 4


def test_many_are_told_in_requests_of_bounded_size_and_one_that_fails_does_not_hold_the_others(
    one: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignments, "AT_ONCE", 4)
    told = hearing(one, ErrorCode.UNKNOWN_SERVER_ERROR)
    one.create([1], partitions=10)
    one.advance(2)
    assert told == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0]]


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_replica_that_the_controller_does_not_know_any_more_is_forgotten(one: Replicas, error: ErrorCode) -> None:
    told = hearing(one, error)
    one.create([1])
    one.advance(20)
    assert told == [[0]]


def test_a_directory_that_fails_before_it_was_told_of_is_told_of_then(one: Replicas) -> None:
    told = hearing(one, *[LinkDown("gone")] * 3)
    one.create([1])
    one.advance(0.05)
    broker = one.broker(1)
    broker.loop.call_soon(broker.replicas.log_lost, one.partition(1).name, identity(one))
    one.advance(10)
    assert told == [[0]] * 4
    assert broker.image.topics_by_id[TOPIC_ID].partitions[0].directories == ()
