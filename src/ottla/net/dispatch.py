"""From a frame to the handler of its API, and from the handler's answer to a frame.

Owns: the one place where requests are taken apart, counted and answered, and where failures become error codes or a
closed connection. Never knows: what an API does, whether a broker or a controller serves it. Invariants: every request
is answered or its connection closed; a bad one disturbs no other client; requests in progress are bounded; of all
long ones together a millisecond's work at most is done between other requests, and of very long ones one is in memory
as objects, which take many times the room of its bytes.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from struct import Struct
from struct import error as StructError
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ports import Clock
from ottla.log.files import StorageFailure
from ottla.net.connection import Connection, Deferred
from ottla.net.connections import Connections
from ottla.net.request_times import RequestMeter
from ottla.wire.answer_errors import errors_in, errors_in_portions
from ottla.wire.apis import API_VERSIONS, FETCH, JOIN_GROUP, SYNC_GROUP, Api, RequestHead, read_head, response_head
from ottla.wire.codec import MalformedMessage, decode, decode_in_steps, encode_in_steps, reader, stepper, write
from ottla.wire.primitives import MOST_ELEMENTS
from ottla.wire.release import released
from ottla.wire.schema import Root

Handler = Callable[[Any, Any, "Context"], Any]
"""Of whom it serves, a request and its context: the answer, or a future or coroutine of it; None closes the
connection."""

T = TypeVar("T")

logger = logging.getLogger("ottla.net")

_SIZE = Struct(">i")
_STEP_SECONDS = 0.0008
"""How long reading a long request, or writing a long answer, may hold the loop at a time; less than a millisecond,
which is what the clock of some loops counts in."""
_STEPS_BETWEEN_LOOKS = 16
"""Elements after which the clock is looked at: each takes a few microseconds."""
LONG_REQUEST = 16 * 1024
"""Requests of more bytes are read in steps: this many take about a millisecond."""
VERY_LONG_REQUEST = 256 * 1024
"""Requests of more bytes are read and worked on one after the other."""
MOST_STEPS = MOST_ELEMENTS
"""Elements of all arrays of a request together, each of which becomes an object."""
QUIET_SECONDS = 0.1
"""After this long without a request, there is time to prepare for those to come."""


class Context(NamedTuple):
    """What a handler knows of the request beside its body."""

    version: int
    client_id: str | None
    listener: str
    """The name of the listener it came in by; answers name addresses of the same listener."""
    peer: str
    connection: Connection | None = None
    """What it came by, where that outlives the request."""


class Host(Protocol):
    """Whom the handlers serve: a broker or a controller."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def connections(self) -> Connections: ...

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `work` in an I/O thread, then `done` on the loop with what went wrong."""
        ...


class RequestLimits(NamedTuple):
    """What requests may hold."""

    most_frame_bytes: int
    most_requests: int
    slow_seconds: float
    """A request that takes longer is logged."""


class _Work:
    """What a handler has to do; closed with its last reference, where nobody came to begin it."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine

    def __del__(self) -> None:
        self.coroutine.close()


