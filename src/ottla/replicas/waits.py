"""How a broker waits: for something to happen (a waiting room), and for several things to be done (a countdown).

Owns: who waits under which keys, and until when; what of several things is still missing. Never knows: what is waited
for. Invariants: a wait leaves once, by completing, by its deadline or because nobody is there to hear of it, and
nothing of it stays behind; one that fails fails alone, and neither those who wait with it nor who woke it notice;
waking very many takes turns with other work.
"""

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from ottla.base.errors import ErrorCode

logger = logging.getLogger("ottla.broker")
K = TypeVar("K", bound=Hashable)

MOST_SECONDS = 300.0
"""However long a client would wait: it is answered then, and asks again."""
AT_ONCE = 50
"""Waits that are woken before other requests get their turn: each takes some twenty microseconds."""


class Wait(Protocol):
    """A request that waits."""

    def nudged(self, key: Hashable) -> bool:
        """Something happened under `key`: answer if it is enough, and say whether it was."""
        ...

    def expired(self) -> None:
        """The deadline came: answer with what there is."""
        ...

    def failed(self) -> None:
        """It could not be looked after, and has left: let the client know."""
        ...


class WaitingRoom:
    """Everything that waits in this broker."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._under: dict[Hashable, dict[Wait, None]] = {}
        self._parked: dict[Wait, tuple[tuple[Hashable, ...], TimerHandle]] = {}
        self._waking: dict[Hashable, bool] = {}
        """Keys whose waits are being woken a portion at a time, and whether something has happened since."""

    def __len__(self) -> int:
        return len(self._parked)

    def __contains__(self, wait: Wait) -> bool:
        return wait in self._parked

    def has(self, key: Hashable) -> bool:
        """Whether anybody waits under this key."""
        return key in self._under

    def park(self, wait: Wait, keys: Iterable[Hashable], seconds: float) -> None:
        """Let it wait under these keys, at most this many seconds."""
        under = self._under
        kept = tuple(keys)
        for key in kept:
            waits = under.get(key)
            if waits is None:
                waits = under[key] = {}
            waits[wait] = None
        self._parked[wait] = (kept, self._loop.call_later(min(seconds, MOST_SECONDS), self._expire, wait))

    def nudge(self, key: Hashable) -> None:
        """Something happened under this key."""
        waits = self._under.get(key)
        if waits is None:
            return
        if len(waits) <= AT_ONCE:
            self._wake(key, tuple(waits))
        elif key in self._waking:
            self._waking[key] = True
        else:
            self._waking[key] = False
            self._wake_some(key, tuple(waits), 0)

    def _wake(self, key: Hashable, waits: tuple[Wait, ...]) -> None:
        parked = self._parked
        for wait in waits:
            if wait in parked:
                try:
                    if wait.nudged(key):
                        self.leave(wait)
                except Exception:
                    self._fail(wait)

    def _wake_some(self, key: Hashable, waits: tuple[Wait, ...], start: int) -> None:
        self._wake(key, waits[start : start + AT_ONCE])
        if start + AT_ONCE < len(waits):
            self._loop.call_soon(self._wake_some, key, waits, start + AT_ONCE)
        elif self._waking.pop(key):
            self.nudge(key)

    def _fail(self, wait: Wait) -> None:
        logger.exception("a request that waited failed")
        self.leave(wait)
        wait.failed()

    def leave(self, wait: Wait) -> None:
        """Forget it, unanswered or not; no error when it has left."""
        parked = self._parked.pop(wait, None)
        if parked is None:
            return
        keys, timer = parked
        timer.cancel()
        for key in keys:
            waits = self._under.get(key)
            if waits is not None:
                waits.pop(wait, None)
                if not waits:
                    del self._under[key]

    def _expire(self, wait: Wait) -> None:
        if wait in self._parked:
            self.leave(wait)
            try:
                wait.expired()
            except Exception:
                self._fail(wait)


class Countdown(Generic[K]):
    """Several things that are under way, each known by a key; `done` hears, once, which of them failed, and why."""

    __slots__ = ("_abandon", "_done", "_errors", "_missing", "_timer")

    def __init__(self, keys: Iterable[K], done: Callable[[dict[K, ErrorCode]], None]) -> None:
        self._missing = set(keys)
        self._done = done
        self._errors: dict[K, ErrorCode] = {}
        self._timer: TimerHandle | None = None
        self._abandon: Callable[[K], None] | None = None

    def within(self, loop: AbstractEventLoop, seconds: float, abandon: Callable[[K], None]) -> None:
        """What is missing after this many seconds has failed; `abandon` is called with each such key."""
        self._abandon = abandon
        self._timer = loop.call_later(seconds, self._expired)

    def arrived(self, key: K, error: ErrorCode = ErrorCode.NONE) -> None:
        """One of them is done. What arrives a second time, or too late, changes nothing."""
        missing = self._missing
        if key not in missing:
            return
        if error:
            self._errors[key] = error
        missing.remove(key)
        if not missing:
            if self._timer is not None:
                self._timer.cancel()
            self._done(self._errors)

    def _expired(self) -> None:
        missing = tuple(self._missing)
        self.forget()
        self._errors.update(dict.fromkeys(missing, ErrorCode.REQUEST_TIMED_OUT))
        self._done(self._errors)

    def forget(self) -> None:
        """Nobody is there any more to hear of it."""
        if self._timer is not None:
            self._timer.cancel()
        missing, self._missing = self._missing, set()
        if self._abandon is not None:
            for key in missing:
                self._abandon(key)


def first_error(errors: Iterable[ErrorCode]) -> ErrorCode:
    """Of several things that were done, what the first to fail failed for."""
    return next(iter(errors), ErrorCode.NONE)
