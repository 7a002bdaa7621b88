"""A partition without a broker around it, for tests of what is done with its log."""

from typing import Any, cast

from ottla.base.vocabulary import TopicPartition
from ottla.log.partition_log import PartitionLog
from ottla.replicas.partitions import Helpers, Partition
from ottla.replicas.waits import WaitingRoom


class NoIsrChanges:
    """In-sync sets never change."""

    lag_seconds = 30.0

    def may_join(self, broker_id: int) -> bool:
        return False

    def follower_fetched(self, partition: Partition, follower: int) -> None:
        pass


def lone_partition(
    name: TopicPartition,
    topic_id: bytes,
    leader_epoch: int,
    log: PartitionLog | None,
    waiting: WaitingRoom | None = None,
) -> Partition:
    """Nobody waits, unless in a waiting room that is handed in."""
    room = waiting or WaitingRoom(cast(Any, None))
    return Partition(name, topic_id, leader_epoch, log, Helpers(room, NoIsrChanges(), lambda: 0.0))
