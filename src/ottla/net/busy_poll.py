"""Staying awake for a moment when requests follow each other closely.

Owns: when the loop looks for the next request without going to sleep. Never knows: requests, sockets.
Invariants: a quiet broker sleeps; between two looks every other ready callback has run and the processor was offered to
others; with a single processor it never happens, the client needs that one.

A client that waits for each answer before it asks again pays for waking the broker's thread with every message: a third
of the round trip.
"""

import os
from asyncio import AbstractEventLoop
from time import perf_counter

# What the two spans are measured against: design/0007.
CLOSE = 200e-6
"""Requests that come within this time of each other are a conversation."""
SPAN = 80e-6
"""How long the next one is waited for: a little more than a client on this machine needs to take an answer and ask."""


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BusyPoll:
    """One for all connections of a loop; `arrived` is called whenever bytes have come in."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        # Where time is simulated nothing is gained, and what happens must not hang on the real clock.
        real = not getattr(loop, "virtual", False)
        self._possible = real and _processors() > 1 and hasattr(os, "sched_yield")
        self._last = 0.0
        self._until = 0.0
        self.awake = False

    def arrived(self) -> None:
        now = perf_counter()
        if now - self._last < CLOSE and self._possible:
            self._until = now + SPAN
            if not self.awake:
                self.awake = True
                self._loop.call_soon(self._look)
        self._last = now

    def _look(self) -> None:
        if perf_counter() < self._until:
            os.sched_yield()
            self._loop.call_soon(self._look)
        else:
            self.awake = False
