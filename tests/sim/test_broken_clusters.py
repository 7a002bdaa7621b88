"""Whole clusters whose code was broken on purpose, in the ways that matter most, are found out.

Each break is looked for in the universes of `test_cluster.py` that are likely to notice, one after the other until one
does; a process of its own fixes the order of sets, so that it is always the same one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim import broken


@pytest.mark.parametrize("name", [each.__name__ for each in broken.BREAKS])
def test_a_break_is_noticed_within_the_seeds_of_the_test_run(name: str) -> None:
    run = subprocess.run(
        [sys.executable, str(Path(broken.__file__)), name],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-5_000:]
    assert "noticed" in run.stdout
