"""The `ottla` program in the test's own process: a run costs milliseconds, where a process costs a third of a second.

What only a process can show (signals, pipes that close) is tested with one.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest import mock

from ottla.cli import main


class Run(NamedTuple):
    """How a run ended and what it printed."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Ottla:
    """Runs the program against one broker, with a patient profile and none of whoever runs the tests."""

    profile: ClassVar = {"OTTLA_CONFIG": str(Path(__file__).with_name("patient.toml")), "OTTLA_PROFILE": "patient"}

    def __init__(self, bootstrap: str | None, environment: Mapping[str, str] | None = None) -> None:
        ours = ("OTTLA_BOOTSTRAP", "OTTLA_CONFIG", "OTTLA_PROFILE", "OTTLA_DEBUG")
        self.environment = {name: value for name, value in os.environ.items() if name not in ours}
        self.environment |= {"COLUMNS": "200", **(environment or {})}
        if "OTTLA_CONFIG" not in self.environment:
            self.environment |= self.profile
        if bootstrap is not None:
            self.environment["OTTLA_BOOTSTRAP"] = bootstrap

    def attempt(self, *arguments: str, stdin: bytes = b"") -> Run:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with tempfile.TemporaryFile() as given, mock.patch.dict(os.environ, self.environment, clear=True):
            given.write(stdin)
            given.seek(0)
            with mock.patch.multiple(sys, argv=["ottla", *arguments], stdin=given, stdout=out, stderr=err):
                code = _exit_code()
        out.flush()
        err.flush()
        return Run(code, out.buffer.getvalue(), err.buffer.getvalue())

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Standard output of a run that must succeed."""
        answer = self.attempt(*arguments, stdin=stdin)
        assert answer.returncode == 0, f"ottla {' '.join(arguments)}: {answer.returncode}\n{answer.stderr.decode()}"
        return answer.stdout

    def lines(self, *arguments: str, stdin: bytes = b"") -> list[str]:
        return self(*arguments, stdin=stdin).decode().splitlines()

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def records(self, topic: str, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines("consume", topic, "--until-end", "--json", *arguments)]


def _exit_code() -> int:
    try:
        main.run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
