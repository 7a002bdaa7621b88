"""Links to other nodes over real sockets: the port of `wire.links` on this room's connections.

Owns: when a link's connection is opened and given up. Never knows: what is asked, when to try again.
Invariants: one connection at a time per link; a question that opens the connection and the question itself share one
deadline; whatever goes wrong on the way is a `LinkDown`.
"""

import asyncio
from typing import TypeVar

from ottla.client.address import Address
from ottla.client.connection import Connection, open_connection
from ottla.client.errors import ClientError, ConnectionFailed
from ottla.wire.links import LinkDown
from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)

CLIENT_ID = "ottla-node"
REFUSED = "connection refused"
IN_FLIGHT = 16


class NodeLink:
    """One link; see the port."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._opening: asyncio.Lock = asyncio.Lock()

    async def ask(self, request: Root, answer: type[R], seconds: float, *, highest: int = LATEST) -> R:
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            connection = self._connection
            if connection is None or connection.closed:
                connection = await self._open(deadline)
            return await connection.ask(request, answer, deadline, highest=highest)
        except ConnectionFailed as failure:
            raise LinkDown(str(failure), refused=failure.reason == REFUSED) from None
        except ClientError as failure:
            raise LinkDown(str(failure)) from None

    async def _open(self, deadline: float) -> Connection:
        async with self._opening:
            if self._connection is None or self._connection.closed:
                self._connection = await open_connection(
                    self._address, deadline, client_id=CLIENT_ID, in_flight=IN_FLIGHT
                )
            return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class NodeLinks:
    """Where a node takes its links from."""

    def link(self, host: str, port: int) -> NodeLink:
        return NodeLink(Address(host, port))
