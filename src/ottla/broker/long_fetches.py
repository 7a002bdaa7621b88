"""Fetches of very many partitions: read, planned and answered in steps between other requests.

Owns: when such a request is read and when its answer is written. Never knows: what is found in a partition
(`handlers/fetch.py` does). Invariant: each is answered, or its connection ends.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeAlias

from ottla.net.connection import Connection, Deferred
from ottla.net.gather import Part
from ottla.replicas.fetch_sessions import Plan
from ottla.wire.apis import HotHead
from ottla.wire.fetch import FIRST_TOPIC_ID, FetchRequest, read_in_steps

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Look: TypeAlias = Callable[[FetchRequest, Plan, Deferred], None]


def begin(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead, look: Look) -> None:
    """Read and plan a request, then call `look` to carry it out; nothing else is taken from the connection
    meanwhile."""
    version, _, position = head
    dispatcher = broker.dispatcher
    kept = connection.keep(frame)
    place = connection.defer(alone=True)

    async def carry_out() -> None:
        request = await dispatcher.in_steps(read_in_steps(kept, position, version), bounded=True)
        place.patience = request.max_wait_ms / 1000
        plan = await dispatcher.in_steps(broker.fetch_sessions.plan_in_steps(request, version >= FIRST_TOPIC_ID))
        if connection.open:
            look(request, plan, place)

    dispatcher.take_time(place, len(frame), carry_out)


def answer(broker: "Broker", place: Deferred, parts: Generator[None, None, list[Part]]) -> None:
    """Write a long answer and complete its place."""

    async def write() -> None:
        place.complete(await broker.dispatcher.in_steps(parts))

    broker.dispatcher.take_time(place, 0, write)
