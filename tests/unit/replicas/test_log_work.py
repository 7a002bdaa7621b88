"""Logs that are made and removed as metadata wants them, on disks that do not do what they are told."""

import errno
from collections.abc import Iterator

import pytest

from kit.worlds.replicas import TOPIC, TOPIC_ID, Replicas
from ottla.base.errors import ErrorCode
from ottla.wire.stored import metadata as stored

AGAIN = bytes(range(16, 32))
"""The id of the topic when it is made again."""


@pytest.fixture
def one() -> Iterator[Replicas]:
    replicas = Replicas(1, settings={"log.dirs": "/one,/one-more"})
    yield replicas
    replicas.close()


def create_again(one: Replicas) -> None:
    one.publish(stored.RemoveTopicRecord(TOPIC_ID))
    one.publish(
        stored.TopicRecord(TOPIC, AGAIN),
        stored.PartitionRecord(0, AGAIN, [1], [1], leader=1, leader_epoch=0, partition_epoch=0),
    )
    one.advance(0.1)


def test_a_topic_made_again_never_gets_the_log_that_could_not_be_removed(one: Replicas) -> None:
    one.create([1])
    assert one.complete(one.produce(1, b"old")).error_code == ErrorCode.NONE
    disk = one.disk(1)
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "rename" else 0
    create_again(one)
    partition = one.partition(1)
    assert partition.topic_id == AGAIN
    assert partition.log is None, "what is there belongs to another topic"

    disk.fault = None
    one.broker(1).loop.call_soon(one.broker(1).replicas.make_missing_logs)
    one.advance(0.1)
    log = one.partition(1).log
    assert log is not None
    assert (log.topic_id, log.end_offset) == (AGAIN, 0)


def test_a_directory_that_fails_while_a_log_is_made_goes_offline_with_all_its_logs(one: Replicas) -> None:
    one.create([1], partitions=4)
    broker = one.broker(1)
    bad, good = broker.store.directories
    there = [partition for partition in broker.partitions if broker.store.directory_of(partition.name) is bad]
    assert there
    one.disk(1).fault = lambda operation, path: errno.EIO if path.startswith(f"{bad.path}/") else 0
    create_more(one)
    assert bad.failure is not None
    assert good.failure is None, "a name that begins alike is another directory"
    assert all(partition.log is None for partition in there)
    assert len(broker.store.logs) == 4, "what could be made there was made elsewhere"
    assert (1, bad.identity) in one.controller.told


def create_more(one: Replicas) -> None:
    facts = [
        stored.PartitionRecord(number, TOPIC_ID, [1], [1], leader=1, leader_epoch=0, partition_epoch=0)
        for number in (4, 5)
    ]
    one.publish(*facts)
    one.advance(0.1)
