"""The three nodes of the demo, as processes and through the commands that anybody would use.

Owns: `ottla cluster start` in a directory of its own, a node killed and started again with `ottla serve`, and the end
of all of them. Never knows: what the nodes hold. Invariant: when `close` returns, every process that was started has
ended, also those of a start that failed half-way.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

NODES = 3
STOP_SECONDS = 90.0
START_SECONDS = 120.0
_TELLING = ("quorum", "controller")
_HOST = "127.0.0.1"
_FIRST_PORT, _ROWS = 12_600, 2_400
_CONTROLLERS_ABOVE = 10_000
"""Where `ottla cluster start` places them."""
_PROGRAM = (sys.executable, "-P", "-m", "ottla.cli.main")


class NodeFailure(Exception):
    """A process that did not do what it is there for, as one sentence."""


class Nodes:
    """A cluster on this machine; `options` are more of those that `ottla cluster start` has."""

    def __init__(self, directory: Path, first_port: int | None, options: Sequence[str] = ()) -> None:
        self.first_port = free_row() if first_port is None else first_port
        self.announcement = ""
        self._directory = directory
        self._options = options
        self._processes: list[asyncio.subprocess.Process] = []
        self._readers: list[asyncio.Task[None]] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{_HOST}:{self.first_port + number}" for number in range(NODES))

    def log_file(self, node: int) -> Path:
        return self._directory / f"node-{node}" / "log"

    def settings_file(self, node: int) -> Path:
        return self._directory / f"node-{node}" / "server.properties"

    def pid(self, node: int) -> int:
        return int((self._directory / f"node-{node}" / "pid").read_text(encoding="ascii"))

    def said(self, since: dict[int, int]) -> list[str]:
        """Lines about the cluster that the nodes wrote into their logs after these lengths, in order of time."""
        lines: list[tuple[str, str]] = []
        for node, length in since.items():
            with self.log_file(node).open("rb") as file:
                file.seek(length)
                for line in file.read().decode(errors="replace").splitlines():
                    words = line.split(maxsplit=4)  # day, time, level, who, what
                    if len(words) == 5 and words[3] in _TELLING:
                        lines.append((words[1], f"node {node} {words[1]} {words[3]}: {words[4]}"))
        return [line for _, line in sorted(lines)]

    def log_lengths(self) -> dict[int, int]:
        return {node: self.log_file(node).stat().st_size for node in range(1, NODES + 1)}

    async def start(self) -> None:
        """All of them; NodeFailure when they do not get ready."""
        arguments = ["cluster", "start", "--brokers", str(NODES), "--port", str(self.first_port), *self._options]
        complaints = self._directory / "cluster.log"
        self.announcement = await self._run([*arguments, "--data", str(self._directory)], complaints)

    def kill(self, node: int) -> None:
        """As kill -9 does it: no last word, nothing flushed."""
        os.kill(self.pid(node), signal.SIGKILL)

    async def restart(self, node: int) -> str:
        """A killed node again, with the data it has; what it says when it is ready."""
        return await self._run(["serve", "--config", str(self.settings_file(node))], self.log_file(node))

    async def close(self) -> None:
        """Stop everything, kindly at first."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                for process in self._processes:
                    await process.wait()
        except TimeoutError:
            self._kill_all()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    def _kill_all(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for node in range(1, NODES + 1):
            with contextlib.suppress(OSError, ValueError):
                self.kill(node)

    async def _run(self, arguments: Sequence[str], log: Path) -> str:
        """Start a process that says one line when it is ready, and everything else in a log."""
        with log.open("ab") as errors:
            # A process group of its own: Ctrl-C is for the demo, which stops the nodes when it has stopped using them.
            process = await asyncio.create_subprocess_exec(
                *_PROGRAM,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                process_group=0,
            )
        self._processes.append(process)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await process.stdout.readline()
        except TimeoutError:
            ready = b""
        if not ready:
            raise NodeFailure(f"ottla {arguments[0]} did not start: {_last_words(log)}")
        self._readers.append(asyncio.create_task(_read_on(process.stdout)))
        return ready.decode(errors="replace").strip()


def _last_words(log: Path) -> str:
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return said[-1].removeprefix("ottla: ") if said else f"not ready after {START_SECONDS:.0f} s"


async def _read_on(stream: asyncio.StreamReader) -> None:
    """What a process says later must not fill its pipe."""
    while await stream.readline():
        pass


def free_row() -> int:
    """The first of enough ports in a row that nobody listens on, nor at those of the controllers above them.

    They lie below those that outgoing connections are given: one of those could have the port of a node that is killed
    when it is started again.
    """
    row = os.getpid()  # not where another demo begins
    while True:
        row += 1
        first = _FIRST_PORT + row % _ROWS * NODES
        with contextlib.ExitStack() as open_ports, contextlib.suppress(OSError):
            for port in range(first, first + NODES):
                for above in (0, _CONTROLLERS_ABOVE):
                    open_ports.enter_context(socket.socket()).bind((_HOST, port + above))
            return first
