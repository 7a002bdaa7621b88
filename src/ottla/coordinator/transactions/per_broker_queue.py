"""What this broker has to say to other brokers about transactions, one request to each of them at a time.

Owns: a queue and a link per broker, and the task that empties it: whatever is added while a request is under way goes
together with the next one. Never knows: what is said, when to try again. Invariants: what was added is handed to `send`
once, or to `failed` once; a broker to which nothing is to be said has no task.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from ottla.wire.links import Link, LinkDown, Links

T = TypeVar("T")


class LinkContext(Protocol):
    """What the queues need of their broker."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def links(self) -> Links: ...

    def address_of(self, broker_id: int) -> tuple[str, int] | None: ...


class PerBrokerQueue(Generic[T]):
    """One queue and one link for each broker.

    `send` puts things on a link and deals with the answer; `failed` hears of those that got none.
    """

    def __init__(
        self,
        broker: LinkContext,
        send: Callable[[Link, list[T]], Awaitable[None]],
        failed: Callable[[list[T]], None],
        together: Callable[[list[T]], int] = len,
    ) -> None:
        self._broker = broker
        self._send = send
        self._failed = failed
        self._together = together
        """How many of those that wait may go in one request."""
        self._queues: dict[int, list[T]] = {}
        self._links: dict[int, tuple[tuple[str, int], Link]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def add(self, broker_id: int, thing: T) -> None:
        if self._stopped:
            self._failed([thing])
            return
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.append(thing)
            return
        self._queues[broker_id] = [thing]
        task = self._broker.loop.create_task(self._empty(broker_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _empty(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        things: list[T] = []
        try:
            while queue:
                count = self._together(queue)
                things = queue[:count]
                del queue[:count]
                try:
                    await self._send(self._link(broker_id), things)
                except LinkDown:
                    self._failed(things)
                things = []
        finally:
            del self._queues[broker_id]
            if things or queue:
                self._failed([*things, *queue])

    def _link(self, broker_id: int) -> Link:
        address = self._broker.address_of(broker_id)
        if address is None:
            raise LinkDown(f"broker {broker_id} has no address")
        known = self._links.get(broker_id)
        if known is not None:
            if known[0] == address:
                return known[1]
            known[1].close()
        link = self._broker.links.link(*address)
        self._links[broker_id] = address, link
        return link

    def gone(self, broker_id: int) -> None:
        """A broker is cut off, or stopped: what it was asked, it will not answer in time."""
        known = self._links.pop(broker_id, None)
        if known is not None:
            known[1].close()

    async def stop(self) -> None:
        """Nothing is said any more; what waits has failed."""
        self._stopped = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for _, link in self._links.values():
            link.close()
        self._links.clear()
