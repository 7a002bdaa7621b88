"""ConsumerGroupHeartbeat: members of the consumer protocol join, are heard of, and leave.

Owns: which requests are in order and which are refused, with Kafka's words, and what is answered. Never knows: what
follows for the group (`modern_step`), groups of another kind (`modern_migration`), where groups are kept.
"""

from collections.abc import Collection

from ottla.base.errors import ErrorCode
from ottla.groups.decision import Caller, GroupLimits, Wait
from ottla.groups.modern import LEFT_FOR_NOW, ConsumerGroup, ConsumerMember, same_partitions
from ottla.groups.modern_facts import Owned, Subscription
from ottla.groups.modern_step import GroupStep, Reported, StepRefusal
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

JOINING = 0
OWN_MEMBER_ID_FROM = 1
"""The version from which members bring their own ids."""


def refused(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def check(request: ConsumerGroupHeartbeatRequest, version: int, limits: GroupLimits) -> None:
    """What can be said about a request without looking at a group."""
    epoch = request.member_epoch
    if (version >= OWN_MEMBER_ID_FROM or epoch not in (JOINING, LEFT_FOR_NOW)) and _is_blank(request.member_id):
        raise _invalid("MemberId can't be empty.")
    if _is_blank(request.group_id):
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and _is_blank(request.instance_id):
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and _is_blank(request.rack_id):
        raise _invalid("RackId can't be empty.")
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEFT_FOR_NOW:
        if _is_blank(request.member_id):
            raise _invalid("MemberId can't be empty.")
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEFT_FOR_NOW:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in limits.assignors:
        message = (
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(limits.assignors)}."
        )
        raise StepRefusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _is_blank(text: str) -> bool:
    return not text.strip()


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def heartbeat(
    step: GroupStep, request: ConsumerGroupHeartbeatRequest, caller: Caller, member_id: str
) -> ConsumerGroupHeartbeatResponse:
    """A member joins or is heard of; `member_id` is its own or, of one that brings none, a new one."""
    check_room(step, request.member_id)
    member = _member(step, request, member_id)
    before = member.current
    member = step.subscribe(member, _subscription(member.subscription, request, caller), _reported(request))
    step.wait(member_id, Wait.SESSION, step.setting("session.timeout"))
    full = (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
    )
    told = request.member_epoch == JOINING or full or not same_partitions(before.assigned, member.current.assigned)
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=member.current.epoch,
        heartbeat_interval_ms=step.setting("heartbeat.interval"),
        assignment=_assignment(member.current.assigned) if told else None,
    )


def leave(step: GroupStep, request: ConsumerGroupHeartbeatRequest) -> Collection[str]:
    """A member goes: answers who is to be removed, nobody when a static member will be back."""
    group = step.group
    if request.instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = static_member(group, request.instance_id, request.member_id)
        if request.member_epoch == LEFT_FOR_NOW:
            step.leave_for_now(member)
            return ()
    return (member.member_id,)


def check_room(step: GroupStep, member_id: str) -> None:
    group, most = step.group, step.limits.consumer_max_size
    if len(group.members) >= most and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {most} members."
        raise StepRefusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise StepRefusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The bearer of an instance id, who must have this member id."""
    present = group.static.get(instance_id)
    if present is None:
        raise StepRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if present != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {present}."
        raise StepRefusal(ErrorCode.FENCED_INSTANCE_ID, message)
    return group.members[present]


def _member(step: GroupStep, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    group, instance_id = step.group, request.instance_id
    joining = request.member_epoch == JOINING
    if instance_id is None:
        member = (
            group.members.get(member_id) or ConsumerMember(member_id) if joining else known_member(group, member_id)
        )
    elif not joining:
        member = static_member(group, instance_id, member_id)
    else:
        present = group.static.get(instance_id)
        if present is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        old = group.members[present]
        if old.current.epoch != LEFT_FOR_NOW and not old.is_classic:
            message = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {present} member."
            )
            raise StepRefusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)
        return step.replace(old, member_id)
    _check_epoch(member, request)
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """An epoch of the past is fine once: the answer with the new one may have been lost."""
    epoch, known = request.member_epoch, member.current.epoch
    if epoch in (JOINING, known):
        return
    if epoch < known:
        if epoch == member.current.previous_epoch and _is_part_of(request, member.current.assigned):
            return
        word = "smaller"
    else:
        word = "greater"
    message = (
        f"The consumer group member has a {word} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known}). The member must abandon all its partitions and rejoin."
    )
    raise StepRefusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_part_of(request: ConsumerGroupHeartbeatRequest, assigned: Owned) -> bool:
    if request.topic_partitions is None:
        return False
    return all(
        partition in assigned.get(topic.topic_id, ())
        for topic in request.topic_partitions
        for partition in topic.partitions
    ) and all(topic.topic_id in assigned for topic in request.topic_partitions)


def _subscription(before: Subscription, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Subscription:
    """What is not said stays as it was."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return Subscription(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.host,
        topics=before.topics if names is None else frozenset(names),
        pattern=before.pattern if pattern is None else pattern,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=before.assignor if request.server_assignor is None else request.server_assignor,
    )


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _assignment(owned: Owned) -> Assignment:
    return Assignment([ResponseTopicPartitions(topic_id, sorted(partitions)) for topic_id, partitions in owned.items()])


def _invalid(message: str) -> StepRefusal:
    return StepRefusal(ErrorCode.INVALID_REQUEST, message)
