"""Time for simulated worlds: theirs is virtual, but a busy machine takes its own to compute them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.brokers.patience import allow

WORLD_SECONDS = 1000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow(items, Path(__file__).parent, WORLD_SECONDS)
