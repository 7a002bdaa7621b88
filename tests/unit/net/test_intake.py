"""Memory for requests: what is used again, and how it is given back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.net.intake import FREED_AT_ONCE, Intake

LARGE = 8 * FREED_AT_ONCE
SMALL = 100_000


class Loop:
    """Runs what is to be run soon when the test says so."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> bool:
        """Whether there was anything to do."""
        due, self.soon = self.soon, deque()
        for callback in due:
            callback()
        return bool(due)


def an_intake() -> tuple[Intake, Loop]:
    loop = Loop()
    real: Any = loop
    return Intake(1 << 30, real), loop


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def test_a_small_buffer_is_used_again() -> None:
    intake, loop = an_intake()
    buffer = intake.take(SMALL)
    identity = id(buffer)
    intake.give_back(buffer)
    del buffer
    while loop.turn():
        pass
    assert id(intake.take(SMALL)) == identity


def test_a_buffer_that_somebody_looks_at_is_not_used_again_nor_emptied() -> None:
    intake, loop = an_intake()
    small, large = intake.take(SMALL), intake.take(LARGE)
    small[:5] = large[:5] = b"bytes"
    views = [memoryview(small), memoryview(large)]
    identity = id(small)
    for buffer in (small, large):
        intake.give_back(buffer)
    del small, large, buffer
    while loop.turn():
        pass
    assert id(intake.take(SMALL)) != identity
    assert [bytes(view[:5]) for view in views] == [b"bytes", b"bytes"]


def test_a_large_buffer_is_given_back_a_part_at_a_time() -> None:
    intake, loop = an_intake()
    buffer = intake.take(LARGE)
    buffer[:] = bytes(LARGE)
    before = resident()
    intake.give_back(buffer)
    del buffer
    parts = []
    while loop.turn():
        parts.append(before - resident())
        before = resident()
    assert sum(parts) > LARGE // 2
    assert max(parts) <= 2 * FREED_AT_ONCE
