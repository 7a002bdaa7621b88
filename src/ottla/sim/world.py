"""Time and randomness of one simulated node, behind the ports of `base.ports`."""

from collections.abc import Callable
from random import Random

BIG_BANG_MS = 1_750_000_000_000


class SimClock:
    """The time of a node's loop; its wall clock is ahead of that, or behind, by as much as it is wrong."""

    def __init__(self, time: Callable[[], float], skew_ms: int) -> None:
        self.monotonic = time
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return BIG_BANG_MS + self._skew_ms + int(self.monotonic() * 1000)


class SimRandom:
    """Drawn from the seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def identity(self) -> bytes:
        return self._random.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
