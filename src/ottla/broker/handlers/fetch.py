"""Fetch, v4 to v18, of clients and of followers: sessions (KIP-227), long poll, byte limits, isolation level, the
nearest replica (KIP-392), diverging epochs (KIP-595), topic ids (KIP-516), watermarks of followers (KIP-1166).

Where records begin is looked up in memory; a look-up that would wait for the disk is made by a thread first. A fetch
that finds less than `min_bytes` waits under its partitions and is looked at again when one of them grows.
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.fetches import long_fetches
from ottla.broker.fetches.client_fetch import ClientFetch
from ottla.broker.fetches.fetch import AT_ONCE, NEWS_AT_ONCE, Fetch, encoded
from ottla.broker.fetches.follower_fetch import FollowerFetch
from ottla.net.connection import Connection, Deferred
from ottla.replicas.fetch_sessions import FetchPlan
from ottla.wire.apis import HotHead
from ottla.wire.fetch import FIRST_TOPIC_ID, FetchRequest, read_request
from ottla.wire.primitives import ManyPartitions

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead) -> bool:
    """Answers whether a follower asked."""
    version, _, position = head
    try:
        request = read_request(frame, position, version)
    except ManyPartitions:
        return _handle_long(broker, connection, frame, head)
    follower = request.replica_id >= 0
    plan = broker.fetch_sessions.plan(request, version >= FIRST_TOPIC_ID)
    if plan.error != ErrorCode.NONE:
        broker.dispatcher.meter.refused("Fetch", (plan.error,))
        connection.answer(encoded(head, plan.error, 0, []))
        return follower
    fetch: Fetch = (FollowerFetch if follower else ClientFetch)(broker, request, head, plan, connection.listener)
    if len(plan.wanted) > (AT_ONCE if plan.full else NEWS_AT_ONCE):
        fetch.reply = connection.defer(alone=True)
        fetch.reply.patience = request.max_wait_ms / 1000
        long_fetches.look(broker, fetch)
    elif fetch.read(0, len(plan.wanted)) or request.max_wait_ms <= 0 or fetch.cold:
        if fetch.cold:
            fetch.reply = connection.defer(alone=True)
            fetch.warm_up()
        else:
            connection.answer(fetch.answer())
    else:
        # Behind one that waits, the next could not be answered before it: no more of them are taken than that.
        fetch.reply = connection.defer(alone=connection.waiting > 0)
        fetch.reply.patience = request.max_wait_ms / 1000
        fetch.wait()
    return follower


def _handle_long(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead) -> bool:
    def planned(request: FetchRequest, plan: FetchPlan, reply: Deferred) -> Fetch | None:
        if plan.error != ErrorCode.NONE:
            broker.dispatcher.meter.refused("Fetch", (plan.error,))
            reply.complete(encoded(head, plan.error, 0, []))
            return None
        kind = FollowerFetch if request.replica_id >= 0 else ClientFetch
        fetch = kind(broker, request, head, plan, connection.listener)
        fetch.reply = reply
        return fetch

    long_fetches.begin(broker, connection, frame, head, planned)
    return False
