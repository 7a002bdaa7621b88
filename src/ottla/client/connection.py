"""One connection to one broker.

Owns: the socket, correlation ids, the requests that wait for an answer, and which version of each request the broker
speaks. Never knows: which broker it is in the cluster, what an answer means, whether to try again.

Invariants: answers come in the order of the requests, anything else closes the connection; at most `in_flight`
requests wait at once; every request has a deadline, and one that passes it closes the connection, because the answers
behind it are stuck too. When the connection ends, everything that waits fails with the reason.
"""

import asyncio
import errno
import os
import re
from collections import deque
from collections.abc import Callable
from struct import pack_into
from typing import Any, NamedTuple, TypeVar, cast

from ottla import __version__
from ottla.base.errors import ErrorCode
from ottla.client.address import Address
from ottla.client.errors import (
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    ProtocolViolation,
    UnsupportedRequest,
)
from ottla.client.frames import FrameReader, FrameTooLarge
from ottla.wire.codec import MalformedMessage, decode, write
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.header import RequestHeader, ResponseHeader
from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)

LARGEST_ANSWER = 256 * 1024 * 1024
"""Above every fetch a broker answers, and below what the first bytes of a TLS or HTTP listener look like."""
_PLAIN_HEADER, _FLEXIBLE_HEADER = 1, 2
_LARGEST_CORRELATION = 0x7FFFFFFF
_ALL_REFUSED = re.compile(rf"Multiple exceptions: (\[Errno {errno.ECONNREFUSED}\] [^\[]*)+")
_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class _Waiting(NamedTuple):
    """A request on its way."""

    correlation: int
    answer: type[Root]
    version: int
    future: "asyncio.Future[Any]"
    timer: asyncio.TimerHandle
    placed: bool
    """Whether it takes one of the places that `ask` waits for."""


class Connection(asyncio.BufferedProtocol):
    """Made by `open_connection`; `ask` and `tell` until `close` or until the broker goes away."""

    def __init__(self, address: Address, client_id: str, in_flight: int) -> None:
        self.address = address
        self._client_id = client_id
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(LARGEST_ANSWER)
        self._waiting: deque[_Waiting] = deque()
        self._places = asyncio.Semaphore(in_flight)
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None
        self._correlation = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """The levels that the cluster has settled on, by name."""
        self._failure: ClientError | None = None

    @property
    def closed(self) -> bool:
        return self._failure is not None

    def version_for(self, request: type[Root], highest: int = LATEST) -> int:
        """The newest version both sides speak, at most `highest`; UnsupportedRequest when there is none."""
        lowest, newest = request.VERSIONS
        offered = self._versions.get(request.KEY)
        name = request.__name__.removesuffix("Request")
        if offered is None:
            raise UnsupportedRequest(str(self.address), name, "it does not know the request")
        version = min(newest, offered[1], highest)
        if version < max(lowest, offered[0]):
            speaks = f"it speaks versions {offered[0]} to {offered[1]}, needed is one of {lowest} to {newest}"
            raise UnsupportedRequest(str(self.address), name, speaks)
        return version

    async def ask(self, request: Root, answer: type[R], deadline: float, *, highest: int = LATEST) -> R:
        """Send a request and wait for its answer, both before `deadline` (in the event loop's time)."""
        version = self.version_for(type(request), highest)
        return await self._exchange(request, version, answer, deadline)

    def post(self, request: Root, answer: type[R], deadline: float, *, highest: int = LATEST) -> "asyncio.Future[R]":
        """Send a request at once, whatever else waits: who posts bounds by itself how many are on their way."""
        version = self.version_for(type(request), highest)
        self._check_alive()
        return self._begin(request, version, answer, deadline, placed=False)

    async def tell(self, request: Root, deadline: float, *, highest: int = LATEST) -> None:
        """Send a request that a broker does not answer (Produce with acks=0)."""
        version = self.version_for(type(request), highest)
        await self._wait_for(self._writable.wait, deadline, request)
        self._check_alive()
        self._write(request, version, self._next_correlation())

    def close(self) -> None:
        """End the connection; what waits fails. Does nothing the second time."""
        self._fail(ConnectionLost(str(self.address), "the connection was closed"))

    # --- sending ------------------------------------------------------------------------------------------------------

    async def _exchange(self, request: Root, version: int, answer: type[R], deadline: float) -> R:
        if self._places.locked():
            await self._wait_for(self._places.acquire, deadline, request)
        else:
            await self._places.acquire()  # returns at once, which needs no deadline
        try:
            if not self._writable.is_set():
                await self._wait_for(self._writable.wait, deadline, request)
            self._check_alive()
        except BaseException:
            self._places.release()
            raise
        return await self._begin(request, version, answer, deadline, placed=True)

    def _begin(
        self, request: Root, version: int, answer: type[R], deadline: float, *, placed: bool
    ) -> "asyncio.Future[R]":
        correlation = self._next_correlation()
        try:
            self._write(request, version, correlation)
        except BaseException:  # what cannot be written has no answer to wait for
            if placed:
                self._places.release()
            raise
        future: asyncio.Future[R] = self._loop.create_future()
        timer = self._loop.call_at(deadline, self._overdue, future, type(request).__name__)
        self._waiting.append(_Waiting(correlation, answer, version, future, timer, placed))
        return future

    async def _wait_for(self, step: Callable[[], Any], deadline: float, request: Root) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await step()
        except TimeoutError:
            what = f"{self.address} takes no further {type(request).__name__.removesuffix('Request')} request"
            raise DeadlineExceeded(what) from None

    def _write(self, request: Root, version: int, correlation: int) -> None:
        assert self._transport is not None
        flexible = version >= request.FLEXIBLE_FROM
        header = RequestHeader(request.KEY, version, correlation, self._client_id)
        frame = bytearray(4)
        write(frame, header, _FLEXIBLE_HEADER if flexible else _PLAIN_HEADER)
        write(frame, request, version)
        pack_into(">i", frame, 0, len(frame) - 4)
        self._transport.write(frame)

    def _next_correlation(self) -> int:
        self._correlation = self._correlation + 1 if self._correlation < _LARGEST_CORRELATION else 0
        return self._correlation

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)

    def _overdue(self, future: "asyncio.Future[Any]", name: str) -> None:
        if future.done():
            return
        what = f"{self.address} did not answer {name.removesuffix('Request')}"
        future.set_exception(DeadlineExceeded(what))
        self._fail(ConnectionLost(str(self.address), "an earlier request on the connection was not answered in time"))

    # --- receiving ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._take(frame)
        except FrameTooLarge as problem:
            self._fail(ProtocolViolation(str(self.address), f"{problem}; is this a Kafka listener?"))
        except MalformedMessage as problem:
            self._fail(ProtocolViolation(str(self.address), f"an answer cannot be read: {problem}"))

    def _take(self, frame: memoryview) -> None:
        if not self._waiting:
            raise MalformedMessage("a frame that answers no request")
        waiting = self._waiting.popleft()
        waiting.timer.cancel()
        try:
            message = _read_answer(waiting, frame)
        except MalformedMessage:
            self._waiting.appendleft(waiting)  # so that it fails with the others
            raise
        if waiting.placed:
            self._places.release()
        if not waiting.future.done():  # else the caller gave up
            waiting.future.set_result(message)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        reason = "the broker closed the connection" if exc is None else f"the connection broke: {exc}"
        self._fail(ConnectionLost(str(self.address), reason))

    def _fail(self, failure: ClientError) -> None:
        if self._failure is None:
            self._failure = failure
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.timer.cancel()
            if waiting.placed:
                self._places.release()
            if not waiting.future.done():
                waiting.future.set_exception(type(failure)(*failure.args))
        self._writable.set()

    # --- versions -----------------------------------------------------------------------------------------------------

    async def negotiate(self, deadline: float) -> None:
        """Learn what the broker speaks. An older broker names its own version of the question: ask again in that."""
        newest = ApiVersionsRequest.VERSIONS[1]
        answer = await self._ask_versions(newest, deadline)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = [entry.max_version for entry in answer.api_keys if entry.api_key == ApiVersionsRequest.KEY]
            answer = await self._ask_versions(min(newest, *offered) if offered else 0, deadline)
        if answer.error_code != ErrorCode.NONE:
            raise ProtocolViolation(str(self.address), f"ApiVersions was answered with error {answer.error_code}")
        self._versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        self.features = {entry.name: entry.max_version_level for entry in answer.finalized_features}

    async def _ask_versions(self, version: int, deadline: float) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        return await self._exchange(request, version, ApiVersionsResponse, deadline)


