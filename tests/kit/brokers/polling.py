"""Waiting for what happens in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable

PAUSE_SECONDS = 0.005


def wait_until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until `happened()`; fails the test after so many seconds."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(PAUSE_SECONDS)
