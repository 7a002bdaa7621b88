"""Accepting connections on an address.

Owns: the listening socket. Never knows: requests. Invariant: at most the allowed number of connections, in all and per
address; a connection over the limit is closed at once, and the listener goes on.
"""

import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import NamedTuple

Accepted = Callable[[socket.socket, str], None]


class SocketOptions(NamedTuple):
    """-1 leaves a buffer to the operating system, which sizes it by need."""

    send_buffer: int = -1
    receive_buffer: int = -1
    backlog: int = 50


class Listener:
    """One listening address."""

    def __init__(self, host: str, port: int, options: SocketOptions, loop: AbstractEventLoop) -> None:
        self._options = options
        self._loop = loop
        self._socket = _bound(host, port, options)
        self.port: int = self._socket.getsockname()[1]
        self._accepted: Accepted | None = None

    def start(self, accepted: Accepted) -> None:
        self._accepted = accepted
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def _readable(self) -> None:
        assert self._accepted is not None
        for _ in range(64):
            try:
                accepted, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors, or the client is already gone: the next readiness tries again.
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted(accepted, str(address[0]))

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()


def _bound(host: str, port: int, options: SocketOptions) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # One socket for both families where the system can: a broker on "all addresses" means all.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Buffers are inherited by accepted sockets and must be set before the window is agreed.
        if options.send_buffer > 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer)
        if options.receive_buffer > 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer)
        listening.bind(address)
        listening.listen(options.backlog)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
