"""A network in memory: streams of bytes between hosts, with delay, reset, stall and partitions.

Owns: connections, what is on its way, which paths are cut. Never knows: what the bytes mean. It stands below the real
`net.connection` (as the socket it reads and writes) and below the real `client.connection` (as its transport), so
these run unchanged. Invariants: bytes of one direction arrive in order or not at all; while a path is cut they wait,
as a sender's retransmissions do; nobody listening means refused, a machine without power means silence.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from ottla.base.ports import ByteView
from ottla.sim.loop import Scheduler, SimLoop

WINDOW = 256 * 1024
"""Bytes that may be under way or unread in one direction."""
SYN_AGAIN_SECONDS = 1.0
HIGH_WATER = 64 * 1024
_END, _RESET = b"", None

Accepted = Callable[["SimSocket", str], None]


class Weather:
    """How the network behaves; the faults change it while it runs."""

    def __init__(self) -> None:
        self.delay = (0.0001, 0.001)
        self.spike_chance = 0.0
        self.spike = (0.01, 0.5)
        self.reset_chance = 0.0
        self.fragment_chance = 0.05
        self.cut: set[tuple[str, str]] = set()
        """Pairs (from, to) between which nothing arrives."""

    def calm(self) -> None:
        self.spike_chance = self.reset_chance = 0.0
        self.cut.clear()


class _Listening(NamedTuple):
    loop: SimLoop
    accepted: Accepted


class SimSocket:
    """One end of a connection, as non-blocking sockets are."""

    def __init__(self, network: "Network", loop: SimLoop, number: int, peer_host: str) -> None:
        self._network = network
        self.loop = loop
        self.peer_host = peer_host
        self.number = number
        self.peer: SimSocket | None = None
        self.inbox = bytearray()
        self.ended = False
        self.broken = False
        self.open = True
        self.under_way = 0
        """What this end sent and the other has not read."""
        self.outgoing: deque[bytes | None] = deque()
        self.last_arrival = 0.0
        loop.descriptors[number] = self

    # --- what the loop watches ---

    def readable(self) -> bool:
        return self.open and (bool(self.inbox) or self.ended or self.broken)

    def writable(self) -> bool:
        return self.open and (self.under_way < WINDOW or self.broken)

    # --- what `net.connection` and `net.gather` call ---

    def fileno(self) -> int:
        return self.number

    def recv_into(self, buffer: memoryview) -> int:
        if self.broken:
            raise ConnectionResetError(104, "Connection reset by peer")
        if not self.inbox:
            if self.ended:
                return 0
            raise BlockingIOError
        size = min(len(self.inbox), len(buffer))
        buffer[:size] = self.inbox[:size]
        del self.inbox[:size]
        if self.peer is not None:
            self.peer.under_way -= size
            self.peer.loop.look(self.peer.number)
        return size

    def send(self, data: ByteView, flags: int = 0) -> int:
        if self.broken:
            raise ConnectionResetError(104, "Connection reset by peer")
        if not self.open:
            raise BrokenPipeError(32, "Broken pipe")
        room = WINDOW - self.under_way
        if room <= 0:
            raise BlockingIOError
        sent = bytes(data[:room])
        self.under_way += len(sent)
        self._network.carry(self, sent)
        return len(sent)

    def close(self) -> None:
        if self.open:
            self.open = False
            self.loop.descriptors.pop(self.number, None)
            self._network.carry(self, _END)

    # --- what arrives ---

    def arrive(self, what: bytes | None) -> None:
        if what is _RESET:
            self.broken = True
        elif what == _END:
            self.ended = True
        else:
            assert what is not None
            self.inbox += what
        self.loop.look(self.number)


class Network:
    """All hosts and what is between them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._random = scheduler.random
        self.weather = Weather()
        self._listening: dict[tuple[str, int], _Listening] = {}
        self._off: set[str] = set()
        self._sockets: dict[SimLoop, dict[int, SimSocket]] = {}
        self._numbers = count(100)
        self._held: list[SimSocket] = []

    # --- hosts ---

    def attach(self, loop: SimLoop) -> None:
        """The loop's name is its host."""
        self._off.discard(loop.name)
        self._sockets[loop] = {}
        loop.connector = self

    def listen(self, port: int, loop: SimLoop, accepted: Accepted) -> None:
        self._listening[loop.name, port] = _Listening(loop, accepted)

    def stop_listening(self, loop: SimLoop) -> None:
        for address in [address for address, listening in self._listening.items() if listening.loop is loop]:
            del self._listening[address]

    def kill(self, loop: SimLoop) -> None:
        """The process is gone; its machine closes its connections."""
        self.stop_listening(loop)
        for socket in self._sockets.pop(loop, {}).values():
            if socket.open:
                socket.open = False
                self.carry(socket, _RESET)

    def cut_power(self, loop: SimLoop) -> None:
        """The machine is gone, without a word to anybody."""
        self.stop_listening(loop)
        self._off.add(loop.name)
        for socket in self._sockets.pop(loop, {}).values():
            socket.open = False
            socket.outgoing.clear()

    # --- paths ---

    def cut(self, source: str, target: str) -> None:
        self.weather.cut.add((source, target))

    def mend(self, source: str, target: str) -> None:
        self.weather.cut.discard((source, target))
        self._resend()

    def calm(self) -> None:
        self.weather.calm()
        self._resend()

    def _resend(self) -> None:
        held, self._held = self._held, []
        for socket in held:
            # What waited long was often given up by one of the two systems.
            if self._random.random() < 0.2:
                self.reset(socket)
            else:
                for _ in range(len(socket.outgoing)):
                    self._schedule(socket)

    def reset(self, socket: SimSocket) -> None:
        """Both ends lose the connection."""
        for end in (socket, socket.peer):
            if end is not None and end.open:
                end.outgoing.clear()
                end.arrive(_RESET)

    def reset_some(self, chance: float) -> None:
        for sockets in list(self._sockets.values()):
            for socket in list(sockets.values()):
                if socket.open and self._random.random() < chance:
                    self.reset(socket)

    # --- bytes ---

    def carry(self, socket: SimSocket, what: bytes | None) -> None:
        weather = self.weather
        if weather.reset_chance and self._random.random() < weather.reset_chance:
            self.reset(socket)
            return
        if what and len(what) > 1 and self._random.random() < weather.fragment_chance:
            cut = self._random.randint(1, len(what) - 1)
            socket.outgoing.append(what[:cut])
            self._schedule(socket)
            what = what[cut:]
        socket.outgoing.append(what)
        self._schedule(socket)

    def _delay(self) -> float:
        weather = self.weather
        if weather.spike_chance and self._random.random() < weather.spike_chance:
            return self._random.uniform(*weather.spike)
        return self._random.uniform(*weather.delay)

    def _schedule(self, socket: SimSocket) -> None:
        socket.last_arrival = max(socket.last_arrival, self._scheduler.now + self._delay())
        self._scheduler.at(socket.last_arrival, lambda: self._deliver(socket))

    def _deliver(self, socket: SimSocket) -> None:
        """Everything whose time has come arrives; a later event for the same bytes finds nothing left."""
        peer = socket.peer
        if not socket.outgoing or peer is None:
            return
        source, target = socket.loop.name, peer.loop.name
        if (source, target) in self.weather.cut:
            if socket not in self._held:
                self._held.append(socket)
            return
        what = socket.outgoing.popleft()
        self._scheduler.trace.tick(f"{source}>{target} {len(what) if what else what}")
        if peer.open:
            peer.arrive(what)
        elif target not in self._off and what:
            # Nobody has this connection any more: its machine says so.
            self._scheduler.after(self._delay(), lambda: socket.arrive(_RESET))

    # --- connecting ---

    async def connect(
        self, loop: SimLoop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        made: asyncio.Future[SimSocket] = loop.create_future()
        self._scheduler.after(self._delay(), lambda: self._knock(loop, made, host, port))
        socket = await made
        protocol = factory()
        transport = SimTransport(loop, socket, protocol)
        return transport, protocol

    def _knock(self, loop: SimLoop, made: "asyncio.Future[SimSocket]", host: str, port: int) -> None:
        if made.done() or loop.dead:
            return
        source = loop.name
        cut = self.weather.cut
        if host in self._off or (source, host) in cut or (host, source) in cut:
            self._scheduler.after(SYN_AGAIN_SECONDS, lambda: self._knock(loop, made, host, port))
            return
        listening = self._listening.get((host, port))
        if listening is None:
            refused = ConnectionRefusedError(111, "Connection refused")
            self._scheduler.after(self._delay(), lambda: None if made.done() else made.set_exception(refused))
            return
        near, far = self._pair(loop, listening.loop)
        listening.loop.call_soon(listening.accepted, far, source)
        self._scheduler.after(self._delay(), lambda: self._made(made, near))

    def _made(self, made: "asyncio.Future[SimSocket]", near: SimSocket) -> None:
        if made.done() or near.loop.dead:
            near.close()
        else:
            made.set_result(near)

    def _pair(self, near_loop: SimLoop, far_loop: SimLoop) -> tuple[SimSocket, SimSocket]:
        near = SimSocket(self, near_loop, next(self._numbers), far_loop.name)
        far = SimSocket(self, far_loop, next(self._numbers), near_loop.name)
        near.peer, far.peer = far, near
        self._sockets[near_loop][near.number] = near
        self._sockets[far_loop][far.number] = far
        return near, far


class SimTransport(asyncio.Transport):
    """What a client's protocol writes to; the protocol takes bytes into buffers of its own."""

    def __init__(self, loop: SimLoop, socket: SimSocket, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self._loop = loop
        self._socket = socket
        self._protocol = protocol
        self._unsent = bytearray()
        self._closing = False
        self._full = False
        protocol.connection_made(self)
        loop.add_reader(socket.number, self._readable)

    def _readable(self) -> None:
        if self._closing:
            return
        try:
            count = self._socket.recv_into(memoryview(self._protocol.get_buffer(-1)))
        except OSError as problem:
            self._lose(problem)
            return
        if count:
            self._protocol.buffer_updated(count)
        else:
            self._protocol.eof_received()
            self._lose(None)

    def write(self, data: Any) -> None:
        if self._closing:
            return
        self._unsent += data
        self._send()
        if len(self._unsent) > HIGH_WATER and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def _send(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            self._loop.add_writer(self._socket.number, self._writable)
        except OSError as problem:
            self._lose(problem)

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket.number)
        self._send()
        if self._full and len(self._unsent) <= HIGH_WATER // 4:
            self._full = False
            self._protocol.resume_writing()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def _lose(self, problem: OSError | None) -> None:
        if self._closing:
            return
        self._closing = True
        self._loop.remove_reader(self._socket.number)
        self._loop.remove_writer(self._socket.number)
        self._socket.close()
        self._loop.call_soon(self._protocol.connection_lost, problem)
