"""The end of a transaction in one partition, here or elsewhere.

Owns: the one way a marker gets into a log, whoever sends it: readers that wait are told that the last stable offset may
have moved, and groups that offsets of theirs are decided.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.groups.group_coordinator import OFFSETS_TOPIC
from ottla.log.files import StorageFailure
from ottla.log.producers import EndMarker
from ottla.replicas.partitions import Partition

if TYPE_CHECKING:
    from ottla.coordinator.transactions.transaction_coordinator import TransactionCoordinator

OnMarkersWritten = Callable[[Mapping[TopicPartition, ErrorCode]], None]


def write_marker(
    coordinator: "TransactionCoordinator", name: TopicPartition, marker: EndMarker
) -> Partition | ErrorCode:
    """Append it here; answers the partition, whose log may want to be replicated and flushed, or why that was not
    possible."""
    context = coordinator.context
    partition = coordinator.partitions.find(name.topic, name.partition)
    if isinstance(partition, ErrorCode):
        # A topic whose logs are being made is not reachable yet.
        known = context.image.partition(name.topic, name.partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    groups = coordinator.groups.shard_at(name.partition) if name.topic == OFFSETS_TOPIC else None
    if isinstance(groups, ErrorCode):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    log = partition.log
    if log is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not partition.enough_in_sync:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    try:
        outcome = log.append_control(marker, partition.leader_epoch, context.clock.now_ms())
    except StorageFailure as failure:
        context.storage_failed(failure)
        return ErrorCode.KAFKA_STORAGE_ERROR
    if outcome.error != ErrorCode.NONE:
        return outcome.error
    coordinator.guards.ended(name, marker.producer_id)
    if groups is not None:
        groups.end_transaction(marker.producer_id, marker.commit)
    partition.appended()
    return partition


class Markers:
    """The ways to partitions, for those who end transactions."""

    def __init__(self, coordinator: "TransactionCoordinator") -> None:
        self._coordinator = coordinator
        self.write = partial(write_marker, coordinator)
        self.seconds = coordinator.context.values.integer("request.timeout.ms") / 1000

    def leader_of(self, name: TopicPartition) -> int | None:
        found = self._coordinator.context.image.partition(*name)
        return None if found is None else found.leader

    def send(self, broker_id: int, marker: EndMarker, names: Sequence[TopicPartition], done: OnMarkersWritten) -> None:
        self._coordinator.remote_markers.send(broker_id, marker, names, done)

    def when_safe(self, places: Sequence[tuple[Partition, int]], done: Callable[[ErrorCode], None]) -> None:
        self._coordinator.commits.when_safe_to_go_on(places, done, self.seconds)
