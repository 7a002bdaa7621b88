"""Copying processes for tests: `copying.py`, started again and again."""

from __future__ import annotations

import subprocess
import sys
import threading

from cluster import copying
from kit.brokers.processes import until

FINISH_SECONDS = 120.0


class Copier:
    """One copying process after another: it is started again whenever it ended, killed or by itself."""

    def __init__(self, bootstrap: str, protocol: str, name: str, program: str = copying.__file__) -> None:
        self._command = [sys.executable, program, bootstrap, "source", "target", "copiers", protocol, name]
        self._process: subprocess.Popen[str] | None = None
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.copied = 0
        self.starts = 0
        self.errors: list[str] = []

    def _run(self) -> None:
        while not self._leave.is_set():
            with subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as self._process:
                self.starts += 1
                assert self._process.stdout is not None
                assert self._process.stderr is not None
                for line in self._process.stdout:
                    self.copied += int(line)
                self.errors.extend(self._process.stderr)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> Copier:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        until(self._ended, "the copier ends", FINISH_SECONDS)

    def _ended(self) -> bool:
        self.kill()  # again and again: the thread may just be starting another
        return not self._thread.is_alive()
