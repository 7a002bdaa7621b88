"""A group of the consumer protocol (KIP-848): its members, what each shall have and what each has.

Owns: the state of one group and what follows from it. Only `apply` changes what is stored; deadlines, which are not,
are set by the machine. Never knows: how a request moves it (`groups.modern_step` does), offsets, bytes, clocks.
Invariants: a partition has at most one owner: the member that has it or has yet to give it back; an instance id belongs
to one member; only members have targets.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.groups.decision import Wait
from ottla.groups.facts import StoredOffset
from ottla.groups.modern_facts import (
    Current,
    CurrentFact,
    EpochFact,
    MemberProgress,
    ModernFact,
    Owned,
    Partitions,
    PatternFact,
    Resolved,
    Subscription,
    SubscriptionFact,
    TargetEpochFact,
    TargetFact,
)

FIRST_EPOCH = 1
"""The epoch of a group that nobody has subscribed in."""
LEFT_FOR_NOW = -2
"""The epoch of a static member that will be back."""
NO_PARTITIONS: Partitions = {}
EPOCHS_FROM = 9
"""The version of OffsetCommit from which members of this protocol can commit."""


class GroupState(Enum):
    """The states of a group, by Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMember(NamedTuple):
    """One member."""

    member_id: str
    subscription: Subscription = Subscription()
    current: Current = Current()

    @property
    def is_classic(self) -> bool:
        return self.subscription.classic is not None

    def reconciled_to(self, epoch: int) -> bool:
        return self.current.progress is MemberProgress.STABLE and self.current.epoch == epoch

    def held(self) -> Partitions:
        """What it has and what it has yet to give back."""
        held: dict[bytes, frozenset[int]] = {}
        for owned in (self.current.assigned, self.current.revoking):
            for topic_id, partitions in owned.items():
                held[topic_id] = held.get(topic_id, frozenset()) | frozenset(partitions)
        return held


