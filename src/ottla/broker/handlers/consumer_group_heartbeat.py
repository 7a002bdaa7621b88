"""ConsumerGroupHeartbeat, v0 and v1: join a group of the consumer protocol, stay in it, learn one's part, leave.

KIP-848, with its patterns of topics (v1); KIP-1082 (v1: members name themselves).
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.cluster import is_offered
from ottla.coordinator.groups.shard import Answer, GroupShard
from ottla.groups.decision import Caller
from ottla.groups.modern_heartbeat import refused
from ottla.net.dispatch import Context
from ottla.net.portions import at_most
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MOST_TOPICS = 5000
"""Names of one member, which are stored as one record; in Kafka that has a megabyte, room for some ten thousand."""
MOST_OWNED = 20_000
"""Topics and partitions that one member says it has."""


def _too_long(request: ConsumerGroupHeartbeatRequest, context: Context) -> Answer:
    return refused(
        ErrorCode.INVALID_REQUEST,
        f"A member subscribes to at most {MOST_TOPICS} topics by name, and owns at most {MOST_OWNED} partitions.",
    )


@at_most(MOST_TOPICS, "subscribed_topic_names", _too_long)
@at_most(MOST_OWNED, "topic_partitions", _too_long)
def handle(
    broker: "Broker", request: ConsumerGroupHeartbeatRequest, context: Context
) -> "Answer | Coroutine[None, None, Answer]":
    if not is_offered(broker.context):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id:
        return refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    shard = broker.groups.shard(request.group_id)
    if isinstance(shard, ErrorCode):
        return refused(shard)
    patterns = shard.machine.patterns(request.group_id)
    if patterns or request.subscribed_topic_regex:
        unmatched = broker.groups.topic_patterns.unknown({*patterns, request.subscribed_topic_regex or ""} - {""})
        if unmatched:
            return _after_matching(broker, request, context, unmatched)
    return _decide(shard, request, context)


async def _after_matching(
    broker: "Broker", request: ConsumerGroupHeartbeatRequest, context: Context, unmatched: list[str]
) -> Answer:
    """Compiling and matching take time, which is not the other clients'."""
    await broker.groups.topic_patterns.learn(unmatched, broker.search)
    shard = broker.groups.shard(request.group_id)
    return refused(shard) if isinstance(shard, ErrorCode) else _decide(shard, request, context)


def _decide(shard: GroupShard, request: ConsumerGroupHeartbeatRequest, context: Context) -> Answer:
    caller = Caller(None, context.client_id or "", f"/{context.peer}", context.version)
    decision = shard.machine.decide_consumer_heartbeat(request, caller, shard.now())
    return shard.carry_out(decision, refused)
