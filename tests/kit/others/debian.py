"""Programs of the operating system that tests drive ottla with. A missing one fails the test with a sentence."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def program(name: str) -> str:
    """The path of an installed program."""
    path = shutil.which(name)
    if path is None:
        raise AssertionError(f"this test needs {name}, which is not installed: run scripts/install-test-packages")
    return path


def run(command: Sequence[str], stdin: str | bytes = b"", seconds: float = 120.0) -> bytes:
    """The standard output of a command that must succeed."""
    answer = subprocess.run(
        command,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        check=False,
        capture_output=True,
        timeout=seconds,
    )
    if answer.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)} ended with code {answer.returncode}\n"
            f"it printed:\n{answer.stdout.decode(errors='replace')}\n"
            f"and complained:\n{answer.stderr.decode(errors='replace')}"
        )
    return answer.stdout
