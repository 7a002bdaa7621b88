"""The network between embedded nodes: ports that stay theirs, and links that can be cut.

Owns: which nodes cannot hear each other. Never knows: what they say, clients (whom no cut concerns). Invariants: a cut
link is silent, not refused: questions wait for their deadline or for the healing; an answer that was on its way when
the link was cut does not arrive.
"""

import asyncio
import socket
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from ottla.client.links import NodeLinks
from ottla.wire.links import Link, LinkDown
from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)

HOST = "127.0.0.1"


class KeptPort:
    """A free port, held so that nobody else is given it while nobody listens."""

    def __init__(self) -> None:
        self.number = 0
        self._socket: socket.socket | None = None
        self.hold()

    def hold(self) -> None:
        holding = socket.socket()
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind((HOST, self.number))
        self.number = holding.getsockname()[1]
        self._socket = holding

    def release(self) -> None:
        """Let a listener have it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Network:
    """Who is where, and who hears whom. Changed by the test's thread, read by those of the nodes."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], int] = {}
        self._cut: frozenset[frozenset[int]] = frozenset()
        self.healed: Future[None] = Future()
        """Done when the network is made whole the next time."""

    def place(self, node_id: int, port: int) -> None:
        self._places[HOST, port] = node_id

    def part(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Nobody of the one side hears anybody of the other."""
        self._cut |= {frozenset((one, other)) for one in some for other in others}

    def heal(self) -> None:
        if self._cut:
            self._cut = frozenset()
            healed, self.healed = self.healed, Future()
            healed.set_result(None)

    def hear(self, one: int, other: int) -> bool:
        return frozenset((one, other)) not in self._cut

    def reaches(self, one: int, address: tuple[str, int]) -> bool:
        return self.hear(one, self._places[address])


class CuttableLinks:
    """Where one node takes its links from."""

    def __init__(self, node_id: int, network: Network) -> None:
        self._node_id = node_id
        self._network = network
        self._real = NodeLinks()

    def link(self, host: str, port: int) -> Link:
        return _CuttableLink(self._real.link(host, port), self._node_id, (host, port), self._network)


class _CuttableLink:
    def __init__(self, real: Link, node_id: int, address: tuple[str, int], network: Network) -> None:
        self._real = real
        self._node_id = node_id
        self._address = address
        self._network = network

    async def ask(self, request: Root, answer: type[R], seconds: float, *, highest: int = LATEST) -> R:
        deadline = asyncio.get_running_loop().time() + seconds
        if not self._network.reaches(self._node_id, self._address):
            await self._hear_nothing(deadline)
        found = await self._real.ask(request, answer, seconds, highest=highest)
        if not self._network.reaches(self._node_id, self._address):
            await self._hear_nothing(deadline)
        return found

    async def _hear_nothing(self, deadline: float) -> None:
        healed = asyncio.wrap_future(self._network.healed)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                # Shielded, because everybody who hears nothing waits for the same one.
                await asyncio.shield(healed)
        self._real.close()
        raise LinkDown(f"{self._address[0]}:{self._address[1]}: the network is cut")

    def close(self) -> None:
        self._real.close()
