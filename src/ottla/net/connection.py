"""One client's socket: frames in, replies out in the order of the requests.

Owns: the socket, its unfinished frame, its unsent replies. Never knows: what a frame asks.
Invariants: a frame is valid only while `receive` runs, which may write into it; replies leave in request order; a
client that does not read its replies, or asks for more than its share at once, is not read from until it does.

No task and no future per request: the loop calls `_readable`, stage one of each request runs at once, and whatever it
answered leaves in one system call when the bytes that arrived together are used up.
"""

import errno
import socket
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, Protocol

from ottla.log.segment import FileRange
from ottla.net.busy_poll import BusyPoll
from ottla.net.gather import PageCache, Part, RangeGone, SendProgress, transmit, warm
from ottla.net.hangups import Hangups
from ottla.net.intake import SHARED_SIZE, Buffer, Intake
from ottla.net.request_times import Watch
from ottla.net.turns import Turns

_SIZE = Struct(">i")
MOST_WAITING = 128
"""Requests of one connection that may wait for their reply; further ones stay in the socket."""
MOST_UNSENT = 256
"""Parts of replies that may wait for the client to read."""
MOST_UNSENT_BYTES = 1024 * 1024
"""Bytes of such parts after which no further request is taken."""
PIECE = 256 * 1024
"""Bytes of a large request that are read at a time: a tenth of a millisecond or two."""
LEAST_PIECE = 16 * 1024
"""Likewise, where others have used up the turn."""


class Service(Protocol):
    """What a connection needs from the broker behind it."""

    most_frame_bytes: int

    def receive(self, connection: "Connection", frame: memoryview) -> None:
        """Handle one request: `answer`, `defer`, or nothing when none is due. Never raises."""
        ...

    def closed(self, connection: "Connection", reason: str) -> None: ...

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `work` in an I/O thread, then `done` on the loop with what went wrong."""
        ...

    def unreadable(self, path: str, problem: BaseException) -> None:
        """Records that were to be sent cannot be read from their file."""
        ...


class Shared(NamedTuple):
    """What all connections of a loop share."""

    loop: AbstractEventLoop
    intake: Intake
    cache: PageCache
    busy_poll: BusyPoll
    hangups: Hangups
    turns: Turns
    now: Callable[[], float]
    """Finer than the loop's own time, which some loops count in milliseconds."""


class Deferred:
    """A reply that comes later, in its place among the replies of its connection."""

    __slots__ = ("_connection", "abandoned", "alone", "parts", "patience", "watch")

    def __init__(self, connection: "Connection", alone: bool = False) -> None:
        self._connection = connection
        self.alone = alone
        self.parts: list[Part] | None = None
        self.patience = 0.0
        """How many seconds the client asked to wait: by as much the answer may take longer without being slow."""
        self.watch: Watch | None = None
        """Who measures the request."""
        self.abandoned: Callable[[], object] | None = None
        """Called when the client has gone before its answer came: whoever waits for it need not wait any longer."""

    @property
    def wanted(self) -> bool:
        """Whether the client is there to hear of it."""
        return self._connection.open

    def only_waits(self) -> None:
        """What was worked on waits from now on: a client that went meanwhile is not told of a second time."""
        if self._connection._hung and self._connection.open:
            self._connection._hung_up()

    def share(self) -> None:
        """Take further requests while this one waits, unless others wait before it."""
        if self.alone and self._connection.waiting == 1:
            self.alone = False
            self._connection._intake.let_go(self._connection)  # what it kept of its request was read
            self._connection._shared_again()

    def fail(self, reason: str) -> None:
        """There will be no reply: the client notices by the end of its connection."""
        self._connection.drop(reason)

    def complete(self, parts: list[Part]) -> None:
        """Give the reply; `[]` means that no reply is due after all."""
        if self.parts is None:
            self.parts = parts
            if self.watch is not None:
                self.watch[0].finished(self, self._connection, self.watch)
            self._connection._advance(self)


