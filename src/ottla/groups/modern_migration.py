"""Groups that change protocol while they work, and members of the classic protocol in a group of the consumer protocol.

Owns: how a classic group of consumers becomes a consumer group when the first member of the new protocol joins, how its
classic members go on with JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and how it becomes a classic group again when
the last member of the new protocol goes. Never knows: the rules inside either kind (`rebalance`, `modern_step`).
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.groups.classic import CONSUMER, ClassicGroup, ClassicMember, GroupState
from ottla.groups.cluster import GroupCluster
from ottla.groups.decision import Caller, GroupLimits, Now, Timer, Token, Wait
from ottla.groups.embedded import BadFormat, read_assignment, read_subscription, version_of, write_assignment
from ottla.groups.modern import ConsumerGroup, ConsumerMember
from ottla.groups.modern_facts import (
    ClassicSide,
    Current,
    CurrentFact,
    EpochFact,
    MemberProgress,
    ModernFact,
    Partitions,
    Subscription,
    SubscriptionFact,
    TargetEpochFact,
    TargetFact,
)
from ottla.groups.modern_heartbeat import check_room, known_member, static_member
from ottla.groups.modern_step import GroupStep, StepRefusal
from ottla.groups.rebalance import MEMBER_ID_REQUIRED_FROM, join_refused
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Message

UPGRADE = ("upgrade", "bidirectional")
DOWNGRADE = ("downgrade", "bidirectional")


class Upgraded(NamedTuple):
    """A classic group as a consumer group, and what makes it one."""

    group: ConsumerGroup
    facts: list[ModernFact]
    released: list[tuple[Token, Message]]
    timers: list[Timer]


def upgraded(old: ClassicGroup, cluster: GroupCluster, limits: GroupLimits, now: Now) -> Upgraded:
    """Its members keep what they have; those who wait are told to come again."""
    problem = _upgrade_problem(old, limits)
    if problem is not None:
        message = f"Cannot upgrade classic group {old.group_id} to consumer group because {problem}."
        raise StepRefusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    group = ConsumerGroup(old.group_id)
    taken: set[tuple[bytes, int]] = set()
    try:
        members = [_as_modern(member, old, cluster, taken) for member in old.members.values()]
    except BadFormat:
        message = (
            f"Cannot upgrade classic group {old.group_id} to consumer group because the embedded consumer protocol "
            "is malformed."
        )
        raise StepRefusal(ErrorCode.GROUP_ID_NOT_FOUND, message) from None
    facts: list[ModernFact] = [
        *(SubscriptionFact(group.group_id, member.member_id, member.subscription) for member in members),
        EpochFact(group.group_id, old.generation),
        *(TargetFact(group.group_id, member.member_id, _numbers(member)) for member in members),
        TargetEpochFact(group.group_id, old.generation),
        *(CurrentFact(group.group_id, member.member_id, member.current) for member in members),
    ]
    for fact in facts:
        group.apply(fact)
    released: list[tuple[Token, Message]] = []
    for waiting in old.members.values():
        error = ErrorCode.REBALANCE_IN_PROGRESS
        if (asker := waiting.joining) is not None:
            released.append((asker.token, join_refused(waiting.member_id, error, asker.version)))
        if (asker := waiting.syncing) is not None:
            released.append((asker.token, SyncGroupResponse(error_code=error)))
    timers = [
        Timer(member.member_id, Wait.SESSION, now.steady_ms + member.session_timeout_ms)
        for member in old.members.values()
    ]
    return Upgraded(group, facts, released, timers)


def _upgrade_problem(old: ClassicGroup, limits: GroupLimits) -> str | None:
    if limits.migration not in UPGRADE:
        return "online upgrade is disabled"
    if old.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol"
    if len(old.members) > limits.consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _as_modern(
    member: ClassicMember, group: ClassicGroup, cluster: GroupCluster, taken: set[tuple[bytes, int]]
) -> ConsumerMember:
    said = read_subscription(dict(member.protocols).get(group.protocol or "", member.protocols[0][1]))
    assigned: dict[bytes, dict[int, int]] = {}
    for name, partitions in read_assignment(member.assignment).items():
        topic = cluster.topic(name)
        for partition in partitions if topic is not None else ():
            # Nothing keeps a leader from giving a partition to two members; a consumer group has one owner for each.
            if topic is not None and (topic.topic_id, partition) not in taken:
                taken.add((topic.topic_id, partition))
                assigned.setdefault(topic.topic_id, {})[partition] = group.generation
    subscription = Subscription(
        instance_id=member.instance_id,
        rack_id=said.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(said.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicSide(member.session_timeout_ms, member.protocols),
    )
    return ConsumerMember(
        member.member_id, subscription, Current(group.generation, group.generation, assigned=assigned)
    )


def _numbers(member: ConsumerMember) -> Partitions:
    return {topic_id: frozenset(partitions) for topic_id, partitions in member.current.assigned.items()}


# --- back ---


def can_downgrade(group: ConsumerGroup, leaving: Collection[str], limits: GroupLimits) -> bool:
    """Whether only members of the classic protocol are left when these are gone, and that is news."""
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    return (
        limits.migration in DOWNGRADE
        and 0 < len(staying) <= limits.max_size
        and all(member.is_classic for member in staying)
        and any(not group.members[member_id].is_classic for member_id in leaving)
    )


def can_replace_last(group: ConsumerGroup, member_id: str, request: JoinGroupRequest, limits: GroupLimits) -> bool:
    """Whether only members of the classic protocol are left when this one comes back with it."""
    return (
        limits.migration in DOWNGRADE
        and len(group.members) <= limits.max_size
        and all(other.is_classic for other in group.members.values() if other.member_id != member_id)
        and _supports(group, request)
    )


def as_classic(member: ConsumerMember, request: JoinGroupRequest) -> Subscription:
    """The member with what it joins with now."""
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    side = ClassicSide(request.session_timeout_ms, protocols)
    try:
        topics = frozenset(read_subscription(protocols[0][1]).topics)
    except BadFormat:
        # In a classic group it is the members' own business.
        return member.subscription._replace(classic=side)
    return member.subscription._replace(classic=side, topics=topics, pattern="")


def downgraded(group: ConsumerGroup, leaving: Collection[str], cluster: GroupCluster, now: Now) -> ClassicGroup:
    """The same group in the classic protocol, without those who leave.

    Its assignments are what the members have, not (as in Kafka) what they should get: a rebalance follows where these
    differ, and if the group changes over again before that is done, nobody is given what another still works on.
    """
    classic = ClassicGroup(group.group_id, now.wall_ms)
    classic.state = GroupState.STABLE
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER
    for member_id, member in group.members.items():
        side = member.subscription.classic
        if member_id in leaving or side is None:
            continue
        said = member.subscription
        version = version_of(side.protocols[0][1])
        classic.add(
            ClassicMember(
                member_id,
                said.instance_id,
                said.client_id,
                said.client_host,
                said.rebalance_timeout_ms,
                side.session_timeout_ms,
                side.protocols,
                write_assignment(_by_name(member.held(), cluster), version),
            )
        )
    classic.protocol = classic.choose_protocol()
    classic.note_subscriptions()
    return classic


def _by_name(partitions: Mapping[bytes, Collection[int]], cluster: GroupCluster) -> dict[str, list[int]]:
    found = {}
    for topic_id, numbers in partitions.items():
        topic = cluster.topic_by_id(topic_id)
        if topic is not None:
            found[topic.name] = sorted(numbers)
    return found


# --- classic members of a consumer group ---


def join(step: GroupStep, request: JoinGroupRequest, caller: Caller, identity: str) -> JoinGroupResponse:
    """Answered at once: everybody's part is known, and nobody leads."""
    group = step.group
    if step.limits.migration == "disabled":
        message = (
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration "
            "is disabled."
        )
        raise StepRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    member_id = request.member_id or identity
    check_room(step, member_id)
    if not _supports(group, request):
        message = f"Member {member_id}'s protocols are not supported."
        raise StepRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    instance_id = request.group_instance_id
    if not request.member_id and instance_id is None and caller.version >= MEMBER_ID_REQUIRED_FROM:
        return join_refused(member_id, ErrorCode.MEMBER_ID_REQUIRED, caller.version)
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    try:
        said = read_subscription(protocols[0][1])
    except BadFormat:
        raise StepRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The embedded protocol is malformed.") from None
    if said.owned and instance_id is None and member_id not in group.members:
        # Nobody new works on anything: it was removed and does not know it. Kafka lets it in, still at work.
        raise StepRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    member = _joining(step, request, member_id)
    before = member.subscription
    subscription = Subscription(
        instance_id=before.instance_id if instance_id is None else instance_id,
        rack_id=before.rack_id if said.rack_id is None else said.rack_id,
        client_id=caller.client_id,
        client_host=caller.host,
        topics=frozenset(said.topics),
        pattern=before.pattern,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicSide(request.session_timeout_ms, protocols),
    )
    reported = {
        topic.topic_id: partitions
        for name, partitions in said.owned.items()
        if (topic := step.cluster.topic(name)) is not None
    }
    member = step.subscribe(member, subscription, reported)
    step.wait(member_id, Wait.JOIN, None)
    step.wait(member_id, Wait.REVOKE, None)
    step.wait(member_id, Wait.SESSION, request.session_timeout_ms)
    step.wait(member_id, Wait.SYNC, request.rebalance_timeout_ms)
    return JoinGroupResponse(
        generation_id=member.current.epoch,
        protocol_type=CONSUMER,
        protocol_name=protocols[0][0],
        member_id=member_id,
    )


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    if request.protocol_type != CONSUMER or not request.protocols:
        return False
    supported: list[set[str]] = []
    for member in group.classic_members():
        assert member.subscription.classic is not None
        supported.append({name for name, _ in member.subscription.classic.protocols})
    wanted = {protocol.name for protocol in request.protocols}
    for names in supported:
        wanted &= names
    return bool(wanted)


