"""Pages that are run as they are written.

Owns: the blocks of a page, and one session that goes through them in order in a directory of its own: files are
written, Python programs run, console commands typed, their output compared with what the page shows. Ports are moved,
for 9092 may be taken here. `OTTLA_WRITE_DOCS=1` puts the output that came into the page instead of comparing it.

How a page marks its blocks: `console` is typed, line by line after `$ `, with the output below; `python` is run; any
block with a title is a file of that name. Everything else (`sh`, `yaml`, `properties`, …) is only shown.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from kit.brokers.command_line import Ottla
from kit.brokers.processes import free_ports

REPOSITORY = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS = 240
FIRST_PORT = 9092
PORTS = 3
CONTROLLERS_ABOVE = 10_000
RUNS_ON = re.compile(r"^ottla (serve|cluster start)\b")
LOOKS = re.compile(r"^ottla (topic (describe|list|offsets)|cluster (status|quorum)|group (describe|list))\b")
PATIENCE = 120.0
WRITE = bool(os.environ.get("OTTLA_WRITE_DOCS"))


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    title: str | None
    text: str
    start: int
    end: int


class Step(NamedTuple):
    """A command and what the page says it prints."""

    command: str
    shown: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], found[3], found.start(3), found.end(3)) for found in FENCE.finditer(text)]


def steps(text: str) -> list[Step]:
    """A console block taken apart; a command goes on in the next line after a backslash."""
    found: list[Step] = []
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, shown = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", piece, re.DOTALL).groups()  # type: ignore[union-attr]
        found.append(Step(command, shown.strip("\n")))
    return found


def normal(text: str) -> list[str]:
    """Lines without what differs from run to run: numbers or none yet, ids, who leads the quorum, widths of columns."""
    text = re.sub(r"^(\s*\d+\s+)(voter|leader)\b", r"\1member", text, flags=re.MULTILINE)
    text = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "ID", text)
    text = re.sub(r"\bottla \d+\.\d+\.\d+(\.dev\d+)?", "ottla VERSION", text)
    text = re.sub(r"\b\d[\d.]* [KMG]?i?B\b", "SIZE", text)
    text = re.sub(r"\d[\d,.:]*|(?<=\s)-(?=\s|$)", "0", text)
    return [re.sub(r"[\s─━]+", " ", line).strip() for line in text.strip().splitlines() if line.strip()]


def same(shown: str, printed: str) -> bool:
    """Whether the output is what the page shows; a line `…` stands for any lines."""
    pattern = ""
    for line in normal(shown):
        pattern += r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in normal(printed))) is not None


class Session:
    """A person who does what a page says, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self._first = free_ports(PORTS)
        self._running: dict[str, subprocess.Popen[str]] = {}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")},
            "PATH": path,
            **Ottla.profile,
            "OTTLA_BOOTSTRAP": f"localhost:{self._first}",
            "COLUMNS": "100",
            "HOME": str(directory),
            # pytest-asyncio, which our tests have and a reader need not, warns where nothing is set.
            "PYTEST_ADDOPTS": "-o asyncio_default_fixture_loop_scope=function",
        }

    def close(self) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        while self._running:
            _, process = self._running.popitem()
            process.wait(SECONDS)

    def file(self, block: Block) -> None:
        assert block.title is not None
        (self.directory / block.title).write_text(self._moved(block.text), encoding="utf-8")

    def program(self, text: str) -> None:
        self._finish([sys.executable, "-W", "error", "-c", self._moved(text)], text)

    def type(self, command: str) -> str:
        """What the command prints, or, of one that goes on running, what it says first."""
        if RUNS_ON.match(command):
            return self._returned(self._start(command))
        return self._returned(self._finish(["bash", "-c", self._moved(command)], command))

    def look(self, step: Step) -> str:
        """What a command prints that changes nothing; what it is to show may take a moment to come about."""
        deadline = time.monotonic() + PATIENCE
        while True:
            in_time = time.monotonic() < deadline
            try:
                printed = self.type(step.command)
            except AssertionError:  # nobody leads a partition for a moment
                if not in_time:
                    raise
                continue
            if WRITE or same(step.shown, printed) or not in_time:
                return printed

    def _start(self, command: str) -> str:
        """Run it in the background. Where it needs the port of one that runs, that one is stopped, as people would."""
        if command == "ottla serve":
            command += f" --port {FIRST_PORT}"
        port = re.search(r"--port (\d+)", command)
        if port and port[1] in self._running:
            before = self._running.pop(port[1])
            before.send_signal(signal.SIGTERM)
            before.wait(SECONDS)
        with (self.directory.parent / "complaints").open("ab") as complaints:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self._moved(command)}"],
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )
        self._running[port[1] if port else command] = process
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "is ready" in first, first + (self.directory.parent / "complaints").read_text()
        threading.Thread(target=_read_on, args=(process,), daemon=True).start()
        return first

    def _finish(self, command: list[str], text: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{text}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stderr + done.stdout

    def _moved(self, text: str) -> str:
        return re.sub(r"\b909[234]\b", lambda port: str(self._first + int(port[0]) - FIRST_PORT), text)

    def _returned(self, text: str) -> str:
        text = text.replace(str(self.directory), ".")
        for number in range(PORTS):
            for above in (0, CONTROLLERS_ABOVE):
                text = text.replace(str(self._first + number + above), str(FIRST_PORT + number + above))
        return text


def _read_on(process: subprocess.Popen[str]) -> None:
    """What a process says later must not fill its pipe."""
    assert process.stdout is not None
    with process.stdout:
        for _ in process.stdout:
            pass


def run_page(page: Path, directory: Path) -> int:
    """Do what the page says; how many commands and programs that were."""
    session = Session(directory)
    count = 0
    written = page.read_text(encoding="utf-8")
    moved = 0
    try:
        for block in blocks(page):
            if block.title is not None:
                session.file(block)
            elif block.kind == "python":
                session.program(block.text)
                count += 1
            elif block.kind == "console":
                typed = ""
                for step in steps(block.text):
                    printed = session.look(step) if LOOKS.match(step.command) else session.type(step.command)
                    count += 1
                    if not WRITE:
                        message = f"{page.name}: $ {step.command}\nshown:\n{step.shown}\nprinted:\n{printed}"
                        assert same(step.shown, printed), message
                    shown = step.shown if same(step.shown, printed) else printed.strip("\n")
                    typed += f"$ {step.command}\n" + (f"{shown}\n" if shown else "") + "\n"
                if WRITE:
                    typed = typed.rstrip("\n") + "\n"
                    written = written[: block.start + moved] + typed + written[block.end + moved :]
                    moved += len(typed) - (block.end - block.start)
    finally:
        session.close()
        if WRITE:
            page.write_text(written, encoding="utf-8")
    return count
