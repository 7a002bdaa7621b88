"""Requests of this node to the others of the quorum.

Owns: the links, and a task for each request that is under way. Never knows: why something is asked, what follows from
an answer. Invariants: every request ends once, with an answer or without; nothing waits behind a fetch, which a leader
may hold.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from ottla.quorum.log import read_entries
from ottla.raft.effects import Send
from ottla.raft.messages import Answer, EndEpoch, Fetch, FetchSnapshot
from ottla.raft.translation import read_answer, write_request
from ottla.records.control import Endpoint
from ottla.records.header import CorruptBatch
from ottla.wire.links import Link, LinkDown, Links

logger = logging.getLogger("ottla.quorum")

OnAnswer: TypeAlias = Callable[[Send, Answer | None, bool], None]
"""Told of the end: the answer, or None and whether nobody listens there."""


class PeerRequests:
    """Those of one node."""

    def __init__(self, loop: asyncio.AbstractEventLoop, links: Links, snapshot_max_bytes: int) -> None:
        self._loop = loop
        self._links = links
        self._snapshot_max_bytes = snapshot_max_bytes
        self._open_links: dict[tuple[str, int, bool], Link] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._resignations: set[asyncio.Task[None]] = set()

    def send(self, send: Send, on_answer: OnAnswer) -> None:
        task = self._loop.create_task(self._ask(send, on_answer))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        if isinstance(send.request, EndEpoch):
            self._resignations.add(task)
            task.add_done_callback(self._resignations.discard)

    async def _ask(self, send: Send, on_answer: OnAnswer) -> None:
        request, kind = write_request(send.request, self._snapshot_max_bytes)
        refused = False
        answer: Answer | None = None
        try:
            link = self._link(send.address, isinstance(send.request, Fetch | FetchSnapshot))
            answer = read_answer(send.request, await link.ask(request, kind, send.timeout), read_entries)
        except LinkDown as down:
            refused = down.refused
        except (CorruptBatch, ValueError) as problem:
            logger.warning("an answer of node %d cannot be used: %s", send.node_id, problem)
        on_answer(send, answer, refused)

    def _link(self, address: Endpoint, fetching: bool) -> Link:
        key = address.host, address.port, fetching
        link = self._open_links.get(key)
        if link is None:
            link = self._open_links[key] = self._links.link(address.host, address.port)
        return link

    async def resignation_heard(self, seconds: float) -> None:
        """Wait until the others have heard that this node resigned, but not longer than this."""
        if self._resignations:
            await asyncio.wait(self._resignations, timeout=seconds)

    async def close(self) -> None:
        """What is under way has no end any more."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for link in self._open_links.values():
            link.close()
