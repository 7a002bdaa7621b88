"""Whole clusters in one process: a hundred universes drawn from seeds, disturbed, healed and judged.

Each runs as `python -m ottla.sim` does, in a process whose order of sets is fixed, so that a seed that fails here fails
again with the command that it prints.
"""

import os
import subprocess
import sys

import pytest

from ottla.sim.universe import Universe

FIRST, SEEDS, TOGETHER = 1, 100, 10
REPEATED = (3, 4, 10, 15)


def simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla.sim", *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, TOGETHER))
def test_a_cluster_loses_nothing_and_heals_whatever_happens_to_it(first: int) -> None:
    run = simulate("--start", str(first), "--count", str(TOGETHER), "--keep-going")
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]


@pytest.mark.parametrize("seed", REPEATED)
def test_the_same_seed_is_the_same_universe_event_by_event(seed: int) -> None:
    first, second = Universe(seed).run(), Universe(seed).run()
    assert first.fingerprint == second.fingerprint
    assert first.lines == second.lines


def test_a_seed_is_repeated_by_its_command() -> None:
    """Also where the environment asks for another order of sets."""
    runs = [simulate("--seed", str(REPEATED[0]), hash_seed=hash_seed) for hash_seed in ("0", "7")]
    fingerprints = [run.stdout.rsplit("fingerprint ", 1)[-1].split()[0] for run in runs]
    assert fingerprints[0] == fingerprints[1]
