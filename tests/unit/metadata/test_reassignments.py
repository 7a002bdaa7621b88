"""Reassignments: beginning, changing, cancelling and listing them."""

from typing import Any

import pytest

from kit.machines.partition_states import TOPIC, after, place, with_partition
from ottla.base.errors import ErrorCode
from ottla.metadata import reassignments
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


def reassign(
    image: ClusterImage, replicas: list[int] | None, *, name: str = TOPIC, number: int = 0, other_factor: bool = True
) -> tuple[PartitionImage, ReassignablePartitionResponse]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=other_factor,
        topics=[ReassignableTopic(name, [ReassignablePartition(number, replicas)])],
    )
    facts, reply = reassignments.alter(request, place(image))
    assert reply.allow_replication_factor_change == other_factor
    return after(facts, image), reply.responses[0].partitions[0]


def moving() -> ClusterImage:
    """From 1, 2, 3 to 4, 5, 1."""
    return with_partition(
        brokers=6, replicas=(4, 5, 1, 2, 3), isr=(1, 2, 3), leader=1, adding_replicas=[4, 5], removing_replicas=[2, 3]
    )


def test_a_reassignment_adds_the_new_replicas_and_keeps_the_old_ones_until_it_ends() -> None:
    partition, answer = reassign(with_partition(brokers=5), [4, 5, 1])

    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert (partition.leader, partition.in_sync, partition.leader_epoch) == (1, (1, 2, 3), 5)
    assert len(set(partition.directories)) == 5


def test_another_order_of_the_same_replicas_is_done_at_once() -> None:
    partition, _ = reassign(with_partition(), [3, 1, 2])

    assert (partition.replicas, partition.leader, partition.adding) == ((3, 1, 2), 1, ())


def test_replicas_that_only_go_are_gone_at_once_when_the_others_are_in_sync() -> None:
    partition, _ = reassign(with_partition(), [2, 3])

    assert (partition.replicas, partition.in_sync, partition.leader) == ((2, 3), (2, 3), 2)


def test_a_reassignment_can_be_changed_on_its_way() -> None:
    partition, _ = reassign(moving(), [6, 5, 1])

    assert (partition.adding, partition.removing) == ((5, 6), (2, 3, 4))
    assert partition.replicas == (6, 5, 1, 2, 3, 4)


def test_a_cancelled_reassignment_goes_back() -> None:
    partition, answer = reassign(moving(), None)

    assert answer.error_code == ErrorCode.NONE
    assert (partition.replicas, partition.in_sync, partition.leader) == ((1, 2, 3), (1, 2, 3), 1)
    assert (partition.adding, partition.removing, partition.leader_epoch) == ((), (), 6)


def test_going_back_to_replicas_that_lack_records_is_refused_unless_that_is_allowed() -> None:
    state: dict[str, Any] = {
        "brokers": 4,
        "replicas": (4, 1),
        "isr": (4,),
        "leader": 4,
        "adding_replicas": [4],
        "removing_replicas": [1],
    }
    forbidden = with_partition(**state)
    allowed = with_partition(configs={"unclean.leader.election.enable": "true"}, **state)

    assert reassign(forbidden, None)[1].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    partition, _ = reassign(allowed, None)
    assert (partition.replicas, partition.leader, partition.in_sync, partition.recovering) == ((1,), 1, (1,), True)


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 77], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_is_refused(replicas: list[int] | None, error: ErrorCode) -> None:
    assert reassign(with_partition(), replicas)[1].error_code == error


def test_a_fenced_broker_may_be_a_target() -> None:
    assert reassign(with_partition(brokers=4, fenced=[4]), [1, 2, 4])[1].error_code == ErrorCode.NONE


def test_the_number_of_replicas_may_be_held_fast() -> None:
    _, refused = reassign(with_partition(), [1, 2], other_factor=False)
    _, taken = reassign(moving(), [1, 2, 6], other_factor=False)

    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.error_message == "The replication factor is changed from 3 to 2"
    assert taken.error_code == ErrorCode.NONE


def test_what_is_not_there_is_named() -> None:
    _, topic = reassign(with_partition(), [1], name="nothing")
    _, number = reassign(with_partition(), [1], number=9)

    assert (topic.error_code, topic.error_message) == (3, "Unable to find a topic named nothing.")
    assert (number.error_code, number.error_message) == (3, "Unable to find partition orders:9.")


def test_a_partition_that_is_named_twice_is_moved_once() -> None:
    wanted = [ReassignablePartition(0, [2, 1, 3]), ReassignablePartition(0, [3, 2, 1])]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(TOPIC, wanted)])

    facts, reply = reassignments.alter(request, place(with_partition()))

    assert len(facts) == 1
    assert [each.error_code for each in reply.responses[0].partitions] == [0, ErrorCode.INVALID_REQUEST]


def test_what_is_under_way_can_be_listed() -> None:
    def listed(*topics: ListPartitionReassignmentsTopics, image: ClusterImage) -> list[tuple[str, int]]:
        request = ListPartitionReassignmentsRequest(topics=topics or None)
        reply = reassignments.in_progress(request, image)
        return [(topic.name, each.partition_index) for topic in reply.topics for each in topic.partitions]

    assert listed(image=moving()) == [(TOPIC, 0)]
    assert listed(ListPartitionReassignmentsTopics(TOPIC, [0, 5]), image=moving()) == [(TOPIC, 0)]
    assert listed(ListPartitionReassignmentsTopics("nothing", [0]), image=moving()) == []
    assert listed(image=with_partition()) == []
    ongoing = (
        reassignments.in_progress(ListPartitionReassignmentsRequest(topics=None), moving()).topics[0].partitions[0]
    )
    assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == ([4, 5, 1, 2, 3], [4, 5], [2, 3])
