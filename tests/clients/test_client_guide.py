"""The examples of docs/guide/client.md run, and pass a strict type check as a user's program would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.brokers.brokers import Broker

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "client.md"
ADDRESS = "localhost:9092"


def examples() -> dict[str, str]:
    """The programs of the guide by the heading they stand under."""
    found = {}
    for section in GUIDE.read_text(encoding="utf-8").split("\n## ")[1:]:
        for program in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            found[section.partition("\n")[0]] = program
    return found


@pytest.mark.parametrize("heading", list(examples()))
def test_an_example_runs_as_it_stands(heading: str, broker: Broker) -> None:
    program = examples()[heading]
    assert ADDRESS in program
    command = [sys.executable, "-W", "error", "-c", program.replace(ADDRESS, broker.bootstrap)]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""


def test_the_examples_pass_a_strict_type_check(tmp_path: Path) -> None:
    for number, program in enumerate(examples().values()):
        (tmp_path / f"example{number}.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path / "c")]
    answer = subprocess.run(
        [*command, *map(str, tmp_path.glob("*.py"))], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert answer.returncode == 0, answer.stdout
