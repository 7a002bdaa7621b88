"""AlterPartition: who is believed about what, and what an in-sync set brings about."""

import pytest

from kit.machines.clusters import applied, directory_id
from kit.machines.partition_states import TOPIC, TOPIC_ID, place, with_partition
from ottla.base.errors import ErrorCode
from ottla.metadata import in_sync
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)


def proposal(
    *members: int, leader: int = 1, epochs: dict[int, int] | None = None, **fields: int
) -> AlterPartitionRequest:
    data = PartitionData(
        partition_index=0,
        leader_epoch=5,
        new_isr_with_epochs=[BrokerState(each, (epochs or {}).get(each, each)) for each in members],
        partition_epoch=10,
    )
    for name, value in fields.items():
        setattr(data, name, value)
    return AlterPartitionRequest(leader, leader, [TopicData(TOPIC_ID, [data])])


def alter(request: AlterPartitionRequest, image: ClusterImage) -> tuple[PartitionImage, ResponsePartitionData]:
    facts, reply = in_sync.alter(request, place(image))
    (answer,) = reply.topics[0].partitions
    return applied(facts, image).topics[TOPIC].partitions[0], answer


def test_the_leader_says_who_is_in_sync() -> None:
    partition, answer = alter(proposal(1, 2), with_partition())

    assert (partition.in_sync, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 5, 11)
    assert (answer.error_code, answer.leader_id, list(answer.isr)) == (ErrorCode.NONE, 1, [1, 2])
    assert (answer.leader_epoch, answer.partition_epoch) == (5, 11)


def test_what_is_already_so_is_no_fact() -> None:
    image = with_partition()
    facts, reply = in_sync.alter(proposal(1, 2, 3), place(image))

    assert facts == []
    assert reply.topics[0].partitions[0].partition_epoch == 10


def test_before_version_three_members_come_without_epochs() -> None:
    request = proposal()
    request.topics[0].partitions[0].new_isr = [1, 3]

    assert alter(request, with_partition())[0].in_sync == (1, 3)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (proposal(1, 2, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, 2, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposal(1, 2, partition_epoch=9), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(1, 2, partition_epoch=11), ErrorCode.NOT_CONTROLLER),
        (proposal(1, 2, leader=2), ErrorCode.INVALID_REQUEST),
        (proposal(2, 3), ErrorCode.INVALID_REQUEST),
        (proposal(1, 1), ErrorCode.INVALID_REQUEST),
        (proposal(1, 4), ErrorCode.INVALID_REQUEST),
        (proposal(1, leader_recovery_state=1), ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, epochs={2: 77}), ErrorCode.INELIGIBLE_REPLICA),
        (proposal(1, 2, epochs={2: -1}), ErrorCode.NONE),
        (proposal(1, 2, partition_index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_who_is_not_believed(request_: AlterPartitionRequest, error: ErrorCode) -> None:
    partition, answer = alter(request_, with_partition(brokers=4))

    assert answer.error_code == error
    assert (partition.partition_epoch == 10) == (error != ErrorCode.NONE)


def test_a_broker_that_is_fenced_does_not_get_in_sync() -> None:
    image = with_partition(fenced=[2], isr=(1,))

    assert alter(proposal(1, 2), image)[1].error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_could_not_lead_does_not_get_in_sync() -> None:
    """Its broker has a new disk and has not said yet that the replica lies there."""
    image = with_partition(isr=(1, 2), directories=[directory_id(1), directory_id(2), b"o" * 16])

    assert alter(proposal(1, 2, 3), image)[1].error_code == ErrorCode.INELIGIBLE_REPLICA
    assert alter(proposal(1, 2), image)[1].error_code == ErrorCode.NONE


def test_a_leader_of_an_older_registration_is_refused_whole() -> None:
    request = proposal(1, 2)
    request.broker_epoch = 99

    assert in_sync.alter(request, place(with_partition())).reply.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_an_unknown_topic_is_told_by_its_id() -> None:
    request = proposal(1, 2)
    request.topics[0].topic_id = b"?" * 16

    assert alter(request, with_partition())[1].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_that_is_named_twice_changes_once() -> None:
    request = proposal(1, 2)
    request.topics = [*request.topics, *proposal(1, 3).topics]
    image = with_partition()

    facts, reply = in_sync.alter(request, place(image))

    assert len(facts) == 1
    assert [topic.partitions[0].error_code for topic in reply.topics] == [0, ErrorCode.INVALID_UPDATE_VERSION]


def test_a_leader_that_recovered_says_so_before_others_join() -> None:
    image = with_partition(isr=(1,), leader_recovery_state=1)

    recovered, _ = alter(proposal(1, 2), image)
    _, refused = alter(proposal(1, 2, leader_recovery_state=1), image)

    assert (recovered.recovering, recovered.in_sync) == (False, (1, 2))
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_a_full_set_ends_eligibility() -> None:
    image = with_partition(isr=(1,), eligible_leader_replicas=[2], configs={"min.insync.replicas": "2"})

    assert alter(proposal(1, 3), image)[0].eligible == ()


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    image = with_partition(
        brokers=4, replicas=(1, 4, 2, 3), isr=(1, 2, 3), adding_replicas=[4], removing_replicas=[2, 3]
    )

    partition, answer = alter(proposal(1, 2, 3, 4), image)

    assert (partition.replicas, partition.in_sync) == ((1, 4), (1, 4))
    assert (partition.adding, partition.removing, len(partition.directories)) == ((), (), 2)
    assert (partition.leader_epoch, answer.leader_epoch, answer.error_code) == (6, 6, ErrorCode.NONE)


def test_a_leader_that_the_end_of_a_reassignment_removes_is_told_to_look() -> None:
    image = with_partition(brokers=4, replicas=(4, 1), isr=(1,), leader=1, adding_replicas=[4], removing_replicas=[1])

    partition, answer = alter(proposal(1, 4), image)

    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (partition.leader, partition.in_sync, partition.replicas) == (4, (4,), (4,))
