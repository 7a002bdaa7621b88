"""ConsumerGroupHeartbeat, v0 and v1: join a group of the consumer protocol, stay in it, learn one's part, leave."""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.group_cluster import is_offered
from ottla.broker.group_shard import Answer
from ottla.groups.decision import Caller
from ottla.groups.modern_heartbeat import refused
from ottla.net.dispatch import Context
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: "Broker", request: ConsumerGroupHeartbeatRequest, context: Context) -> Answer:
    if not is_offered(broker):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id:
        return refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return refused(shard)
    caller = Caller(None, context.client_id or "", f"/{context.peer}", context.version)
    decision = shard.machine.decide_consumer_heartbeat(request, caller, shard.now())
    return shard.carry_out(decision, refused)
