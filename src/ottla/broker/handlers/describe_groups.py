"""DescribeGroups, v0 to v6: state and members of classic groups. A group that is not there, or no such, is dead.

KIP-430 (v3: authorized operations), KIP-345 (v4: static members), KIP-1043 (v6: GROUP_ID_NOT_FOUND).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.groups.classic import ClassicGroup, GroupState
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.broker.broker import Broker

NOT_FOUND_FROM = 6
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""What may be done to a group, as bits: read, delete, describe, and describe and alter its configs."""


@in_portions(Lists(("groups",), ("groups",)))
def handle(
    broker: "Broker", request: DescribeGroupsRequest, context: Context
) -> "DescribeGroupsResponse | Future[DescribeGroupsResponse]":
    groups = [_answer(broker, group_id, context.version) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
    return broker.groups.settled(
        request.groups,
        DescribeGroupsResponse(groups=groups),
        lambda error: DescribeGroupsResponse(groups=[DescribedGroup(error, group_id=name) for name in request.groups]),
    )


def _answer(broker: "Broker", group_id: str, version: int) -> DescribedGroup:
    shard = broker.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return DescribedGroup(shard, group_id=group_id)
    group = shard.machine.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _described(group)
    if version < NOT_FOUND_FROM:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    found = "Group {} not found." if group is None else "Group {} is not a classic group."
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, found.format(group_id), group_id, GroupState.DEAD.value)


def _described(group: ClassicGroup) -> DescribedGroup:
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ],
    )