def _joining(step: GroupStep, request: JoinGroupRequest, member_id: str) -> ConsumerMember:
    group, instance_id = step.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id:
        return static_member(group, instance_id, member_id)
    present = group.static.get(instance_id)
    return ConsumerMember(member_id) if present is None else step.replace(group.members[present], member_id)


def sync(step: GroupStep, request: SyncGroupRequest) -> SyncGroupResponse:
    member, side = _classic_member(step.group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    name = side.protocols[0][0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        raise StepRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not the one of the join response.")
    if step.group.target_epoch > member.current.epoch and member.current.progress is not MemberProgress.UNREVOKED:
        step.wait(member.member_id, Wait.JOIN, member.subscription.rebalance_timeout_ms, if_absent=True)
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    step.wait(member.member_id, Wait.SYNC, None)
    step.wait(member.member_id, Wait.SESSION, side.session_timeout_ms)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment(_by_name(member.current.assigned, step.cluster), version_of(side.protocols[0][1])),
    )


def heartbeat(step: GroupStep, request: HeartbeatRequest) -> ErrorCode:
    """A member that lags behind the targets, has something to give back or something to get joins again."""
    group = step.group
    member, side = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    step.wait(member.member_id, Wait.SESSION, side.session_timeout_ms)
    progress = member.current.progress
    if (
        member.current.epoch < group.target_epoch
        or progress is MemberProgress.UNREVOKED
        or (progress is MemberProgress.UNRELEASED and not group.waits_for_others(member))
    ):
        step.wait(member.member_id, Wait.JOIN, member.subscription.rebalance_timeout_ms, if_absent=True)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leaving(group: ConsumerGroup, request: LeaveGroupRequest) -> tuple[list[str], list[MemberResponse]]:
    """Who goes, of whatever protocol, and the answers."""
    gone: list[str] = []
    answers = []
    for asked in request.members:
        error = ErrorCode.NONE
        try:
            if asked.group_instance_id is None:
                member = known_member(group, asked.member_id)
            else:
                # An administrator removes a static member by its instance id alone.
                present = group.static.get(asked.group_instance_id, "")
                member = static_member(group, asked.group_instance_id, asked.member_id or present)
            gone.append(member.member_id)
        except StepRefusal as refusal:
            error = refusal.error
        answers.append(MemberResponse(asked.member_id, asked.group_instance_id, error))
    return list(dict.fromkeys(gone)), answers


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicSide]:
    member = known_member(group, member_id) if instance_id is None else static_member(group, instance_id, member_id)
    if member.subscription.classic is None:
        raise StepRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.subscription.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.current.epoch:
        raise StepRefusal(ErrorCode.ILLEGAL_GENERATION, "The generation is not the member's epoch.")