class Dispatcher:
    """What connections hand their frames to. Handlers are found by `find` when they are first needed."""

    def __init__(
        self, host: Host, served: Mapping[int, Api], find: Callable[[Api], Handler], limits: RequestLimits
    ) -> None:
        self._host = host
        self._served = served
        self._find = find
        self.most_frame_bytes = limits.most_frame_bytes
        self._handlers: dict[int, tuple[Handler, type[Root]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._received = 0
        self._room = asyncio.Semaphore(limits.most_requests)
        self._line = asyncio.Lock()
        """Whose step it is among the long ones."""
        self._very_long = asyncio.Lock()
        self.meter = RequestMeter(host.clock.monotonic, host.loop, limits.slow_seconds)

    # --- net.Service ---

    def receive(self, connection: Connection, frame: memoryview) -> None:
        self._received += 1
        connection.deferred = None
        try:
            self._receive(connection, frame)
        except StructError:
            connection.drop("a request shorter than its header")
        except MalformedMessage as problem:
            connection.drop(f"a malformed request: {problem}")
        except Exception:
            logger.exception("a request of %s failed", connection.peer)
            connection.drop("an internal error")

    def closed(self, connection: Connection, reason: str) -> None:
        self._host.connections.closed(connection, reason)

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self._host.in_thread(work, done)

    def unreadable(self, path: str, problem: BaseException) -> None:
        logger.error("%s cannot be read: %s", path, problem)

    def _receive(self, connection: Connection, frame: memoryview) -> None:
        head = read_head(frame)
        connection.client_id = head.client_id
        api = self._served.get(head.key)
        if api is None:
            connection.drop(f"a request of the unknown API {head.key}")
            return
        if api.first <= head.version <= api.last:
            self._handle(connection, frame, head, api)
        elif head.key == API_VERSIONS:
            # A client from the future: it learns the versions in the oldest form and asks again.
            self._handle(connection, frame[:0], head._replace(version=-1), api)
        else:
            connection.drop(f"{api.name} in version {head.version}, which is not served")
            return
        self.meter.handled(connection, self.meter.times(api.name))

    def _handle(self, connection: Connection, frame: memoryview, head: RequestHead, api: Api) -> None:
        handler, kind = self._handler(api)
        context = Context(head.version, head.client_id, connection.listener, connection.peer, connection)
        if len(frame) > LONG_REQUEST:
            kept = connection.keep(frame)
            work = self._read_and_ask(kept, head, api, context)
            reply = self._start(connection, work, head, api, len(frame))
            reply.patience = math.inf if api.key in (JOIN_GROUP, SYNC_GROUP) else 0.0
            return
        if head.version < 0:
            request = kind()
        else:
            request, _ = decode(kind, head.version, frame, head.body)
        try:
            answer = handler(self._host, request, context)
        except Exception as problem:
            answer = failure(api, problem)
        # As in Kafka, a connection is not read from until it has such an answer: that bounds what it can hold.
        if asyncio.isfuture(answer):
            # It waits for others, such as the members of its group: no work in progress, no task.
            reply = connection.defer(alone=True)
            reply.patience = _patience(api.key, request)
            answer.add_done_callback(lambda done: self._complete(connection, reply, done, head, api))
            return
        if asyncio.iscoroutine(answer):
            self._start(connection, answer, head, api).patience = _patience(api.key, request)
            return
        if answer is None:
            connection.drop(f"{api.name} failed")
            return
        self._count_errors(answer, head, api)
        connection.answer([encoded(answer, head, api)])

    def _count_errors(self, answer: Root, head: RequestHead, api: Api) -> None:
        errors = errors_in(answer, max(head.version, 0))
        if errors:
            self.meter.refused(api.name, errors)

    def _counted_errors(self, answer: Root, head: RequestHead, api: Api) -> Generator[None, None, None]:
        for errors in errors_in_portions(answer, head.version):
            if errors:
                self.meter.refused(api.name, errors)
            yield

    def _start(
        self, connection: Connection, work: Coroutine[Any, Any, Any], head: RequestHead, api: Api, size: int = 0
    ) -> Deferred:
        """Begin on work that takes its time; of a long request, `size` bytes are held by it."""
        # No further request of this connection is read until it is answered: design/0004.
        reply = connection.defer(alone=True)
        room = self._very_long if size > VERY_LONG_REQUEST else nullcontext()
        task = self._host.loop.create_task(self._finish(connection, reply, _Work(work), head, api, room))
        if size:
            reply.abandoned = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return reply

    def take_time(self, reply: Deferred, size: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin on work that completes `reply` itself; of a long request, `size` bytes are held by it."""
        task = self._host.loop.create_task(self._take_time(reply, size, work))
        if size:
            reply.abandoned = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_time(self, reply: Deferred, size: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with self._room, self._very_long if size > VERY_LONG_REQUEST else nullcontext():
                reply.abandoned = None  # what was begun is ended
                await work()
        except MalformedMessage as problem:
            reply.fail(f"a malformed request: {problem}")
        except Exception:
            logger.exception("a long request failed")
            reply.fail("an internal error")

    async def turn(self) -> None:
        """Wait until some of a long request's work may be done: of all of them together one portion at a time."""
        async with self._line:
            await asyncio.sleep(0)

    async def in_steps(self, work: Generator[None, None, T], bounded: bool = False) -> T:
        """The value of work that takes its turns with that of other long requests."""
        return await in_steps(work, self._host.loop, self._line, MOST_STEPS if bounded else math.inf)

    async def _read_and_ask(self, frame: memoryview, head: RequestHead, api: Api, context: Context) -> Any:
        """What the handler of a long request answers; a future is left to the caller."""
        handler, kind = self._handler(api)
        work = decode_in_steps(kind, head.version, frame, head.body)
        remains: list[Any] = [await self.in_steps(work, bounded=True)]
        answer = handler(self._host, remains[0], context)
        if asyncio.iscoroutine(answer):
            answer = await answer
        await self.in_steps(released(remains))
        return answer

    def _complete(
        self, connection: Connection, reply: Deferred, done: "asyncio.Future[Root]", head: RequestHead, api: Api
    ) -> None:
        try:
            answer = done.result()
            self._count_errors(answer, head, api)
            reply.complete([encoded(answer, head, api)])
        except (Exception, asyncio.CancelledError):
            logger.exception("an answer to %s could not be given", api.name)
            connection.drop("an internal error")

    async def _finish(
        self,
        connection: Connection,
        reply: Deferred,
        work: "_Work",
        head: RequestHead,
        api: Api,
        room: AbstractAsyncContextManager[None],
    ) -> None:
        answer: Root | None
        try:
            async with self._room, room:
                reply.abandoned = None  # what was begun is ended
                answer = await work.coroutine
            if asyncio.isfuture(answer):
                # It waits for others, who need room to be heard.
                answer = await answer
        except MalformedMessage as problem:
            connection.drop(f"a malformed request: {problem}")
            return
        except Exception as problem:
            answer = failure(api, problem)
        if answer is None:
            connection.drop(f"{api.name} failed")
            return
        try:
            await self.in_steps(self._counted_errors(answer, head, api))
            parts = await self.in_steps(encode_in_steps(answer, head.version))
        except Exception:
            # Without this the client would wait for ever: nobody looks at the end of this task.
            logger.exception("an answer to %s could not be written", api.name)
            connection.drop("an internal error")
            return
        start = bytearray(4) + response_head(api, head.version, head.correlation_id)
        _SIZE.pack_into(start, 0, len(start) - 4 + sum(map(len, parts)))
        reply.complete([start, *parts])
        remains: list[Any] = [answer]
        del answer
        await self.in_steps(released(remains))

    async def warm_up(self) -> None:
        """Load every handler in quiet moments, so that the first request of a kind does not hold the others up."""
        waiting = list(self._served.values())
        while waiting:
            before = self._received
            await asyncio.sleep(QUIET_SECONDS)
            if self._received != before:
                continue
            api = waiting.pop()
            self._handler(api)
            for version in (api.last, max(api.first, api.flexible_from - 1)):
                api_codec(api, version)

    def _handler(self, api: Api) -> tuple[Handler, type[Root]]:
        known = self._handlers.get(api.key)
        if known is None:
            known = self._handlers[api.key] = (self._find(api), api.request_class())
        return known

    @property
    def in_progress(self) -> int:
        """Requests that are being worked on."""
        return len(self._tasks)

    async def drain(self, seconds: float) -> None:
        """Let requests in progress finish, but no longer than this."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in tuple(self._tasks):
            task.cancel()


def _patience(key: int, request: Any) -> float:
    """How many seconds a client asked to wait for others: for records, or for the members of its group."""
    if key == FETCH:
        return float(request.max_wait_ms) / 1000
    if key == JOIN_GROUP:
        return float(max(request.rebalance_timeout_ms, request.session_timeout_ms)) / 1000
    return math.inf if key == SYNC_GROUP else 0.0


def api_codec(api: Api, version: int) -> None:
    """Compile what reads and writes one version of an API."""
    flexible = version >= api.flexible_from
    reader(api.request_class(), version, flexible)
    stepper(api.response_class(), version, flexible)


def encoded(answer: Root, head: RequestHead, api: Api) -> bytearray:
    """An answer as a frame."""
    out = bytearray(4)
    version = max(head.version, 0)
    out += response_head(api, version, head.correlation_id)
    write(out, answer, version)
    _SIZE.pack_into(out, 0, len(out) - 4)
    return out


async def in_steps(
    work: Generator[None, None, T],
    loop: asyncio.AbstractEventLoop,
    line: asyncio.Lock | None = None,
    most: float = math.inf,
) -> T:
    """The value of work that is done so that other requests get their turn in between.

    Those that stand in the same line take turns among themselves too, however many they are, but for a first step each.
    Work of more steps than `most` is refused as MalformedMessage.
    """
    portion = _Portion(work, loop, most)
    if portion.done():
        return portion.value
    while True:
        if line is None:
            await asyncio.sleep(0)
            done = portion.done()
        else:
            async with line:
                await asyncio.sleep(0)
                done = portion.done()
        if done:
            return portion.value


def in_the_end(work: Generator[None, None, T]) -> T:
    """The value of work that is little, done at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value


class _Portion(Generic[T]):
    """As much of some work as may be done at a time."""

    def __init__(self, work: Generator[None, None, T], loop: asyncio.AbstractEventLoop, most: float) -> None:
        self._work = work
        self._loop = loop
        self._left = most
        self.value: T

    def done(self) -> bool:
        """Do one portion; says whether it was the last, which leaves the value."""
        until = self._loop.time() + _STEP_SECONDS
        try:
            while True:
                for _ in range(_STEPS_BETWEEN_LOOKS):
                    next(self._work)
                self._left -= _STEPS_BETWEEN_LOOKS
                if self._left < 0:
                    raise MalformedMessage("a request of too many elements")
                if self._loop.time() > until:
                    return False
        except StopIteration as end:
            self.value = end.value
            return True


def failure(api: Api, problem: Exception) -> Root | None:
    """What to answer when a handler failed: the response's own error code where it has one, else nothing."""
    if isinstance(problem, StorageFailure):
        logger.error("%s: %s", api.name, problem)
        error = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        logger.error("%s failed", api.name, exc_info=problem)
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    kind = api.response_class()
    if "error_code" not in kind.__slots__:
        return None
    answer = kind()
    answer.error_code = int(error)  # type: ignore[attr-defined]
    return answer
