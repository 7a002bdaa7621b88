"""JoinGroup, v0 to v9: enter a classic group. The answer waits until the next generation is complete.

KIP-394 (v4: a member id first), KIP-345 (v5: static members), KIP-559 (v7: the protocol's type in the answer), KIP-800
(v8: a reason), KIP-814 (v9: a static leader may keep the assignment).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.shard import Answer
from ottla.groups.decision import Caller
from ottla.groups.rebalance import join_refused
from ottla.net.dispatch import Context
from ottla.net.portions import at_most
from ottla.wire.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MOST_PROTOCOLS = 100
"""Which each member of a group names and has to be compared with those of all others; clients have a few."""


@at_most(
    MOST_PROTOCOLS,
    "protocols",
    lambda request, context: join_refused(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, context.version),
)
def handle(broker: "Broker", request: JoinGroupRequest, context: Context) -> Answer:
    if not request.group_id:
        return join_refused(request.member_id, ErrorCode.INVALID_GROUP_ID, context.version)
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return join_refused(request.member_id, shard, context.version)
    if context.version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    reply = broker.loop.create_future()
    caller = Caller(reply, context.client_id or "", f"/{context.peer}", context.version)
    decision = shard.machine.decide_join(request, caller, shard.now())
    answer = shard.carry_out(decision, lambda error: join_refused(request.member_id, error, context.version))
    return reply if answer is None else answer
