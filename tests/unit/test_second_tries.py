"""scripts/run_tests.py: who gets a second try, and that it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "run_tests.py"

STEADY = "def test_steady(): pass\n"
UNSTEADY = """
from pathlib import Path
def test_unsteady():
    seen = Path("seen")
    again = seen.exists()
    seen.touch()
    assert again
"""
BROKEN = "def test_broken_{number}(): assert False\n"


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, str(SCRIPT), "suite", "test_it.py"]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=120)


def unsteady(folder: Path) -> str:
    report = folder / "build" / "unsteady-tests"
    return report.read_text() if report.exists() else ""


def test_a_suite_that_passes_is_run_once(tmp_path: Path) -> None:
    answer = run(tmp_path, STEADY)
    assert (answer.returncode, unsteady(tmp_path)) == (0, "")
    assert answer.stdout.count("1 passed") == 1


def test_a_test_that_passes_alone_is_named(tmp_path: Path) -> None:
    answer = run(tmp_path, STEADY + UNSTEADY)
    assert (answer.returncode, unsteady(tmp_path)) == (0, "test_it.py::test_unsteady\n")
    assert "UNSTEADY" in answer.stdout


def test_a_test_that_fails_twice_fails_the_suite(tmp_path: Path) -> None:
    answer = run(tmp_path, STEADY + UNSTEADY + BROKEN.format(number=1))
    assert (answer.returncode, unsteady(tmp_path)) == (1, "")


def test_many_failures_get_no_second_try(tmp_path: Path) -> None:
    answer = run(tmp_path, UNSTEADY + BROKEN.format(number=1) + BROKEN.format(number=2))
    assert (answer.returncode, unsteady(tmp_path)) == (1, "")
    assert "second try" not in answer.stdout


def test_tests_that_cannot_be_collected_get_no_second_try(tmp_path: Path) -> None:
    answer = run(tmp_path, "import nothing_of_that_name\n")
    assert answer.returncode == 2
    assert "second try" not in answer.stdout
