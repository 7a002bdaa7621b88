"""A group of the classic protocol: who is in it, in which state, under which generation.

Owns: the state of one group, its invariants and the checks that requests must pass. Never knows: how a request moves
it (`groups.rebalance` does that, on a copy), offsets, bytes, time but as numbers it is given.
Invariants: the leader is a member, and there is one exactly when there are members; a static member's instance id
belongs to one member; everybody who waits for an answer is a member; in Stable nobody waits.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.groups.decision import Caller
from ottla.groups.facts import StoredGroup, StoredMember, StoredOffset
from ottla.groups.subscription import subscribed_topics

CONSUMER = "consumer"
"""The protocol type of consumers; of these the coordinator understands which topics they subscribe to."""


class GroupState(Enum):
    """The states of a group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicMember(NamedTuple):
    """One member. `joining` and `syncing` are who waits for the answers to its requests."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    joining: Caller | None = None
    syncing: Caller | None = None
    new: bool = False
    """It has not been told its first generation: it may time out even while it waits."""

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")


class InitialDelay(NamedTuple):
    """How the first rebalance of an empty group waits for more members."""

    delay_ms: int
    remaining_ms: int


class ClassicGroup:
    """One group."""

    __slots__ = (
        "generation",
        "group_id",
        "initial",
        "join_until",
        "leader",
        "members",
        "newcomers",
        "pending",
        "previous",
        "protocol",
        "protocol_type",
        "sessions",
        "since_ms",
        "state",
        "static",
        "subscribed",
        "sync_until",
        "unsynced",
        "why",
    )

    def __init__(self, group_id: str, since_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous = GroupState.DEAD
        self.since_ms = since_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}
        """Member ids of static members, by instance id."""
        self.pending: set[str] = set()
        """Member ids that were given out and have not joined yet."""
        self.unsynced: set[str] = set()
        """Members that know the generation and have not asked for their assignment."""
        self.subscribed: frozenset[str] | None = None
        """The topics of all members, where the coordinator can tell."""
        self.sessions: dict[str, int] = {}
        """Until when members and pending members must be heard of; a member that waits for us needs no deadline."""
        self.join_until: int | None = None
        self.sync_until: int | None = None
        self.initial: InitialDelay | None = None
        self.newcomers = False
        """Somebody has joined since the initial delay was last prolonged."""
        self.why = ""
        """What the last rebalance began for, in words for the log."""

    def copy(self) -> "ClassicGroup":
        """A draft to work on: what happens to it leaves this group as it is."""
        draft = ClassicGroup.__new__(ClassicGroup)
        for name in ClassicGroup.__slots__:
            setattr(draft, name, getattr(self, name))
        draft.members = self.members.copy()
        draft.static = self.static.copy()
        draft.pending = self.pending.copy()
        draft.unsynced = self.unsynced.copy()
        draft.sessions = self.sessions.copy()
        return draft

    # --- what is stored ---

    @classmethod
    def restored(cls, group_id: str, stored: StoredGroup) -> "ClassicGroup":
        """The group as the log tells it; sessions begin when the machine is told that loading is over."""
        group = cls(group_id, stored.since_ms)
        group.generation = stored.generation
        group.protocol_type = stored.protocol_type
        # A generation with members always has a protocol and a leader among them; a foreign writer may not know that.
        group.protocol = (stored.protocol or "") if stored.members else stored.protocol
        if any(kept.member_id == stored.leader for kept in stored.members):
            group.leader = stored.leader
        for kept in stored.members:
            group.add(
                ClassicMember(
                    kept.member_id,
                    kept.instance_id,
                    kept.client_id,
                    kept.client_host,
                    kept.rebalance_timeout_ms,
                    kept.session_timeout_ms,
                    ((group.protocol or "", kept.subscription),),
                    kept.assignment,
                )
            )
        if group.members:
            group.state = GroupState.STABLE
        group.note_subscriptions()
        return group

    def stored(self) -> StoredGroup:
        """What the log must say of this group as it stands."""
        return StoredGroup(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            self.since_ms,
            tuple(
                StoredMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata(self.protocol),
                    member.assignment,
                )
                for member in self.members.values()
            ),
        )

    # --- members ---

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static, member.instance_id
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Forget a member or a pending one; another member leads when it was the leader."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static[member.instance_id]
        if member_id == self.leader:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        self.sessions.pop(member_id, None)
        return member

    def all_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    def waiting_to_join(self) -> int:
        return sum(member.joining is not None for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- protocols ---

    def common_protocols(self) -> set[str]:
        """What every member supports."""
        supported = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*supported) if supported else set()

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody who speaks these protocols can join."""
        wanted = set(names)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(wanted)
        if protocol_type != self.protocol_type:
            return False
        return not wanted.isdisjoint(self.common_protocols()) if self.members else bool(wanted)

    def choose_protocol(self) -> str:
        """What most members like best of what all of them support."""
        candidates = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def note_subscriptions(self) -> None:
        """Find out which topics the members of the present generation subscribe to."""
        self.subscribed = None
        if self.protocol_type == CONSUMER:
            metadata = [member.metadata(self.protocol) for member in self.members.values()]
            self.subscribed = subscribed_topics(metadata)

    def subscribes_to(self, topic: str) -> bool:
        """Whether the offsets of this topic are in use; where the coordinator cannot tell, consumers are believed."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed

    # --- checks ---

    @property
    def empty(self) -> bool:
        return self.state is GroupState.EMPTY

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member, and for a static one the present bearer of its instance id."""
        if instance_id is not None:
            present = self.static.get(instance_id)
            if present is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if present != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def commit_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether these credentials may commit offsets now; generation -1 without a member is a simple consumer's."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.member_error(member_id, instance_id)
        if error != ErrorCode.NONE:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is GroupState.COMPLETING else ErrorCode.NONE

    def offset_delete_error(self) -> ErrorCode:
        if self.state is GroupState.EMPTY or self.protocol_type == CONSUMER:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def delete_error(self) -> ErrorCode:
        return ErrorCode.NONE if self.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def expiry_base_ms(self, committed: StoredOffset) -> int | None:
        """From when on the retention of an offset counts; None while the group holds it."""
        if self.protocol_type is None:
            return committed.commit_ms
        if self.state is GroupState.EMPTY:
            return self.since_ms if self.since_ms >= 0 else committed.commit_ms
        if self.state is GroupState.STABLE and self.protocol_type == CONSUMER and self.subscribed is not None:
            return committed.commit_ms
        return None

    # --- time ---

    def next_deadline(self) -> int | None:
        deadlines = list(self.sessions.values())
        if self.join_until is not None:
            deadlines.append(self.join_until)
        if self.sync_until is not None:
            deadlines.append(self.sync_until)
        return min(deadlines, default=None)
