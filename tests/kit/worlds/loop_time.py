"""The clock of the running event loop, which a test moves forward.

What happens after a time-out then happens at once, and a busy machine lets none elapse before its time: the time-outs
of such a test are long, and the test says when they have passed.
"""

from __future__ import annotations

import asyncio

import pytest


class LoopTime:
    """Made inside the loop; timers that are due after a step forward are called in the loop's next turn."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._real = loop.time
        self._ahead = 0.0
        patch.setattr(loop, "time", self)

    def __call__(self) -> float:
        return self._real() + self._ahead

    def forward(self, seconds: float) -> None:
        """So many seconds have passed."""
        self._ahead += seconds
