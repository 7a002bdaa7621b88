"""AssignReplicasToDirs: a broker says where its replicas lie."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.metadata import directories
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from support.clusters import directory_id
from support.partition_states import TOPIC_ID, after, place, with_partition


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
