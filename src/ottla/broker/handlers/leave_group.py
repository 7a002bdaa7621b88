"""LeaveGroup, v0 to v5: members go. Up to v2 a request is of one member, whose error is that of the answer.

KIP-345 (v3: several members, static ones too), KIP-800 (v5: a reason).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.shard import Answer
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SEVERAL_FROM = 3


@in_portions(Lists(("members",), ("members",)))
def handle(broker: "Broker", request: LeaveGroupRequest, context: Context) -> Answer:
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return _refused(shard)
    if context.version < SEVERAL_FROM:
        request.members = [MemberIdentity(member_id=request.member_id)]
    decision = shard.machine.decide_leave(request, shard.now())
    if context.version < SEVERAL_FROM:
        assert isinstance(decision.reply, LeaveGroupResponse)
        decision.reply.error_code = decision.reply.members[0].error_code
    return shard.carry_out(decision, _refused)


def _refused(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)