class Connection:
    """One accepted socket."""

    __slots__ = (
        "_alone",
        "_busy_poll",
        "_cache",
        "_corked",
        "_filled",
        "_frame",
        "_frame_size",
        "_hangups",
        "_held",
        "_hung",
        "_intake",
        "_loop",
        "_now",
        "_out",
        "_over",
        "_reading",
        "_rest",
        "_service",
        "_socket",
        "_turns",
        "_waiting",
        "_writing",
        "active_at",
        "client_id",
        "deferred",
        "listener",
        "moved_at",
        "open",
        "peer",
        "started",
        "state",
    )

    def __init__(
        self,
        accepted: socket.socket,
        peer: str,
        listener: str,
        shared: Shared,
        service: Service,
    ) -> None:
        self._socket = accepted
        self.peer = peer
        self.listener = listener
        self._loop, self._intake, self._cache, self._busy_poll, self._hangups, self._turns, self._now = shared
        self._service = service
        self.open = True
        self.state: Any = None  # what the broker remembers of this client
        self.client_id: str | None = None
        """What the client calls itself, from its first request on."""
        self.active_at = self.started = self.moved_at = self._now()
        """When bytes last came, when the work on the next request of theirs could begin, and when bytes last left
        after a wait."""
        self.deferred: Deferred | None = None
        """The reply that the request being received was last promised, if any."""
        self._rest = bytearray()
        self._frame: Buffer | None = None
        self._held: Buffer | None = None
        self._frame_size = 0
        self._filled = 0
        self._out: deque[Any] = deque()
        self._waiting: deque[Deferred] = deque()
        self._alone = False
        self._corked = False
        self._hung = False
        """The client said, while nothing was read from it, that it sends no more."""
        self._over = False
        """Requests came that wait for the next turn: until then no more are read."""
        self._reading = True
        self._writing = False
        # Callbacks on a socket of our own, where others have a task a connection: design/0002.
        self._loop.add_reader(accepted.fileno(), self._readable)

    # --- replies ---

    def answer(self, parts: list[Part]) -> None:
        """Reply to the request being received."""
        if self._waiting:
            reply = Deferred(self)
            reply.parts = parts
            self._waiting.append(reply)
        elif self._corked:
            self._out.extend(parts)
        else:
            self._out.extend(parts)
            self._flush()

    def defer(self, alone: bool = False) -> Deferred:
        """A reply that comes later; `alone` takes no further request until it has come."""
        reply = self.deferred = Deferred(self, alone)
        self._alone = self._alone or alone
        self._waiting.append(reply)
        return reply

    def keep(self, frame: memoryview) -> memoryview:
        """The bytes of the request being received, to be used after `receive`: until its reply, which is alone,
        has come. A large one is not copied."""
        if self._held is None:
            return memoryview(bytearray(frame))
        buffer, self._held = self._held, None
        self._intake.keep(self, buffer, len(frame))
        return memoryview(buffer)[: len(frame)]

    @property
    def waiting(self) -> int:
        """Requests that have not been answered."""
        return len(self._waiting)

    @property
    def last_moved(self) -> float:
        """When bytes last came or left."""
        return max(self.active_at, self.moved_at)

    def _shared_again(self) -> None:
        self._alone = False
        if self.open and not self._corked:
            self._balance()

    def _advance(self, completed: Deferred) -> None:
        waiting = self._waiting
        if completed.alone:
            self._alone = False
            self._intake.let_go(self)
        if not self.open:
            waiting.clear()
            return
        while waiting and waiting[0].parts is not None:
            self._out.extend(waiting.popleft().parts or ())
        if not self._corked:
            self._flush()
            self._balance()

    def _flush(self, warmed: bool = False) -> None:
        if self._writing or not self._out or not self.open:
            return
        try:
            progress = transmit(self._socket, self._out, self._cache, warmed)
        except OSError as problem:
            self._unsendable(problem)
            return
        if progress is SendProgress.DONE:
            return
        self._writing = True
        if progress is SendProgress.FILE_COLD:
            part = self._out[0]
            self._service.in_thread(lambda: warm(part), lambda problem: self._warmed(part, problem))
        else:
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _unsendable(self, problem: OSError) -> None:
        part = self._out[0] if self._out else None
        if problem.errno == errno.EIO and type(part) is FileRange and not isinstance(problem, RangeGone):
            self._service.unreadable(part.file.path, problem)
        self.drop(problem.strerror or str(problem))

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        self._continue()

    def _warmed(self, part: FileRange, problem: BaseException | None) -> None:
        """The next window of a range was read, or could not be."""
        if problem is None:
            # It is sent without another look: where the kernel lets such pages go at once, looking would never end.
            self._continue(warmed=True)
            return
        if part.file.fileno() >= 0:  # else it was removed meanwhile, and nothing is wrong with the disk
            self._service.unreadable(part.file.path, problem)
        self.drop(f"its records cannot be read: {problem}")

    def _continue(self, warmed: bool = False) -> None:
        if not self.open:
            return
        self.moved_at = self._now()
        self._writing = False
        self._flush(warmed)
        self._balance()

    # --- requests ---

    def _balance(self) -> None:
        """Read from this client as long as it takes its answers."""
        crowded = self._crowded()
        if crowded and self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())
            if self._waiting:
                self._hangups.watch(self._socket.fileno(), self._hung_up)
        elif not crowded and not self._reading and self.open:
            self._reading = True
            self._hangups.forget(self._socket.fileno())
            self._loop.add_reader(self._socket.fileno(), self._readable)
            self._take_rest()

    def _next_turn(self) -> None:
        self._over = False
        self._take_rest()

    def _take_rest(self) -> None:
        """Go on with what was received and not yet handled."""
        if self._rest and self._reading and self.open:
            rest, self._rest = self._rest, bytearray()
            self.started = self._now()
            self._take(memoryview(rest))

    def _hung_up(self) -> None:
        """The client sends no more, and nothing is read from it. One that only waits for what may come is not there to
        hear of it; one whose request is being worked on may still want its answer."""
        self._hung = True
        if not self._out and all(reply.abandoned is not None for reply in self._waiting):
            self.drop("")

    def _crowded(self) -> bool:
        return (
            self._alone
            or len(self._waiting) >= MOST_WAITING
            or len(self._out) >= MOST_UNSENT
            or (self._writing and self._unsent_bytes() >= MOST_UNSENT_BYTES)
        )

    def _unsent_bytes(self) -> int:
        """What unsent replies hold in memory; ranges of files hold nothing."""
        return sum(len(part) for part in self._out if type(part) is not FileRange)

    def _readable(self) -> None:
        if self._over:
            return
        self.active_at = self.started = self._now()
        try:
            if self._frame is not None:
                self._fill()
                return
            shared = self._intake.shared
            held = len(self._rest)
            if held:
                shared[:held] = self._rest
                self._rest = bytearray()
            count = self._socket.recv_into(shared[held:])
        except BlockingIOError:
            return
        except OSError as problem:
            self.drop(problem.strerror or str(problem))
            return
        if count == 0:
            self.drop("")
            return
        self._take(shared[: held + count])
        self._busy_poll.arrived()

    def _take(self, data: memoryview) -> None:
        """Handle the frames in `data`; keep what is left over."""
        position = 0
        end = len(data)
        receive = self._service.receive
        most = self._service.most_frame_bytes
        begun = self.started
        until = begun + self._turns.left
        over = False
        self._corked = True
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 <= size <= most:
                self.drop(f"a request of {size} bytes (at most {most} are taken)")
                return
            after = position + 4 + size
            if after > end:
                break
            if len(self._out) >= MOST_UNSENT:
                self._flush()
            if self._crowded() or not self.open:
                break
            if self.started > until:
                over = True
                break
            receive(self, data[position + 4 : after])
            if not self.open:
                return
            position = after
        self._corked = False
        self._turns.used(self.started - begun)
        if over:
            self._over = True
            self._loop.call_soon(self._next_turn)
        if position < end and self.open:
            self._keep(data[position:])
        if self._out:
            self._flush()
        self._balance()

    def _keep(self, rest: memoryview) -> None:
        if len(rest) >= 4:
            (size,) = _SIZE.unpack_from(rest)
            if 4 + size > SHARED_SIZE // 2 and 4 + size > len(rest):
                self._frame = self._intake.take(size)
                self._frame_size = size
                self._filled = len(rest) - 4
                self._frame[: self._filled] = rest[4:]
                self._intake.hold(self, self._filled)
                return
        self._rest = bytearray(rest)

    def _fill(self) -> None:
        """Read on into a frame that is too large for the shared buffer, a portion before others get their turn."""
        frame = self._frame
        assert frame is not None
        begun = self.started
        left = self._turns.left
        piece = PIECE if left else LEAST_PIECE
        with memoryview(frame) as view:
            while True:
                try:
                    count = self._socket.recv_into(view[self._filled : min(self._frame_size, self._filled + piece)])
                except BlockingIOError:
                    self._turns.used(self._now() - begun)
                    return
                if count == 0:
                    self.drop("")
                    return
                self._filled += count
                if self._filled == self._frame_size:
                    break
                self._intake.hold(self, self._filled)
                if not self.open or self._now() - begun >= left:
                    self._turns.used(self._now() - begun)
                    return
            self._frame = None
            self._intake.release(self)
            self._corked = True
            self._held = frame
            with view[: self._frame_size] as whole:
                self._service.receive(self, whole)
            self._corked = False
        self._turns.used(self._now() - begun)
        if self._held is not None:  # it was not kept
            self._held = None
            self._intake.give_back(frame)
        if self._out:
            self._flush()
        self._balance()

    # --- the end ---

    def drop(self, reason: str) -> None:
        """Close at once; `reason` is empty when the client went by itself."""
        if not self.open:
            return
        self.open = False
        self._corked = False
        descriptor = self._socket.fileno()
        if self._reading:
            self._loop.remove_reader(descriptor)
        else:
            self._hangups.forget(descriptor)
        self._loop.remove_writer(descriptor)
        self._socket.close()
        self._intake.release(self)
        self._intake.let_go(self)
        if self._frame is not None:
            self._intake.give_back(self._frame)
            self._frame = None
        self._rest = bytearray()
        self._out.clear()
        waiting, self._waiting = self._waiting, deque()
        self._service.closed(self, reason)
        for reply in waiting:
            if reply.parts is None and reply.abandoned is not None:
                reply.abandoned()
