"""Fetches of very many partitions: read, planned and answered in steps between other requests.

Owns: when such a request is read and when its answer is written. Never knows: what is found in a partition
(`client_fetch` and `follower_fetch` do). Invariant: each is answered, or its connection ends.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ottla.net.connection import Connection, Deferred
from ottla.replicas.fetch_sessions import FetchPlan
from ottla.wire.apis import HotHead
from ottla.wire.fetch import FIRST_TOPIC_ID, FetchRequest, read_in_steps
from ottla.wire.release import released

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.fetches.fetch import Fetch

Planned: TypeAlias = "Callable[[FetchRequest, FetchPlan, Deferred], Fetch | None]"


def begin(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead, planned: Planned) -> None:
    """Read and plan a request, let `planned` make a fetch of it, and look into its partitions; nothing else is taken
    from the connection meanwhile."""
    version, _, position = head
    dispatcher = broker.dispatcher
    kept = connection.keep(frame)
    reply = connection.defer(alone=True)

    async def carry_out() -> None:
        request = await dispatcher.in_steps(read_in_steps(kept, position, version), bounded=True)
        reply.patience = request.max_wait_ms / 1000
        plan = await dispatcher.in_steps(broker.fetch_sessions.plan_in_steps(request, version >= FIRST_TOPIC_ID))
        if not connection.open:
            return
        fetch = planned(request, plan, reply)
        del request, plan
        if fetch is not None:
            fetch.looked(await dispatcher.in_steps(fetch.read_in_steps()))

    dispatcher.take_time(reply, len(frame), carry_out)


def look(broker: "Broker", fetch: "Fetch") -> None:
    """Look into the partitions of a fetch that was planned."""
    assert fetch.reply is not None

    async def work() -> None:
        fetch.looked(await broker.dispatcher.in_steps(fetch.read_in_steps()))

    broker.dispatcher.take_time(fetch.reply, 0, work)


def answer(broker: "Broker", fetch: "Fetch") -> None:
    """Write a long answer and complete its reply."""
    reply = fetch.reply
    assert reply is not None

    async def write() -> None:
        reply.complete(await broker.dispatcher.in_steps(fetch.answer_in_steps()))
        await broker.dispatcher.in_steps(released(fetch.remains()))

    broker.dispatcher.take_time(reply, 0, write)
