"""Decisions about groups of the consumer protocol.

Owns: from a request to a decision: find the group or begin one, have it moved, turn refusals into answers. Never knows:
logs, clocks. Changes nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.base.errors import ErrorCode
from ottla.groups import modern_heartbeat, modern_migration
from ottla.groups.classic import ClassicGroup
from ottla.groups.cluster import GroupCluster
from ottla.groups.decision import Aftermath, Caller, GroupDecision, GroupLimits, Now, Timer, Token, Wait
from ottla.groups.facts import Fact, GroupFact
from ottla.groups.modern import ConsumerGroup, ConsumerMember
from ottla.groups.modern_facts import MemberProgress, SubscriptionFact
from ottla.groups.modern_step import GroupStep, StepRefusal
from ottla.groups.rebalance import Rebalance, join_refused
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Message


class GroupTable(Protocol):
    """Who keeps the groups: the machine."""

    groups: dict[str, ClassicGroup | ConsumerGroup]
    limits: GroupLimits
    cluster: GroupCluster


def decide_heartbeat(
    holder: GroupTable, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: Now, member_id: str
) -> GroupDecision:
    try:
        modern_heartbeat.check(request, caller.version, holder.limits)
        if request.member_epoch < 0:
            return _leave(holder, request, now)
        before = _begun(holder, request, now)
        step = GroupStep(before.group, holder.cluster, holder.limits, now)
        reply = modern_heartbeat.heartbeat(step, request, caller, member_id)
        return _decision(step, reply, before)
    except StepRefusal as refusal:
        return GroupDecision(modern_heartbeat.refused(refusal.error, refusal.message))


class _Beginning(NamedTuple):
    """A group that takes its first member of the consumer protocol, and what must be said first."""

    group: ConsumerGroup
    facts: Sequence[Fact] = ()
    released: Sequence[tuple[Token, Message]] = ()
    timers: Sequence[Timer] = ()


def _begun(holder: GroupTable, request: ConsumerGroupHeartbeatRequest, now: Now) -> _Beginning:
    """The group of a request; who joins begins one, where there is none or one of the classic protocol."""
    group_id = request.group_id
    group = holder.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return _Beginning(group)
    if request.member_epoch != modern_heartbeat.JOINING:
        found = "Consumer group {} not found." if group is None else "Group {} is not a consumer group."
        raise StepRefusal(ErrorCode.GROUP_ID_NOT_FOUND, found.format(group_id))
    if group is None:
        return _Beginning(ConsumerGroup(group_id))
    end = GroupFact(group_id, None)
    if group.empty:
        return _Beginning(ConsumerGroup(group_id), [end])
    upgraded = modern_migration.upgraded(group, holder.cluster, holder.limits, now)
    return _Beginning(upgraded.group, [end, *upgraded.facts], upgraded.released, upgraded.timers)


def existing(groups: Mapping[str, ClassicGroup | ConsumerGroup], group_id: str) -> ConsumerGroup:
    """A group that must be there."""
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    raise StepRefusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _leave(holder: GroupTable, request: ConsumerGroupHeartbeatRequest, now: Now) -> GroupDecision:
    step = GroupStep(existing(holder.groups, request.group_id), holder.cluster, holder.limits, now)
    gone = modern_heartbeat.leave(step, request)
    reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return _removed(step, gone, reply)


def _removed(step: GroupStep, gone: Collection[str], reply: Message | None) -> GroupDecision:
    """Without these members; a group of classic members only is one of the classic protocol again."""
    if gone and modern_migration.can_downgrade(step.group, gone, step.limits):
        classic = modern_migration.downgraded(step.group, gone, step.cluster, step.now)
        rebalance = _as_classic(step, classic)
        rebalance.left()
        return rebalance.decision(reply)
    if gone:
        step.remove(gone)
    return _decision(step, reply)


def _as_classic(step: GroupStep, classic: ClassicGroup) -> Rebalance:
    rebalance = Rebalance(classic, step.limits, step.now)
    rebalance.facts += [*step.group.gone(), GroupFact(classic.group_id, classic.stored())]
    rebalance.begin_sessions()
    return rebalance


# --- requests of classic members ---


def decide_join(
    holder: GroupTable, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now: Now, identity: str
) -> GroupDecision:
    step = GroupStep(group, holder.cluster, holder.limits, now)
    last = _last_replaced(step, request)
    if last is not None:
        return _join_after_downgrade(step, last, request, caller, identity)
    try:
        return _decision(step, modern_migration.join(step, request, caller, identity))
    except StepRefusal as refusal:
        return GroupDecision(join_refused(request.member_id, refusal.error, caller.version))


def _last_replaced(step: GroupStep, request: JoinGroupRequest) -> ConsumerMember | None:
    """The last member of the consumer protocol, when it is static and comes back with the classic one."""
    if request.member_id or request.group_instance_id is None:
        return None
    present = step.group.static.get(request.group_instance_id)
    if present is None or step.group.members[present].is_classic:
        return None
    replaceable = modern_migration.can_replace_last(step.group, present, request, step.limits)
    return step.group.members[present] if replaceable else None


def _join_after_downgrade(
    step: GroupStep, last: ConsumerMember, request: JoinGroupRequest, caller: Caller, identity: str
) -> GroupDecision:
    draft = step.group.copy()
    draft.apply(SubscriptionFact(draft.group_id, last.member_id, modern_migration.as_classic(last, request)))
    rebalance = _as_classic(step, modern_migration.downgraded(draft, (), step.cluster, step.now))
    others = [member for member in draft.members.values() if member.member_id != last.member_id]
    other_topics = GroupStep(draft, step.cluster, step.limits, step.now).digest() != draft.digest
    settled = draft.epoch == draft.target_epoch and all(each.reconciled_to(draft.target_epoch) for each in others)
    if other_topics or not settled:
        # Not everybody has what they should: everybody shares the work anew.
        rebalance.left()
    return rebalance.decision(rebalance.join(request, caller, identity))


def decide_sync(holder: GroupTable, group: ConsumerGroup, request: SyncGroupRequest, now: Now) -> GroupDecision:
    step = GroupStep(group, holder.cluster, holder.limits, now)
    try:
        return _decision(step, modern_migration.sync(step, request))
    except StepRefusal as refusal:
        return GroupDecision(SyncGroupResponse(error_code=refusal.error))


def decide_classic_heartbeat(
    holder: GroupTable, group: ConsumerGroup, request: HeartbeatRequest, now: Now
) -> GroupDecision:
    step = GroupStep(group, holder.cluster, holder.limits, now)
    try:
        return _decision(step, HeartbeatResponse(error_code=modern_migration.heartbeat(step, request)))
    except StepRefusal as refusal:
        return GroupDecision(HeartbeatResponse(error_code=refusal.error))


def decide_leave(holder: GroupTable, group: ConsumerGroup, request: LeaveGroupRequest, now: Now) -> GroupDecision:
    gone, answers = modern_migration.leaving(group, request)
    step = GroupStep(group, holder.cluster, holder.limits, now)
    return _removed(step, gone, LeaveGroupResponse(members=answers))


# --- time ---


def decide_overdue(holder: GroupTable, group: ConsumerGroup, now: Now) -> GroupDecision | None:
    """Members that did not do in time what they should are removed."""
    step = GroupStep(group, holder.cluster, holder.limits, now)
    overdue = step.overdue()
    if not overdue:
        return None
    return _removed(step, overdue, None)


def sessions_begin(holder: GroupTable, group: ConsumerGroup, now: Now) -> GroupDecision:
    """The group was loaded: its members have a session's time to be heard of."""
    step = GroupStep(group, holder.cluster, holder.limits, now)
    for member_id, member in group.members.items():
        step.wait(member_id, Wait.SESSION, step.setting("session.timeout"))
        if member.current.progress is MemberProgress.UNREVOKED and not member.is_classic:
            step.wait(member_id, Wait.REVOKE, member.subscription.rebalance_timeout_ms)
    return _decision(step, None)


def _decision(step: GroupStep, reply: Message | None, before: _Beginning | None = None) -> GroupDecision:
    facts, released, timers = ((), (), ()) if before is None else before[1:]
    aftermath = Aftermath(step.group.group_id, [*timers, *step.timers], step.seen_version)
    return GroupDecision(reply, [*facts, *step.facts], released, aftermath=aftermath)
