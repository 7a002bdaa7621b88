"""Offsets that belong to open transactions: written down, and not valid before the transaction is committed.

Owns: what each producer's open transaction has committed, and who may commit that way. Never knows: how transactions
end (it is told). Invariants: of a transaction either all offsets become valid or none; a later commit outside of it
outlives its own; an offset is unstable exactly while some open transaction has one for the same partition.
"""

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.groups.facts import Fact, OffsetFact, StoredOffset
from ottla.groups.group import Group
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

Place: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""


class PendingOffsets:
    """The offsets of open transactions, by producer."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Place, StoredOffset | None]] = {}
        self._open: dict[Place, int] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def holds(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether it may change by the end of a transaction."""
        return (group_id, topic, partition) in self._open

    def note(self, producer_id: int, fact: OffsetFact) -> None:
        """A transaction commits an offset; without one it is outlived already."""
        place = fact.group_id, fact.topic, fact.partition
        places = self._by_producer.setdefault(producer_id, {})
        if place not in places:
            self._open[place] = self._open.get(place, 0) + 1
        places[place] = fact.committed

    def outlive(self, group_id: str, topic: str, partition: int) -> None:
        """Somebody committed, or deleted, outside of transactions."""
        place = group_id, topic, partition
        if place in self._open:
            for places in self._by_producer.values():
                if place in places:
                    places[place] = None

    def end(self, producer_id: int, commit: bool) -> list[OffsetFact]:
        """The transaction of a producer is over; answers what is valid by that."""
        places = self._by_producer.pop(producer_id, {})
        for place in places:
            if self._open[place] == 1:
                del self._open[place]
            else:
                self._open[place] -= 1
        if not commit:
            return []
        return [OffsetFact(*place, committed) for place, committed in places.items() if committed is not None]

    def of_group(self, group_id: str) -> list[Fact]:
        """What makes the offsets of a group go that it may yet get."""
        return [OffsetFact(*place, None) for place in self._open if place[0] == group_id]

    def of_topics(self, names: Collection[str]) -> list[Fact]:
        """What makes offsets go that groups may yet get in topics that are gone."""
        return [OffsetFact(*place, None) for place in self._open if place[1] in names]


class PendingCommit(NamedTuple):
    """A commit in a transaction: either its error, or it in the form of any other commit."""

    error: ErrorCode
    commit: OffsetCommitRequest


def pending_commit(group: Group | None, request: TxnOffsetCommitRequest) -> PendingCommit:
    """Whether a member of a group, or somebody without one, may commit in a transaction."""
    commit = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
    return PendingCommit(_error(group, request), commit)


def _error(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION if request.generation_id >= 0 else ErrorCode.NONE
    if request.generation_id < 0 and not request.member_id and request.group_instance_id is None:
        # Older producers do not say for which member they commit.
        return ErrorCode.NONE
    error = group.commit_error(request.member_id, request.group_instance_id, request.generation_id)
    if error == ErrorCode.REBALANCE_IN_PROGRESS:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error
