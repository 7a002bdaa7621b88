"""What the client's tests share."""

from __future__ import annotations

import pytest

from kit.worlds.loop_time import LoopTime


@pytest.fixture
async def loop_time(monkeypatch: pytest.MonkeyPatch) -> LoopTime:
    """The clock of the test's own loop."""
    return LoopTime(monkeypatch)
