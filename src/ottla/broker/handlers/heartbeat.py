"""Heartbeat, v0 to v4: a member of a classic group is alive. While its group is loaded, any member is believed.

KIP-345 (v3: static members).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.shard import Answer
from ottla.net.dispatch import Context
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: "Broker", request: HeartbeatRequest, context: Context) -> Answer:
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return _refused(ErrorCode.NONE if shard == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard)
    return shard.carry_out(shard.machine.decide_heartbeat(request, shard.now()), _refused)


def _refused(error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)
