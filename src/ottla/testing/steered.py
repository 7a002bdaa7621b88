"""Time that a test can move, and the event loop that lives in it.

Owns: how far a system's time is ahead of the real one, and what a node that was killed no longer runs. Never knows:
what the node does. Invariants: time never goes back; timers that become due run in their order; after `die` nothing of
the loop's node runs again, and its connections are closed without a word to their protocols.
"""

import asyncio
import selectors
import time
from asyncio.events import _set_running_loop
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVarTuple
from weakref import WeakSet

Args = TypeVarTuple("Args")


class SteeredTime:
    """The time of all nodes of a system: the machine's, and what was added to it. Also the `Clock` of its nodes."""

    def __init__(self) -> None:
        self.timers_ahead = 0.0
        """What `advance` has added for deadlines, in seconds."""
        self.calendar_ahead_ms = 0
        """What it has added to the wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.calendar_ahead_ms

    def monotonic(self) -> float:
        return time.monotonic() + self.timers_ahead


class Killed(SystemExit):
    """Leaves the loop at once: asyncio lets only the end of a process pass through its callbacks."""


class _Nobody(asyncio.Protocol):
    """Hears of the end of a connection in place of a dead node."""


class SteeredLoop(asyncio.SelectorEventLoop):
    """The event loop of one node."""

    virtual = True
    """Staying awake for the next request would take the interpreter away from the test."""

    def __init__(self, steered: SteeredTime) -> None:
        self.time = steered.monotonic  # type: ignore[method-assign]
        super().__init__(selectors.DefaultSelector())
        self.set_debug(False)  # whoever debugs a test's loop does not mean this one
        self._dead = False
        self._opened: WeakSet[asyncio.Transport] = WeakSet()

    def _make_socket_transport(self, *args: Any, **kwargs: Any) -> asyncio.Transport:
        """Every connection comes through here, also those that are not made yet when the node dies."""
        made: asyncio.Transport = super()._make_socket_transport(*args, **kwargs)  # type: ignore[misc]
        self._opened.add(made)
        return made

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        if self._dead:
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        if self._dead:
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon_threadsafe(callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._dead:
            super().call_exception_handler(context)

    def die(self) -> None:
        """From here on nothing is run; what was begun is let go of. The loop must not be running."""
        self._dead = True
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _set_running_loop(self)
            try:
                _let_go(task.get_coro())
            finally:
                _set_running_loop(None)
        for transport in tuple(self._opened):
            transport.set_protocol(_Nobody())
            transport.abort()
            # What would close the socket at the loop's next turn; there is none.
            if getattr(transport, "_sock", None) is not None:
                transport._call_connection_lost(None)  # type: ignore[attr-defined]


def _let_go(work: Any) -> None:
    """End a coroutine and those it was handed, which it may not have come to."""
    frame = getattr(work, "cr_frame", None)
    handed = [] if frame is None else [value for value in frame.f_locals.values() if asyncio.iscoroutine(value)]
    for each in (work, *handed):
        with suppress(Exception):  # a last wish of the dead
            each.close()
