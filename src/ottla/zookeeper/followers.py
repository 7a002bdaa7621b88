"""Whom a controller reaches: the living brokers that still ask it what was decided.

Owns: when each was last heard of. Never knows: who lives; it is told. Invariant: a controller that fewer than
half of the living brokers follow is the one that is cut off, not they, so it must neither judge them nor stay.
"""

from collections.abc import Callable, Collection


class Followers:
    """Of one node, while it decides."""

    def __init__(self, own_id: int, now: Callable[[], float]) -> None:
        self._own_id = own_id
        self._now = now
        self._heard: dict[int, float] = {}

    def begin(self, living: Collection[int]) -> None:
        """An office begins: each has its whole time to be heard."""
        self._heard = dict.fromkeys(living, self._now())

    def heard(self, node_id: int) -> None:
        self._heard[node_id] = self._now()

    def lacking(self, living: Collection[int], seconds: float) -> str | None:
        """Why this controller is cut off, if fewer than half of the living were heard within so many seconds."""
        now = self._now()
        brokers = {*living, self._own_id}
        self._heard[self._own_id] = now
        reached = [broker for broker in brokers if now - self._heard.setdefault(broker, now) <= seconds]
        if 2 * len(reached) >= len(brokers):
            return None
        return f"only {len(reached)} of {len(brokers)} brokers follow it"
