"""Programs with a Spark of their own, for tests that kill them.

Owns starting such a program in a session of processes of its own, what it said, and ending all of it at once: the
program, its virtual machine and the Python workers, which are in several process groups. Knows nothing of what the
program does, beyond the plan that `tests/spark/driver.py` reads.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyspark

from kit.brokers.processes import free_port, until

DRIVER = Path(__file__).parents[2] / "spark" / "driver.py"
START_SECONDS = 120.0
END_SECONDS = 240.0
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A virtual machine that lives for seconds is not worth its best compiler."""


class Query(NamedTuple):
    """One stream from topic to topic; see the driver for the places."""

    name: str
    servers: str
    source: str
    target: str
    checkpoint: str
    delivery: str
    records: int
    """So many a batch."""
    places: Mapping[int, str]


class Plan(NamedTuple):
    """What one run of the driver does."""

    folder: Path
    queries: Sequence[Query]
    master: str = "local[4,3]"
    """A task may fail twice."""
    settings: Mapping[str, str] = {}

    def write(self, file: Path) -> None:
        queries = [query._asdict() for query in self.queries]
        form = {"folder": str(self.folder), "queries": queries, "master": self.master}
        file.write_text(json.dumps({**form, "settings": {"spark.ui.enabled": "false", **self.settings}}))


def environment() -> dict[str, str]:
    """What Spark's processes find: this Python everywhere, and loopback."""
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": QUICK}
    return {**os.environ, **own}


class Program:
    """A command with all the processes that it starts. A context manager that leaves none of them."""

    def __init__(self, command: Sequence[str], log: Path, extra: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**environment(), **(extra or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Also the session's, of every process it started."""
        return self._process.pid

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def reach(self, *files: Path) -> None:
        """Wait until it has made all these files."""

        def there() -> bool:
            assert self.running or all(file.exists() for file in files), f"it ended; it said:\n{self.said[-6000:]}"
            return all(file.exists() for file in files)

        try:
            until(there, f"{[file.name for file in files if not file.exists()]} of {files[0].parent}", END_SECONDS)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\nit said:\n{self.said[-6000:]}") from None

    def finish(self) -> None:
        """Wait until it has ended by itself, without failure."""
        try:
            code: int | None = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        outcome = f"did not end within {END_SECONDS:g} seconds" if code is None else f"ended with code {code}"
        assert code == 0, f"the program {outcome}; it said:\n{self.said[-6000:]}"

    def kill(self) -> None:
        """kill -9 of everything it started."""

        def gone() -> bool:
            living = _session(self._process.pid)
            for pid in living:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not living

        until(gone, "every process of the program is gone", 60.0)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


def driver(plan: Plan, file: Path) -> Program:
    """A run of the driver; what it says is kept beside the plan."""
    plan.write(file)
    return Program([sys.executable, str(DRIVER), str(file)], file.with_suffix(".log"))


class Standalone:
    """A Spark cluster of a master and workers, each with the executors that it starts. A context manager."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._folder = folder
        folder.mkdir()
        self._stack = ExitStack()
        deploy = "org.apache.spark.deploy"
        self._start("master", f"{deploy}.master.Master", "--port", str(port))
        until(lambda: _listens(port), "Spark's master listens", START_SECONDS)
        self.workers = {
            number: self._start(
                f"worker-{number}", f"{deploy}.worker.Worker", "--cores", "2", "--memory", "1g",
                "--work-dir", str(self.work(number)), self.url,
            )
            for number in range(1, workers + 1)
        }  # fmt: skip
        until(self._complete, "Spark's workers are known to their master", START_SECONDS)

    def _complete(self) -> bool:
        return all("Successfully registered with master" in worker.said for worker in self.workers.values())

    def work(self, number: int) -> Path:
        """Where a worker keeps a folder for every application that it runs executors of."""
        return self._folder / f"work-{number}"

    def worker_of(self, pid: int) -> int:
        """Which worker's executor a process belongs to."""
        session = os.getsid(pid)
        return next(number for number, program in self.workers.items() if program.pid == session)

    def _start(self, name: str, role: str, *arguments: str) -> Program:
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        command = [program, role, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        return self._stack.enter_context(Program(command, self._folder / f"{name}.log"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state not in "ZX":
            found.append(int(entry.name))
    return found
