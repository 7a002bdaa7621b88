"""Noticing that clients have gone while nothing is read from them.

Owns: an epoll of its own, which the loop watches like a socket. Never knows: requests, why a client is not read from.
Invariants: who is watched is told once at most; where the system has no epoll nobody is, and the limit on idle
connections serves instead.

A client whose requests wait, and are as many as it may have, is not read from, so the end of its stream is not seen:
what it left behind would stay until its time is up.
"""

import select
from asyncio import AbstractEventLoop
from collections.abc import Callable

AT_ONCE = 32
"""Clients whose hanging up is handled in one turn of the loop: letting go of one takes some 50 microseconds."""


# What waits for a client leaves with it: design/0004.
class Hangups:
    """One for all connections of a loop."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[int, Callable[[], None]] = {}
        # Made now: later there may be no descriptor left, and then of all times it is needed.
        real = not getattr(loop, "simulated_sockets", False)
        self._poll = select.epoll() if hasattr(select, "epoll") and real else None
        if self._poll is not None:
            loop.add_reader(self._poll.fileno(), self._look)

    def watch(self, descriptor: int, gone: Callable[[], None]) -> None:
        """Call `gone` when the peer of this socket has said that it sends no more, or is gone altogether."""
        if self._poll is not None and descriptor not in self._watched:
            try:
                self._poll.register(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
            except OSError:  # the kernel has no room to watch it
                return
            self._watched[descriptor] = gone

    def forget(self, descriptor: int) -> None:
        """No error where it is not watched; to be called before the socket is closed."""
        if self._watched.pop(descriptor, None) is not None and self._poll is not None:
            self._poll.unregister(descriptor)

    def _look(self) -> None:
        assert self._poll is not None, "the loop watches it"
        for descriptor, _ in self._poll.poll(0, AT_ONCE):
            gone = self._watched.get(descriptor)
            if gone is not None:
                gone()

    def close(self) -> None:
        if self._poll is not None:
            self._loop.remove_reader(self._poll.fileno())
            self._poll.close()
            self._poll = None
            self._watched.clear()
