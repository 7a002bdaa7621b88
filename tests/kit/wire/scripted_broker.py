"""A broker for the client's tests that answers exactly what a test tells it to, over a real loopback socket.

It speaks the protocol with ottla's own codec, keeps every request it got, and knows nothing by itself but ApiVersions.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.address import Address
from ottla.wire.codec import decode, write
from ottla.wire.messages import APIS
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from ottla.wire.messages.header import RequestHeader, ResponseHeader
from ottla.wire.schema import Root

R = TypeVar("R", bound=Root)

SECONDS = 60.0
SILENCE = None
"""As an answer: none, the connection stays open."""
Answer = Callable[[Any], Root | bytes | None]
"""A message, bytes to send as they are (a whole frame), or SILENCE."""


def request_class(key: int) -> type[Root]:
    name, module = next((name, module) for number, name, module, *_ in APIS if number == key)
    found: type[Root] = getattr(import_module(f"ottla.wire.messages.{module}"), f"{name}Request")
    return found


class ScriptedBroker:
    """Use it as an async context manager; `answers` may be changed while it runs."""

    def __init__(
        self,
        answers: Mapping[Any, Answer] | None = None,
        versions: Mapping[int, tuple[int, int]] | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self.answers: dict[type[Root], Answer] = dict(answers or {})
        self.requests: list[Root] = []
        self.client_ids: set[str | None] = set()
        self.connections = 0
        self._versions = versions or {key: request_class(key).VERSIONS for key, *_ in APIS}
        self._features = [FinalizedFeatureKey(name, level, level) for name, level in (features or {}).items()]
        self._arrived = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> Address:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    def received(self, kind: type[R]) -> list[R]:
        return [request for request in self.requests if isinstance(request, kind)]

    async def got(self, kind: type[Root], count: int = 1) -> None:
        """Return when so many requests of a kind have come."""
        async with asyncio.timeout(SECONDS):
            while len(self.received(kind)) < count:
                self._arrived.clear()
                await self._arrived.wait()

    def hang_up(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = self._answer(await reader.readexactly(size))
                if answer:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, frame: bytes) -> bytes | None:
        key, version = struct.unpack_from(">hh", frame)
        kind = request_class(key)
        header, position = decode(RequestHeader, 2 if version >= kind.FLEXIBLE_FROM else 1, frame)
        self.client_ids.add(header.client_id)
        lowest, newest = self._versions.get(key, (0, -1))
        if not lowest <= version <= newest:
            assert kind is ApiVersionsRequest, f"{kind.__name__} {version} was never offered"
            return _framed(header.correlation_id, ApiVersionsResponse(35, self._offered()), 0, flexible=False)
        request, _ = decode(kind, version, frame, position)
        self.requests.append(request)
        self._arrived.set()
        if kind is ApiVersionsRequest and kind not in self.answers:
            offer = ApiVersionsResponse(0, self._offered(), finalized_features=self._features)
            return _framed(header.correlation_id, offer, version, flexible=False)
        answer = self.answers[kind](request)
        if answer is SILENCE or isinstance(answer, bytes):
            return answer
        return _framed(header.correlation_id, answer, version, flexible=version >= kind.FLEXIBLE_FROM)

    def _offered(self) -> list[ApiVersion]:
        return [ApiVersion(key, lowest, newest) for key, (lowest, newest) in self._versions.items()]


def _framed(correlation: int, message: Root, version: int, *, flexible: bool) -> bytes:
    body = bytearray()
    write(body, ResponseHeader(correlation), 1 if flexible else 0)
    write(body, message, version)
    return struct.pack(">i", len(body)) + bytes(body)
