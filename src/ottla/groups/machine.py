"""All groups of one partition of `__consumer_offsets`.

Owns: which groups there are, their offsets, and when something is due. Never knows: logs, sockets, loops, clocks.
Deciders (`decide_…`, and `expire` for deadlines) change nothing a client could see; a decision takes effect when its
facts are stored: `apply` for each of them, then `follow`. `apply` alone also rebuilds the machine from the log.
Invariants: a group that has offsets exists; every request that waits is known to exactly one group.
"""

from collections.abc import Collection, Sequence

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.groups import modern_decider
from ottla.groups.classic import ClassicGroup, GroupState
from ottla.groups.cluster import GroupCluster, NoTopics
from ottla.groups.deadlines import Deadlines
from ottla.groups.decision import Aftermath, Caller, GroupDecision, GroupLimits, Now, SessionExtended, Token
from ottla.groups.facts import Fact, GroupFact, OffsetFact, StoredGroup
from ottla.groups.modern import ConsumerGroup
from ottla.groups.modern_facts import EpochFact, ModernFact, is_end
from ottla.groups.offsets import OffsetTable, commit_refused, committed_facts
from ottla.groups.rebalance import Rebalance, join_refused
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopics, OffsetFetchResponseTopics
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Message

GROUP_ID_NOT_FOUND_FROM = 9
"""The version of OffsetCommit whose clients know that error."""
TRY_AGAIN_MS = 1_000
"""When a deadline's decision could not be stored, it is decided on again so much later."""
LOOKED_AT_ONCE = 100
"""Groups whose offsets are looked through for expiry in one go."""


