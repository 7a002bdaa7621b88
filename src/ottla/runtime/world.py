"""The real clock and randomness behind the ports of `base.ports`, and which start of the machine this is."""

import os
import random
import time


class RealClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)


class RealRandom:
    def identity(self) -> bytes:
        return os.urandom(16)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)


def boot_id() -> str:
    """Linux names every start of the machine; elsewhere nobody does."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
