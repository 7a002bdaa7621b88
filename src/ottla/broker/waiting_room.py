"""Where requests wait that cannot be answered yet: one mechanism for all of them.

Owns: who waits under which keys, and until when. Never knows: what they wait for. Invariant: a wait leaves once, by
completing or by its deadline, and nothing of it stays behind.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Hashable, Iterable
from typing import Protocol


class Wait(Protocol):
    """A request that waits."""

    def nudged(self, key: Hashable) -> bool:
        """Something happened under `key`: answer if it is enough, and say whether it was."""
        ...

    def expired(self) -> None:
        """The deadline came: answer with what there is."""
        ...


class WaitingRoom:
    """Everything that waits in this broker."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._under: dict[Hashable, dict[Wait, None]] = {}
        self._parked: dict[Wait, tuple[tuple[Hashable, ...], TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def has(self, key: Hashable) -> bool:
        """Whether anybody waits under this key."""
        return key in self._under

    def park(self, wait: Wait, keys: Iterable[Hashable], seconds: float) -> None:
        """Let it wait under these keys, at most so long."""
        under = self._under
        kept = tuple(keys)
        for key in kept:
            waits = under.get(key)
            if waits is None:
                waits = under[key] = {}
            waits[wait] = None
        self._parked[wait] = (kept, self._loop.call_later(seconds, self._expire, wait))

    def nudge(self, key: Hashable) -> None:
        """Something happened under this key."""
        waits = self._under.get(key)
        if waits is None:
            return
        for wait in tuple(waits):
            if wait in self._parked and wait.nudged(key):
                self.leave(wait)

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
            wait.expired()
