"""How long the tests of one folder may take, where that is longer than for all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest


def allow(items: Iterable[pytest.Item], folder: Path, seconds: int) -> None:
    """Give the tests of a folder so much time each; a test that is marked itself keeps its own."""
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.timeout(seconds))
