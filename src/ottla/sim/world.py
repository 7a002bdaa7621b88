"""Time and randomness of one simulated node, behind the ports of `base.ports`."""

from random import Random

from ottla.sim.loop import SimLoop

BIG_BANG_MS = 1_750_000_000_000


class SimClock:
    """The loop's time; the wall clock is ahead of it, or behind, by as much as the node's is wrong."""

    def __init__(self, loop: SimLoop, skew_ms: int) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return BIG_BANG_MS + self.skew_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()


class SimRandom:
    """Drawn from the seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def identity(self) -> bytes:
        return self._random.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