class ConsumerGroup:
    """One group."""

    __slots__ = (
        "deadlines",
        "digest",
        "epoch",
        "group_id",
        "members",
        "owners",
        "patterns",
        "seen_version",
        "static",
        "target_epoch",
        "target_ms",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.digest = 0
        self.target_epoch = FIRST_EPOCH
        self.target_ms = 0
        """When the targets were computed, by the wall clock; 0 for never."""
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}
        """Member ids of static members, by instance id."""
        self.targets: dict[str, Partitions] = {}
        self.patterns: dict[str, Resolved] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        self.deadlines: dict[tuple[str, Wait], int] = {}
        self.seen_version = -1
        """The version of the cluster that the group's topics were last compared with."""

    def copy(self) -> "ConsumerGroup":
        """A draft to apply further facts to."""
        draft = ConsumerGroup.__new__(ConsumerGroup)
        for name in ConsumerGroup.__slots__:
            kept = getattr(self, name)
            setattr(draft, name, kept.copy() if isinstance(kept, dict) else kept)
        return draft

    # --- facts ---

    def apply(self, fact: ModernFact) -> None:
        """What the log says; that the group is gone is its holder's business."""
        if isinstance(fact, CurrentFact):
            self._apply_current(fact)
        elif isinstance(fact, SubscriptionFact):
            self._apply_subscription(fact)
        elif isinstance(fact, TargetFact):
            if fact.partitions is None:
                self.targets.pop(fact.member_id, None)
            else:
                self.targets[fact.member_id] = fact.partitions
        elif isinstance(fact, EpochFact):
            if fact.epoch is not None:
                self.epoch, self.digest = fact.epoch, fact.digest
        elif isinstance(fact, TargetEpochFact):
            if fact.epoch is not None:
                self.target_epoch, self.target_ms = fact.epoch, fact.computed_ms
        elif fact.resolved is None:
            self.patterns.pop(fact.pattern, None)
        else:
            self.patterns[fact.pattern] = fact.resolved

    def _apply_subscription(self, fact: SubscriptionFact) -> None:
        member = self.members.get(fact.member_id)
        if fact.subscription is not None:
            self.members[fact.member_id] = (member or ConsumerMember(fact.member_id))._replace(
                subscription=fact.subscription
            )
            if fact.subscription.instance_id is not None:
                self.static[fact.subscription.instance_id] = fact.member_id
        elif member is not None:
            self._release(member)
            del self.members[fact.member_id]
            instance_id = member.subscription.instance_id
            if instance_id is not None and self.static.get(instance_id) == fact.member_id:
                del self.static[instance_id]

    def _apply_current(self, fact: CurrentFact) -> None:
        member = self.members.get(fact.member_id)
        if member is None:
            if fact.current is None:
                return
            # Its subscription follows, or the log is not whole.
            member = ConsumerMember(fact.member_id)
        current = fact.current or Current()
        self.members[fact.member_id] = ConsumerMember(member.member_id, member.subscription, current)
        if (
            not current.revoking
            and not member.current.revoking
            and same_partitions(current.assigned, member.current.assigned)
        ):
            return
        self._release(member)
        for owned in (current.assigned, current.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    self.owners[topic_id, partition] = fact.member_id

    def _release(self, member: ConsumerMember) -> None:
        for owned in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    if self.owners.get((topic_id, partition)) == member.member_id:
                        del self.owners[topic_id, partition]

    # --- what follows ---

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(member.reconciled_to(self.target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """Names of all topics a subscription asks for, by name or by pattern."""
        resolved = self.patterns.get(subscription.pattern) if subscription.pattern else None
        return subscription.topics if resolved is None else subscription.topics | resolved.topics

    def topics(self) -> frozenset[str]:
        """Names of all topics that anybody asks for."""
        return frozenset().union(*(self.topics_of(member.subscription) for member in self.members.values()))

    def users_of(self, pattern: str) -> int:
        return sum(member.subscription.pattern == pattern for member in self.members.values())

    def preferred_assignor(self) -> str | None:
        """What most members ask for, of those that ask."""
        votes: dict[str, int] = {}
        for member_id in sorted(self.members):
            if (name := self.members[member_id].subscription.assignor) is not None:
                votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__) if votes else None

    def classic_members(self) -> Iterable[ConsumerMember]:
        return (member for member in self.members.values() if member.is_classic)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether something it shall get is still with somebody else."""
        return any(
            self.owners.get((topic_id, partition), member.member_id) != member.member_id
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    # --- what offsets and administration ask ---

    @property
    def empty(self) -> bool:
        return not self.members

    def commit_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether these credentials may commit anything."""
        error = self.committer_error(member_id, generation, EPOCHS_FROM)
        member = self.members.get(member_id)
        if error != ErrorCode.NONE or member is None or generation == member.current.epoch:
            return error
        return _stale(member)

    def committer_error(self, member_id: str, generation: int, version: int) -> ErrorCode:
        """Whether these credentials may commit something: from an older epoch, `partition_error` says what."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and version < EPOCHS_FROM:
            return ErrorCode.UNSUPPORTED_VERSION
        return _stale(member) if generation > member.current.epoch else ErrorCode.NONE

    def partition_error(self, member_id: str, epoch: int, topic_id: bytes, partition: int) -> ErrorCode:
        """Whether a member may commit this partition: from an older epoch, what it has had since then or before."""
        member = self.members.get(member_id)
        if member is None or epoch == member.current.epoch:
            return ErrorCode.NONE
        given = _epoch_of(member.current.assigned, topic_id, partition)
        if given is None:
            given = _epoch_of(member.current.revoking, topic_id, partition)
        return _stale(member) if given is None or epoch < given else ErrorCode.NONE

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether offsets may be told to these credentials."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.current.epoch else _stale(member)

    def offset_delete_error(self) -> ErrorCode:
        return ErrorCode.NONE

    def delete_error(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics()

    def expiry_base_ms(self, committed: StoredOffset) -> int | None:
        return committed.commit_ms

    def next_deadline(self) -> int | None:
        return min(self.deadlines.values(), default=None)

    def gone(self) -> list[ModernFact]:
        """What makes all of the group go, in the order of Kafka's."""
        group_id = self.group_id
        return [
            *(CurrentFact(group_id, member_id, None) for member_id in self.members),
            *(TargetFact(group_id, member_id, None) for member_id in self.members),
            TargetEpochFact(group_id, None),
            *(SubscriptionFact(group_id, member_id, None) for member_id in self.members),
            *(PatternFact(group_id, pattern, None) for pattern in self.patterns),
            EpochFact(group_id, None),
        ]


def same_partitions(one: Owned, other: Owned) -> bool:
    """Whether they are the same partitions, since whichever epochs."""
    return one is other or (
        one.keys() == other.keys() and all(one[topic_id].keys() == other[topic_id].keys() for topic_id in one)
    )


def _epoch_of(owned: Owned, topic_id: bytes, partition: int) -> int | None:
    return owned.get(topic_id, {}).get(partition)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