def _read_answer(waiting: _Waiting, frame: memoryview) -> Root:
    """Header and body. The answer to ApiVersions has the old header, and an old body when it refuses the version."""
    version = waiting.version
    versions_asked = waiting.answer is ApiVersionsResponse
    flexible = version >= waiting.answer.FLEXIBLE_FROM and not versions_asked
    header, position = decode(ResponseHeader, 1 if flexible else 0, frame)
    if header.correlation_id != waiting.correlation:
        raise MalformedMessage(f"answer {header.correlation_id} to request {waiting.correlation}")
    if versions_asked and frame[position : position + 2] == _UNSUPPORTED:
        version = 0
    return decode(waiting.answer, version, frame, position)[0]


async def open_connection(
    address: Address, deadline: float, *, client_id: str = "ottla", in_flight: int = 5
) -> Connection:
    """Connect and learn the broker's versions before `deadline`."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(deadline):
            _, connection = await loop.create_connection(
                lambda: Connection(address, client_id, in_flight), address.host, address.port
            )
    except TimeoutError:
        raise ConnectionFailed(str(address), "nothing answered in time") from None
    except OSError as problem:
        raise ConnectionFailed(str(address), _plain(problem)) from None
    try:
        await connection.negotiate(deadline)
    except BaseException:
        connection.close()
        raise
    return connection


def _plain(problem: OSError) -> str:
    """What the system says, without asyncio's wrapping and the address that the caller names anyway.

    asyncio words every failed connect alike, only its number tells which it was; and where a name has several
    addresses it lists them all: nobody listens there only if each of them says so.
    """
    text = str(problem)
    if isinstance(problem, ConnectionRefusedError) or _ALL_REFUSED.fullmatch(text):
        return "connection refused"
    if problem.strerror and "Connect call failed" not in problem.strerror:
        return problem.strerror
    return os.strerror(problem.errno) if problem.errno else text
