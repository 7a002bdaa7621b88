"""The real clock and randomness behind the ports of `base.ports`."""

import os
import random
import time


class RealClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class RealRandom:
    def identity(self) -> bytes:
        return os.urandom(16)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)
