"""Broker processes for tests: `ottla serve` as a user starts it, on a free loopback port.

Owns starting, readiness, stopping and the kept log of one process. Knows nothing of the protocol. Every wait has a
deadline; a broker that ends early or does not get ready fails the test with its own last words.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

Result = TypeVar("Result")

START_SECONDS = 60.0
STOP_SECONDS = 90.0
FIRST_PORT, PORTS, BLOCKS = 10_000, 250, 10
"""Where tests listen: blocks of as many ports. All of them, and what is placed above them, lie below 32,768."""
CONTROLLERS_ABOVE = 10_000
"""Where the controllers of clusters listen; ZooKeeper servers of `ottla cluster start` as much again above them."""


def free_port() -> int:
    """A loopback port nobody listens on; its neighbour for a controller is free too."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody listens on.

    They lie below those that the kernel gives to outgoing connections, which could take one between this look and the
    start of whoever shall listen there; and every process that runs tests has a block of its own.
    """
    block, turns = _block()
    while True:
        start = next(turns) % (PORTS - count)
        wanted = [block + start + more for more in range(count)]
        try:
            for port in [*wanted, *(port + CONTROLLERS_ABOVE for port in wanted)]:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        for _ in range(count - 1):
            next(turns)
        return wanted[0]


@cache
def _block() -> tuple[int, Iterator[int]]:
    """The first port of a block that no other process has, and whose turn it is in it."""
    folder = Path(tempfile.gettempdir()) / "ottla-test-ports"
    folder.mkdir(exist_ok=True)
    start = os.getpid() % BLOCKS
    for number in (*range(start, BLOCKS), *range(start)):
        try:
            lock = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except PermissionError:
            continue  # another user's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends
        except OSError:
            os.close(lock)
            continue
        return FIRST_PORT + PORTS * number, itertools.count()
    # So many runs beside each other share a block, from different places on.
    return FIRST_PORT + PORTS * start, itertools.count(37 * os.getpid())


def until(condition: Callable[[], Result], what: str, seconds: float = 60.0) -> Result:
    """The first true answer of `condition`, asked again and again; a failure that names `what` after the deadline."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} seconds (last answer: {answer!r})")
        pause.wait(0.02)


class OttlaProcess:
    """One `ottla serve`. Use it as a context manager, or call `start` and then `stop` or `kill`."""

    name = "ottla"
    host = "127.0.0.1"

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.port = free_port() if port is None else port
        self.log_file = data.parent / f"{data.name}.log"
        self.announcement = ""
        self._settings = dict(settings or {})
        self._environment = {**os.environ, **(environment or {})}
        self._prefix = list(prefix)
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def directories(self) -> list[Path]:
        """The log directories, where partition folders lie."""
        return [self.data]

    def command(self) -> list[str]:
        program = Path(sys.executable).with_name("ottla")
        if not program.exists():
            raise AssertionError(
                f"{program} is not there: install the package into this environment (pip install -e .)"
            )
        arguments = ["serve", "--port", str(self.port), "--data", str(self.data)]
        for key, value in self._settings.items():
            arguments += ["--set", f"{key}={value}"]
        return [*self._prefix, str(program), *arguments]

    def start(self) -> Self:
        assert self._process is None, "already started"
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self._ready.clear()
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        self._reader = threading.Thread(target=self._read_output, args=(self._process,), daemon=True)
        self._reader.start()
        if not self._ready.wait(START_SECONDS) or str(self.port) not in self.announcement:
            code = self._process.poll()
            self.kill()
            state = "did not announce its address in time" if code is None else f"ended with code {code}"
            raise AssertionError(f"ottla serve {state}; it said:\n{self.announcement}{self.log[-4000:]}")
        return self

    def _read_output(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.announcement = process.stdout.readline()
        self._ready.set()
        with self.log_file.open("a") as log:
            for line in process.stdout:
                log.write(line)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """A clean stop: the signal, then exit code 0 within the deadline."""
        process = self._process
        if process is None:
            return
        process.send_signal(number)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"ottla did not stop after signal {number}; it said:\n{self.log[-4000:]}") from None
        self._forget()
        assert code == 0, f"ottla ended with code {code} after signal {number}; it said:\n{self.log[-4000:]}"

    def kill(self) -> None:
        """kill -9: what a crash leaves behind."""
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait(STOP_SECONDS)
        self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        if self._reader is not None:
            self._reader.join(STOP_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = self._reader = None

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
