"""The end of a transaction in one partition.

Owns: the one way a marker gets into a log, whoever sends it: readers that wait are told that the last stable offset may
have moved, and groups that offsets of theirs are decided.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.broker.group_host import OFFSETS_TOPIC
from ottla.broker.partitions import Partition
from ottla.log.files import StorageFailure
from ottla.log.producers import EndMarker

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def write_marker(broker: "Broker", name: TopicPartition, marker: EndMarker) -> Partition | ErrorCode:
    """Append it; answers the partition, whose log may want to be flushed, or why that was not possible."""
    partition = broker.partitions.find(name.topic, name.partition)
    if isinstance(partition, ErrorCode):
        # A topic whose logs are being made is not reachable yet.
        known = broker.image.partition(name.topic, name.partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    groups = broker.groups.shard_at(name.partition) if name.topic == OFFSETS_TOPIC else None
    if isinstance(groups, ErrorCode):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    log = partition.log
    if log is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        outcome = log.append_control(marker, partition.leader_epoch, broker.clock.now_ms())
    except StorageFailure as failure:
        broker.storage_failed(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR
    if outcome.error != ErrorCode.NONE:
        return outcome.error
    log.high_watermark = log.end_offset
    if groups is not None:
        groups.end_transaction(marker.producer_id, marker.commit)
    broker.waiting.nudge(partition)
    return partition