class GroupMachine:
    """The groups of one partition."""

    def __init__(self, limits: GroupLimits, random: Random, now: Now, cluster: GroupCluster | None = None) -> None:
        self.limits = limits
        """Replaceable at any time."""
        self._random = random
        self.cluster: GroupCluster = NoTopics() if cluster is None else cluster
        self.groups: dict[str, ClassicGroup | ConsumerGroup] = {}
        self.offsets = OffsetTable()
        self._deadlines = Deadlines()
        self._next_look_ms = now.steady_ms + limits.retention_check_ms
        self._to_look_at: list[str] = []

    # --- facts ---

    def apply(self, fact: Fact) -> None:
        """What the log says, now or when it is read again."""
        group_id = fact.group_id
        if isinstance(fact, OffsetFact):
            self.offsets.apply(fact)
            if fact.committed is not None and group_id not in self.groups:
                # Whoever commits without joining has a group that is nothing but its offsets.
                self.groups[group_id] = ClassicGroup(group_id, fact.committed.commit_ms)
        elif not isinstance(fact, GroupFact):
            self._apply_modern(fact)
        elif fact.group is not None:
            self.groups[group_id] = ClassicGroup.restored(group_id, fact.group)
        elif isinstance(self.groups.get(group_id), ClassicGroup):
            del self.groups[group_id]

    def _apply_modern(self, fact: ModernFact) -> None:
        group = self.groups.get(fact.group_id)
        if not isinstance(group, ConsumerGroup):
            if is_end(fact):
                return
            group = self.groups[fact.group_id] = ConsumerGroup(fact.group_id)
        group.apply(fact)
        if isinstance(fact, EpochFact) and fact.epoch is None:
            del self.groups[fact.group_id]

    def follow(self, decision: GroupDecision) -> None:
        """The facts of a decision are stored and applied: what it says beside them holds from now on."""
        group, session = decision.group, decision.session
        if group is not None:
            self.groups[group.group_id] = group
            self._deadlines.note(group.group_id, group.next_deadline())
        if session is not None:
            classic = self.groups[session.group_id]
            assert isinstance(classic, ClassicGroup)
            classic.sessions[session.member_id] = session.until_ms
            self._deadlines.note(session.group_id, session.until_ms)
        if decision.aftermath is not None:
            self._follow_modern(decision.aftermath)

    def _follow_modern(self, aftermath: Aftermath) -> None:
        group = self.groups.get(aftermath.group_id)
        if not isinstance(group, ConsumerGroup):
            return
        group.seen_version = aftermath.seen_version
        for member_id, wait, until_ms, if_absent in aftermath.timers:
            if until_ms is None:
                group.deadlines.pop((member_id, wait), None)
            elif not if_absent or (member_id, wait) not in group.deadlines:
                group.deadlines[member_id, wait] = until_ms
                self._deadlines.note(group.group_id, until_ms)

    def loaded(self, now: Now) -> None:
        """Everything in the log has been applied: members of old must be heard of from now on."""
        for group in tuple(self.groups.values()):
            if isinstance(group, ConsumerGroup):
                self.follow(modern_decider.sessions_begin(self, group, now))
            elif group.members:
                step = Rebalance(group.copy(), self.limits, now)
                step.begin_sessions()
                self.follow(step.decision(None))

    def given_up(self) -> list[tuple[Token, Message]]:
        """Another coordinator takes over: answers for everybody who waits here."""
        error = ErrorCode.NOT_COORDINATOR
        released: list[tuple[Token, Message]] = []
        for group in self.groups.values():
            for member in group.members.values() if isinstance(group, ClassicGroup) else ():
                if (waiting := member.joining) is not None:
                    released.append((waiting.token, join_refused(member.member_id, error, waiting.version)))
                if (waiting := member.syncing) is not None:
                    released.append((waiting.token, SyncGroupResponse(error_code=error)))
        return released

    # --- membership ---

    def patterns(self, group_id: str) -> Collection[str]:
        """Those that the members of a group subscribe by."""
        group = self.groups.get(group_id)
        return group.patterns if isinstance(group, ConsumerGroup) else ()

    def decide_consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: Now
    ) -> GroupDecision:
        """Of the consumer protocol."""
        member_id = request.member_id or self._identity()
        return modern_decider.decide_heartbeat(self, request, caller, now, member_id)

    def decide_join(self, request: JoinGroupRequest, caller: Caller, now: Now) -> GroupDecision:
        limits = self.limits
        if not limits.min_session_ms <= request.session_timeout_ms <= limits.max_session_ms:
            return GroupDecision(join_refused(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT, caller.version))
        group = self.groups.get(request.group_id)
        before: Sequence[Fact] = ()
        if isinstance(group, ConsumerGroup):
            if not group.empty:
                return modern_decider.decide_join(self, group, request, caller, now, self._identity())
            before, group = group.gone(), None
        if group is None and request.member_id:
            return GroupDecision(join_refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID, caller.version))
        draft = ClassicGroup(request.group_id, now.wall_ms) if group is None else group.copy()
        step = Rebalance(draft, limits, now)
        reply = step.join(request, caller, self._identity())
        if group is None:
            # A new group is written down at once, so that it is there for whoever coordinates it next.
            step.facts += [*before, GroupFact(request.group_id, StoredGroup(None, 0, None, None, now.wall_ms))]
        return step.decision(reply)

    def _identity(self) -> str:
        """A random UUID."""
        number = bytearray(self._random.identity())
        number[6] = number[6] & 0x0F | 0x40
        number[8] = number[8] & 0x3F | 0x80
        text = number.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def decide_sync(self, request: SyncGroupRequest, caller: Caller, now: Now) -> GroupDecision:
        group = self.groups.get(request.group_id)
        if group is None:
            return GroupDecision(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        if isinstance(group, ConsumerGroup):
            return modern_decider.decide_sync(self, group, request, now)
        step = Rebalance(group.copy(), self.limits, now)
        return step.decision(step.sync(request, caller))

    def decide_heartbeat(self, request: HeartbeatRequest, now: Now) -> GroupDecision:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return modern_decider.decide_classic_heartbeat(self, group, request, now)
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if group is not None:
            error = group.member_error(request.member_id, request.group_instance_id)
            if error == ErrorCode.NONE and request.generation_id != group.generation:
                error = ErrorCode.ILLEGAL_GENERATION
        if group is None or error != ErrorCode.NONE:
            return GroupDecision(HeartbeatResponse(error_code=error))
        if group.state is GroupState.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return GroupDecision(HeartbeatResponse(error_code=error), session=_renewed(group, request.member_id, now))

    def decide_leave(self, request: LeaveGroupRequest, now: Now) -> GroupDecision:
        """Of the members named in `members`; an old request's single member is put there by the caller."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return modern_decider.decide_leave(self, group, request, now)
        step = None if group is None else Rebalance(group.copy(), self.limits, now)
        results = []
        for leaving in request.members:
            error = ErrorCode.UNKNOWN_MEMBER_ID if step is None else step.leave(leaving)
            results.append(MemberResponse(leaving.member_id, leaving.group_instance_id, error))
        reply = LeaveGroupResponse(members=results)
        if step is None or all(result.error_code != ErrorCode.NONE for result in results):
            return GroupDecision(reply)
        step.left()
        return step.decision(reply)

    # --- offsets ---

    def decide_commit(self, request: OffsetCommitRequest, version: int, now: Now) -> GroupDecision:
        """Of topics that exist; where the request names them by id, the caller has filled in the names."""
        group = self.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is None:
            if generation >= 0:
                known = version >= GROUP_ID_NOT_FOUND_FROM
                error = ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
                return GroupDecision(commit_refused(request, error))
            session = None
        elif isinstance(group, ConsumerGroup):
            error = _modern_commit_error(group, request, version)
            if error != ErrorCode.NONE:
                return GroupDecision(commit_refused(request, error))
            session = None
        else:
            error = group.commit_error(request.member_id, request.group_instance_id, generation)
            if error != ErrorCode.NONE:
                return GroupDecision(commit_refused(request, error))
            session = _renewed(group, request.member_id, now) if request.member_id in group.members else None
        facts, reply = committed_facts(request, now.wall_ms, self.limits.metadata_bytes)
        return GroupDecision(reply, facts, session=session)

    def fetched(
        self, group_id: str, topics: Sequence[OffsetFetchRequestTopics] | None
    ) -> list[OffsetFetchResponseTopics]:
        """Committed offsets; of all topics when none are named."""
        return self.offsets.fetched(group_id, topics)

    def decide_offset_delete(self, request: OffsetDeleteRequest) -> GroupDecision:
        """Of topics that exist."""
        group = self.groups.get(request.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.offset_delete_error()
        if group is None or error != ErrorCode.NONE:
            return GroupDecision(OffsetDeleteResponse(error_code=error))
        facts: list[Fact] = []
        topics = []
        for topic in request.topics:
            subscribed = group.subscribes_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            indexes = [partition.partition_index for partition in topic.partitions]
            if not subscribed:
                facts += self.offsets.deleted(request.group_id, topic.name, indexes)
            results = [OffsetDeleteResponsePartition(index, error) for index in indexes]
            topics.append(OffsetDeleteResponseTopic(topic.name, results))
        return GroupDecision(OffsetDeleteResponse(topics=topics), facts)

    # --- administration ---

    def decide_delete(self, group_id: str) -> GroupDecision:
        group = self.groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.delete_error()
        reply = DeletableGroupResult(group_id, error)
        if group is None or error != ErrorCode.NONE:
            return GroupDecision(reply)
        return GroupDecision(reply, [*self.offsets.all_of(group_id), *_gone(group)])

    def decide_topics_removed(self, names: Collection[str]) -> GroupDecision:
        """Offsets in topics that are gone mean nothing."""
        return GroupDecision(None, self.offsets.of_topics(names))

    # --- time ---

    def next_deadline(self) -> int:
        """When to call `expire`, in steady milliseconds."""
        if self._to_look_at:
            return 0
        first = self._deadlines.first()
        return self._next_look_ms if first is None else min(first, self._next_look_ms)

    def expire(self, now: Now) -> GroupDecision | None:
        """The next thing that is due; to be called until it answers None."""
        while (group_id := self._deadlines.take(now.steady_ms)) is not None:
            group = self.groups.get(group_id)
            deadline = None if group is None else group.next_deadline()
            if group is None or deadline is None:
                continue
            if deadline > now.steady_ms:
                self._deadlines.note(group_id, deadline)
                continue
            self._deadlines.note(group_id, now.steady_ms + TRY_AGAIN_MS)
            if isinstance(group, ConsumerGroup):
                return modern_decider.decide_overdue(self, group, now)
            step = Rebalance(group.copy(), self.limits, now)
            step.expire()
            return step.decision(None)
        return self._expire_offsets(now)

    def _expire_offsets(self, now: Now) -> GroupDecision | None:
        if not self._to_look_at:
            if now.steady_ms < self._next_look_ms:
                return None
            self._next_look_ms = now.steady_ms + self.limits.retention_check_ms
            self._to_look_at = list(self.groups)
        facts: list[Fact] = []
        for group_id in self._to_look_at[-LOOKED_AT_ONCE:]:
            group = self.groups.get(group_id)
            if group is None:
                continue
            expired, without = self.offsets.expired(group, now.wall_ms, self.limits.retention_ms)
            facts += expired
            if without and group.empty:
                facts += _gone(group)
        del self._to_look_at[-LOOKED_AT_ONCE:]
        return GroupDecision(None, facts)


def _gone(group: ClassicGroup | ConsumerGroup) -> Sequence[Fact]:
    """What makes a group go."""
    return group.gone() if isinstance(group, ConsumerGroup) else [GroupFact(group.group_id, None)]


def _modern_commit_error(group: ConsumerGroup, request: OffsetCommitRequest, version: int) -> ErrorCode:
    """Whether a member of the consumer protocol may commit all of this; one partition it may not spoils the rest."""
    member_id, epoch = request.member_id, request.generation_id_or_member_epoch
    error = group.committer_error(member_id, epoch, version)
    for topic in request.topics:
        for partition in topic.partitions:
            if error != ErrorCode.NONE:
                return error
            error = group.partition_error(member_id, epoch, topic.topic_id, partition.partition_index)
    return error


def _renewed(group: ClassicGroup, member_id: str, now: Now) -> SessionExtended:
    until_ms = now.steady_ms + group.members[member_id].session_timeout_ms
    return SessionExtended(group.group_id, member_id, until_ms)
