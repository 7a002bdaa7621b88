"""Time for simulated worlds: theirs is virtual, but a busy machine takes its own to compute them."""

from __future__ import annotations

from pathlib import Path

import pytest

WORLD_SECONDS = 1000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.timeout(WORLD_SECONDS))
