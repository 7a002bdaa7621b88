"""AssignReplicasToDirs: a broker says where its replicas lie."""

import pytest

from kit.machines.clusters import directory_id
from kit.machines.partition_states import TOPIC_ID, after, place, with_partition
from ottla.base.errors import ErrorCode
from ottla.metadata import directories
from ottla.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)


def assign(
    image: ClusterImage, directory: bytes, *, broker: int = 1, topic: bytes = TOPIC_ID, number: int = 0
) -> tuple[PartitionImage, int]:
    wanted = DirectoryData(directory, [TopicData(topic, [PartitionData(number)])])
    facts, reply = directories.assign(AssignReplicasToDirsRequest(broker, broker, [wanted]), place(image))
    return after(facts, image), reply.directories[0].topics[0].partitions[0].error_code


def test_a_replica_lies_where_its_broker_says() -> None:
    image = with_partition(directories=[bytes(16)] * 3)

    partition, error = assign(image, directory_id(2), broker=2)

    assert (error, partition.directories) == (ErrorCode.NONE, (bytes(16), directory_id(2), bytes(16)))
    assert (partition.leader, partition.partition_epoch) == (1, 11)


def test_a_replica_in_a_directory_that_failed_leaves_the_set() -> None:
    partition, error = assign(with_partition(), b"x" * 16)

    assert (error, partition.leader, partition.in_sync) == (ErrorCode.NONE, 2, (2, 3))
    assert partition.directories[0] == b"x" * 16


@pytest.mark.parametrize(
    ("broker", "topic", "number", "error"),
    [
        (1, b"?" * 16, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        (1, TOPIC_ID, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (4, TOPIC_ID, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_cannot_be_is_refused(broker: int, topic: bytes, number: int, error: ErrorCode) -> None:
    image = with_partition(brokers=4)

    assert assign(image, directory_id(broker), broker=broker, topic=topic, number=number)[1] == error


def test_a_registration_that_is_gone_says_nothing() -> None:
    request = AssignReplicasToDirsRequest(1, 99, [])

    assert directories.assign(request, place(with_partition())).reply.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_new_disk_in_the_place_of_another_is_where_the_replica_lies_from_then_on() -> None:
    image = with_partition(directories=[b"o" * 16, directory_id(2), directory_id(3)], isr=(2, 3), leader=2)

    partition, error = assign(image, directory_id(1))

    assert (error, partition.directories[0]) == (ErrorCode.NONE, directory_id(1))
    assert (partition.leader, partition.in_sync) == (2, (2, 3))


@pytest.mark.parametrize("eligible", [True, False])
def test_a_replica_that_was_made_anew_does_not_lead_by_what_the_one_before_it_was(eligible: bool) -> None:
    """The two others have less than the lost one had, and far more than an empty log."""
    state = {"isr": (), "last_known_elr": [1]} if eligible else {"isr": (1,)}
    image = with_partition(
        directories=[b"o" * 16, directory_id(2), directory_id(3)], leader=NO_LEADER, eligible=eligible, **state
    )

    partition, _ = assign(image, directory_id(1))

    assert (partition.leader, partition.in_sync, partition.last_known) == (NO_LEADER, (), ())


@pytest.mark.parametrize("eligible", [True, False])
def test_the_only_replica_leads_again_though_it_was_made_anew(eligible: bool) -> None:
    state = {"isr": (), "last_known_elr": [1]} if eligible else {"isr": (1,)}
    image = with_partition(replicas=(1,), directories=[b"o" * 16], leader=NO_LEADER, eligible=eligible, **state)

    partition, _ = assign(image, directory_id(1))

    assert (partition.leader, partition.in_sync) == (1, (1,))


def test_of_other_replicas_nothing_is_guessed() -> None:
    partition, _ = assign(with_partition(directories=[]), directory_id(2), broker=2)

    assert partition.directories == (bytes(16), directory_id(2), bytes(16))
