"""Accepting connections on an address.

Owns: the listening sockets. Never knows: requests, limits. Invariants: a host name is listened to on every address it
has here; a client that vanishes, or a time without descriptors, does not stop the listener: who comes then waits in the
system's backlog, the loop does not spin, and the log tells of it now and then.
"""

import errno
import logging
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import NamedTuple

Accepted = Callable[[socket.socket, str], None]
Room = Callable[[], str | None]
"""Why no connection can be taken now, in words; None when one can."""

logger = logging.getLogger("ottla.net")

MOST_AT_ONCE = 64
PAUSE_SECONDS = 0.5
QUIET_SECONDS = 60.0
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class SocketOptions(NamedTuple):
    """-1 leaves a buffer to the operating system, which sizes it by need."""

    send_buffer: int = -1
    receive_buffer: int = -1
    backlog: int = 50


class Listener:
    """One host and port. Port 0 takes a free one; `port` tells which."""

    def __init__(self, host: str, port: int, options: SocketOptions) -> None:
        self._sockets = _listening(host, port, options)
        self._loop: AbstractEventLoop | None = None
        self._told_at: float | None = None
        self.port: int = self._sockets[0].getsockname()[1]

    def start(self, loop: AbstractEventLoop, accepted: Accepted, room: Room = lambda: None) -> None:
        """From here on clients are taken; those that came before have waited in the backlog."""
        self._loop = loop
        for listening in self._sockets:
            loop.add_reader(listening.fileno(), self._readable, listening, accepted, room)

    def _readable(self, listening: socket.socket, accepted: Accepted, room: Room) -> None:
        for _ in range(MOST_AT_ONCE):
            refusal = room()
            if refusal is not None:
                self._pause(listening, accepted, room, refusal)
                return
            try:
                client, address = listening.accept()
            except OSError as problem:
                # None left, or it has gone again: the next readiness tries once more.
                if problem.errno in _NO_ROOM:
                    self._pause(listening, accepted, room, problem.strerror or str(problem))
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A peer whose machine went away without a word is noticed in the end, also where no idle limit is set.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            accepted(client, str(address[0]))

    def _pause(self, listening: socket.socket, accepted: Accepted, room: Room, why: str) -> None:
        """The client stays ready to be taken: without a pause the loop would do nothing but try."""
        assert self._loop is not None, "accepting means started"
        now = self._loop.time()
        if self._told_at is None or now - self._told_at >= QUIET_SECONDS:
            self._told_at = now
            logger.warning("takes no connections for a moment: %s", why)
        self._loop.remove_reader(listening.fileno())
        self._loop.call_later(PAUSE_SECONDS, self._resume, listening, accepted, room)

    def _resume(self, listening: socket.socket, accepted: Accepted, room: Room) -> None:
        if self._loop is not None and listening in self._sockets:
            self._loop.add_reader(listening.fileno(), self._readable, listening, accepted, room)

    def close(self) -> None:
        for listening in self._sockets:
            if self._loop is not None:
                self._loop.remove_reader(listening.fileno())
            listening.close()
        self._sockets = []


def _listening(host: str, port: int, options: SocketOptions) -> list[socket.socket]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    if not host:
        # One socket for both families where the system can.
        found = [entry for entry in found if entry[0] == socket.AF_INET6] or found
    opened: list[socket.socket] = []
    problem: OSError | None = None
    for family, kind, protocol, _, address in found:
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
            # Buffers are inherited by accepted sockets and must be set before the window is agreed.
            if options.send_buffer > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer)
            if options.receive_buffer > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer)
            chosen = opened[0].getsockname()[1] if opened else port
            listening.bind((address[0], chosen, *address[2:]))
            listening.listen(options.backlog)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            problem = error
            if error.errno == errno.EADDRNOTAVAIL:
                # A name may have addresses this machine lacks, such as ::1 without IPv6.
                continue
            break
        opened.append(listening)
    else:
        if opened:
            return opened
    for listening in opened:
        listening.close()
    assert problem is not None
    raise problem
