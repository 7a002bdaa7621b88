"""A limit on bytes a second.

Owns: how much may pass now, and when more may. Never knows: what passes; it is handed seconds that never go back.
Invariants: over any longer time no more passes than the rate allows, but for one portion; what was not used is kept for
one second.
"""

KEPT_SECONDS = 1.0


class Throttle:
    """One limit. A portion passes whole as long as anything is left; what it took too much is waited for after it."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._left = rate * KEPT_SECONDS
        self._at = now

    def seconds_until_free(self, now: float) -> float:
        """0 when something may pass now."""
        self._left = min(self._left + (now - self._at) * self.rate, self.rate * KEPT_SECONDS)
        self._at = now
        if self._left > 0:
            return 0.0
        return (1 - self._left) / self.rate if self.rate > 0 else KEPT_SECONDS

    def passed(self, size: int) -> None:
        self._left -= size
