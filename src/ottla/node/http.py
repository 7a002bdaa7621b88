"""A very small HTTP server for questions about the node: `/metrics`, `/healthz`, `/readyz`.

Owns: the sockets of those who ask, and what they may cost. Never knows: what the answers say. Invariants: a connection
asks once and is closed; whoever sends too much or nothing, or does not take the answer, is dropped by a deadline; there
are never more than a few connections, so that nobody who asks can harm the broker.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, cast

logger = logging.getLogger("ottla.node")

MOST_CONNECTIONS = 32
MOST_REQUEST_BYTES = 8192
SECONDS = 30.0
"""How long a connection may last in all, the making of its answer included."""
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Reply(NamedTuple):
    """What is answered."""

    status: int
    body: str | bytes
    kind: str = "text/plain; charset=utf-8"


Answer = Callable[[], Awaitable[Reply]]


class HttpServer:
    """Answers GET and HEAD of a few paths. `start` binds; `stop` drops everybody."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers
        self._server: asyncio.Server | None = None
        self._asking: set[_Asking] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; answers the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Asking(self._answers, self._asking), host or None, port)
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        return len(self._asking)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for asking in tuple(self._asking):
            asking.drop()


class _Asking(asyncio.Protocol):
    """One connection."""

    def __init__(self, answers: Mapping[str, Answer], everybody: "set[_Asking]") -> None:
        self._answers = answers
        self._everybody = everybody
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # some loops have their own kind
        if len(self._everybody) >= MOST_CONNECTIONS:
            self.drop()
            return
        self._everybody.add(self)
        self._deadline = asyncio.get_running_loop().call_later(SECONDS, self.drop)

    def data_received(self, data: bytes) -> None:
        if self._task is not None:
            return  # what follows the question is not listened to
        self._received += data
        if b"\r\n\r\n" in self._received or b"\n\n" in self._received:
            self._task = asyncio.get_running_loop().create_task(self._reply(_question(self._received)))
        elif len(self._received) > MOST_REQUEST_BYTES:
            self._task = asyncio.get_running_loop().create_task(self._reply(431))

    def eof_received(self) -> bool:
        return self._task is not None  # an answer is on its way

    def connection_lost(self, exc: Exception | None) -> None:
        self._everybody.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _reply(self, question: "tuple[str, str] | int") -> None:
        head = False
        if isinstance(question, int):
            reply = Reply(question, "this cannot be understood\n")
        else:
            method, path = question
            head = method == "HEAD"
            answer = self._answers.get(path)
            if method not in ("GET", "HEAD"):
                reply = Reply(405, "only GET and HEAD are served here\n")
            elif answer is None:
                reply = Reply(404, f"there are {', '.join(self._answers)}\n")
            else:
                try:
                    reply = await answer()
                except Exception:
                    logger.exception("%s could not be answered", path)
                    reply = Reply(500, "this could not be answered; the log of the node says why\n")
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        lines = [
            f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}",
            f"Content-Type: {reply.kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(["Allow: GET, HEAD"] if reply.status == 405 else []),
        ]
        assert self._transport is not None
        self._transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head else body))
        # Closes when everything has left; a client that does not take it is dropped by the deadline.
        self._transport.close()


def _question(received: bytearray) -> "tuple[str, str] | int":
    """The method and the path, or the status of what is no question."""
    words = received.partition(b"\n")[0].split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return 400
    try:
        return words[0].decode("ascii"), words[1].decode("ascii").partition("?")[0]
    except UnicodeDecodeError:
        return 400
