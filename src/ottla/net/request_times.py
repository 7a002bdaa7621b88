"""How many requests of each API were answered, how long they took, what went wrong in them, and the log line of one
that took too long.

Owns: counts and histograms by API, errors by API and code; which request counts as slow. Never knows: what an API does,
where the numbers go.
Invariants: a request costs a look at the clock, a search among the bounds and two additions, and no object stays
behind; a slow request is logged once, and a flood of them does not become a flood of lines.

The time of a request begins when its bytes were read from the socket and ends when its answer is handed to it. The
queue is what lies between the reading and the begin of the work: other requests that came in the same reading, or
before it on the same connection.
"""

import logging
from asyncio import AbstractEventLoop
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.net.connection import Connection, Deferred

logger = logging.getLogger("ottla.net")

BOUNDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
"""The upper bounds of the histograms, in seconds; what is above the last is counted by itself."""
LINES = 10
"""Slow requests that are logged one by one within `LINES_SECONDS`; the others are counted."""
LINES_SECONDS = 1.0

Watch = tuple["RequestMeter", "Times", float, float, float]
"""Of a request whose answer comes later: when it arrived, when the work on it began, and when that was done."""


# Counted on the way, in plain numbers: design/0019.
class Times:
    """The requests of one API, or whatever else is counted by how long it took."""

    __slots__ = ("name", "queued", "queued_seconds", "seconds", "total")

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = [0] * (len(BOUNDS) + 1)
        """How many took how long, by the places of the bounds."""
        self.seconds = 0.0
        self.queued = [0] * (len(BOUNDS) + 1)
        """Likewise of those that waited in the queue at all: most do not, and cost nothing here."""
        self.queued_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one more request, which took this long."""
        self.total[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def answered(self) -> int:
        return sum(self.total)

    @property
    def queue(self) -> list[int]:
        """How many waited how long in the queue, those that did not wait among them."""
        counts = list(self.queued)
        counts[0] += self.answered - sum(counts)
        return counts


class RequestMeter:
    """What a dispatcher tells of every request it has handled."""

    def __init__(self, now: Callable[[], float], loop: AbstractEventLoop, slow_seconds: float) -> None:
        self._now = now
        self._loop = loop
        self.slow_seconds = slow_seconds
        """Changeable at any time."""
        self.by_name: dict[str, Times] = {}
        self.errors: dict[tuple[str, int], int] = {}
        """How often an error was answered, by the name of the API and the error's code."""
        self._told = 0
        self._untold = 0

    def times(self, name: str) -> Times:
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Times(name)
        return found

    def refused(self, name: str, errors: Iterable[int]) -> None:
        """An answer tells of these errors: one each for whatever of the request was refused."""
        counts = self.errors
        for code, count in Counter(errors).items():
            counts[name, code] = counts.get((name, code), 0) + count

    def handled(self, connection: "Connection", times: Times) -> None:
        """The work on a request is done: its answer is given, or comes later."""
        now = self._now()
        arrived = connection.active_at
        started = connection.started
        connection.started = now
        reply = connection.deferred
        if reply is not None and reply.parts is None:
            reply.watch = (self, times, arrived, started, now)
            return
        total = now - arrived
        # As `add` does; every call counts here.
        times.total[bisect_left(BOUNDS, total)] += 1
        times.seconds += total
        if started > arrived:
            queued = started - arrived
            times.queued[bisect_left(BOUNDS, queued)] += 1
            times.queued_seconds += queued
        if total > self.slow_seconds:
            self._slow(connection, times, (arrived, started, now), now)

    def finished(self, reply: "Deferred", connection: "Connection", watch: Watch) -> None:
        """The answer to a request that waited is there."""
        _, times, arrived, started, worked = watch
        now = connection.moved_at = self._now()
        total = now - arrived
        times.add(total)
        if started > arrived:
            times.queued[bisect_left(BOUNDS, started - arrived)] += 1
            times.queued_seconds += started - arrived
        if total - reply.patience > self.slow_seconds:
            self._slow(connection, times, (arrived, started, worked), now)

    # --- slow ones ---

    def _slow(self, connection: "Connection", times: Times, at: tuple[float, float, float], now: float) -> None:
        if self._told == 0:
            self._loop.call_later(LINES_SECONDS, self._tell_rest)
        self._told += 1
        if self._told > LINES:
            self._untold += 1
            return
        arrived, started, worked = at
        logger.warning(
            "slow request: %s of client %s at %s took %.0f ms (%.0f in the queue, %.0f at work, %.0f waiting)",
            times.name,
            connection.client_id or "without a name",
            connection.peer,
            (now - arrived) * 1000,
            (started - arrived) * 1000,
            (worked - started) * 1000,
            (now - worked) * 1000,
        )

    def _tell_rest(self) -> None:
        untold, self._told, self._untold = self._untold, 0, 0
        if untold:
            logger.warning("slow requests: %d more within a second", untold)
