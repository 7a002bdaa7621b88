"""SyncGroup, v0 to v5: get one's assignment; the leader brings everybody's. The answer waits for the leader.

KIP-345 (v3: static members), KIP-559 (v5: type and name of the protocol).
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.shard import Answer
from ottla.groups.decision import Caller
from ottla.net.dispatch import Context
from ottla.net.portions import A_LOOK, in_turns
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PROTOCOL_NAMED_FROM = 5


def handle(broker: "Broker", request: SyncGroupRequest, context: Context) -> "Answer | Coroutine[Any, Any, Answer]":
    if len(request.assignments) > A_LOOK:
        return _without_strangers(broker, request, context)
    return _decide(broker, request, context)


async def _without_strangers(broker: "Broker", request: SyncGroupRequest, context: Context) -> Answer:
    """Parts for nobody in the group count for nothing, and only they can be very many."""
    shard = broker.groups.shard(request.group_id)
    group = None if isinstance(shard, ErrorCode) else shard.machine.groups.get(request.group_id)
    members = group.members if group is not None else {}
    given: dict[str, SyncGroupRequestAssignment] = {}
    async for some in in_turns(broker, request.assignments):
        given.update((each.member_id, each) for each in some if each.member_id in members)
    request.assignments = list(given.values())
    return _decide(broker, request, context)


def _decide(broker: "Broker", request: SyncGroupRequest, context: Context) -> Answer:
    if context.version >= PROTOCOL_NAMED_FROM and (request.protocol_type is None or request.protocol_name is None):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return _refused(shard)
    reply = broker.loop.create_future()
    caller = Caller(reply, context.client_id or "", f"/{context.peer}", context.version)
    answer = shard.carry_out(shard.machine.decide_sync(request, caller, shard.now()), _refused)
    return reply if answer is None else answer


def _refused(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
