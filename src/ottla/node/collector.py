"""Cyclic garbage: when the interpreter looks for it.

Owns: how much it looks through at a time. Never knows: what makes garbage. Invariants: looking through what is young
holds the loop for a few milliseconds; looking through everything, however much that is, takes a thousandth of the time
at most, and no automatic look does it.

Nearly everything goes with its last reference. What the collector is for is rare, and what it looks through is much:
the objects of a request of 100,000 partitions live as long as the work on it, and are no garbage all the while.
"""

import gc
from asyncio import AbstractEventLoop
from collections.abc import Callable
from time import perf_counter

YOUNG = 1000
"""Objects more than before, after which the young ones are looked through."""
MIDDLE = 3
"""Such looks after which those that were left are looked through once more: 5,000 objects, two milliseconds."""
NEVER = 2**31 - 1
WORTH = 4000
"""Such second looks after which everything is looked through: twenty million objects came and stayed for a while."""
LOOK_SECONDS = 10.0
SHARE = 1000
"""Looking through everything takes one part in so many of the time."""


class Collector:
    """One for a process; `start` when what is there will stay for good."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        collect: Callable[[], object] = gc.collect,
        looks: Callable[[], int] = lambda: gc.get_count()[2],
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self._loop = loop
        self._collect = collect
        self._looks = looks
        self._now = now
        self._not_before = 0.0

    def start(self) -> None:
        # What start-up made lives as long as the node: it need not be looked at again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, MIDDLE, NEVER)
        self._loop.call_later(LOOK_SECONDS, self.look)

    def look(self) -> None:
        """Look through everything, if that is worth it and not too soon."""
        begin = self._now()
        if begin >= self._not_before and self._looks() >= WORTH:
            self._collect()
            end = self._now()
            self._not_before = end + (end - begin) * SHARE
        self._loop.call_later(LOOK_SECONDS, self.look)
