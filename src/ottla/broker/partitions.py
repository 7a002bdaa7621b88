"""The partitions this broker holds, found by topic name or id.

Owns: one `Partition` per partition led here and the two look-ups. Never knows: requests, sockets. Invariants: a topic
is under its name exactly when it is under its id; the partitions of a topic are in the order of their numbers.
"""

from collections.abc import Iterator

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import INTERNAL_TOPICS


class Partition:
    """One partition led here. With a single replica its high watermark is the end of its log."""

    __slots__ = ("index", "internal", "leader_epoch", "log", "name", "topic_id")

    def __init__(self, name: TopicPartition, topic_id: bytes, leader_epoch: int, log: PartitionLog | None) -> None:
        self.name = name
        self.index = name.partition
        self.internal = name.topic in INTERNAL_TOPICS
        """Coordinators write it; what clients produce to it is refused."""
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.log = log
        """None while the directory that holds it is offline."""

    def __str__(self) -> str:
        return str(self.name)

    def fence(self, epoch: int) -> ErrorCode:
        """Whether a client that knows `epoch` (-1: none) may talk to this leader."""
        if epoch == -1 or epoch == self.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


class PartitionTable:
    """All partitions of this broker."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[Partition]] = {}
        self.by_id: dict[bytes, list[Partition]] = {}

    def add(self, partition: Partition) -> None:
        """Partitions of a topic are added in the order of their numbers."""
        partitions = self.by_id.get(partition.topic_id)
        if partitions is None:
            partitions = self.by_name[partition.name.topic] = self.by_id[partition.topic_id] = []
        assert partition.index == len(partitions), partition.name
        partitions.append(partition)

    def remove_topic(self, topic_id: bytes) -> list[Partition]:
        partitions = self.by_id.pop(topic_id, [])
        if partitions and self.by_name.get(partitions[0].name.topic) is partitions:
            del self.by_name[partitions[0].name.topic]
        return partitions

    def find(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """By name or id; the error says which of the two was unknown."""
        if type(topic) is str:
            partitions = self.by_name.get(topic)
            if partitions is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            partitions = self.by_id.get(topic)  # type: ignore[arg-type]
            if partitions is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        if 0 <= index < len(partitions):
            return partitions[index]
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def get(self, name: TopicPartition) -> Partition | None:
        partitions = self.by_name.get(name.topic, ())
        return partitions[name.partition] if name.partition < len(partitions) else None

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_id.values():
            yield from partitions

    def __len__(self) -> int:
        return sum(map(len, self.by_id.values()))
