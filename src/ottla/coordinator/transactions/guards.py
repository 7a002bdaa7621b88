"""Appends to transactions that wait for a coordinator's word, and the ends that may overtake them.

Owns: who has asked about which partition. Never knows: what was asked. Invariant: a guard is good until it is given
back, the end of a transaction of the producer is written in the partition, or the partition's leadership changes.
"""

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.replicas.partitions import Partition


class Guard:
    """One append that waits."""

    __slots__ = ("epoch", "name", "partition", "producer_id")

    def __init__(self, partition: Partition, producer_id: int) -> None:
        self.partition = partition
        self.name = partition.name
        self.epoch = partition.leader_epoch
        self.producer_id = producer_id


# Between consent and append the transaction may end: design/0009.
class Guards:
    """Who has asked a coordinator about a partition and not yet appended to it.

    The end of the transaction may reach the partition in between; what is appended after it would stay open for ever.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[TopicPartition, int], set[Guard]] = {}

    def take(self, partition: Partition, producer_id: int) -> Guard:
        guard = Guard(partition, producer_id)
        self._held.setdefault((guard.name, producer_id), set()).add(guard)
        return guard

    def give_back(self, guard: Guard) -> ErrorCode:
        """Answers whether it was still good; under another leader the producer asks again."""
        key = guard.name, guard.producer_id
        held = self._held.get(key)
        if held is None or guard not in held:
            return ErrorCode.INVALID_TXN_STATE
        held.discard(guard)
        if not held:
            del self._held[key]
        good = guard.partition.leads and guard.partition.leader_epoch == guard.epoch
        return ErrorCode.NONE if good else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def ended(self, name: TopicPartition, producer_id: int) -> None:
        """The end of a transaction is written in the partition."""
        if self._held:
            self._held.pop((name, producer_id), None)
