"""`ottla demo`: it plays to its end and proves its point, and however it ends nothing of it stays behind."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.brokers.processes import until

END_SECONDS = 400
MIDDLE = "Three consumers share the work"
QUICK = ("--pace", "0.2", "--rate", "300", "--no-spark")


class Demo:
    """One run, with a directory of its own for whatever it writes."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.output = directory.with_suffix(".out")
        directory.mkdir()
        program = Path(sys.executable).with_name("ottla")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [str(program), "demo", *QUICK, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(directory)},
                process_group=0,
            )

    @property
    def text(self) -> str:
        return self.output.read_text()

    def nodes(self) -> list[int]:
        return [int(file.read_text()) for file in self.directory.glob("ottla-demo-*/node-*/pid") if file.read_text()]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    running = Demo(tmp_path / "demo")
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(END_SECONDS)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_ends_by_itself_where_nobody_watches_and_has_lost_nothing(demo: Demo) -> None:
    code = demo.process.wait(END_SECONDS)
    assert code == 0, demo.text
    counted = re.search(r"ACKNOWLEDGED +FOUND +LOST +DOUBLED\n +([\d,]+) +([\d,]+) +0 +0\n", demo.text)
    assert counted, demo.text
    assert counted[1] == counted[2] != "0"
    assert "dies, in the middle of the work" in demo.text
    assert "lags by 0" in demo.text
    assert list(demo.directory.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_interrupted_leaves_no_process_and_no_file(demo: Demo, number: signal.Signals) -> None:
    until(lambda: MIDDLE in demo.text or demo.process.poll() is not None, "the middle of the play", END_SECONDS)
    assert demo.process.poll() is None, demo.text
    nodes = demo.nodes()
    assert len(nodes) == 3
    demo.process.send_signal(number)
    assert demo.process.wait(END_SECONDS) == 130, demo.text
    assert "Traceback" not in demo.text
    assert not [pid for pid in nodes if alive(pid)]
    assert list(demo.directory.iterdir()) == []


def test_it_ends_well_when_its_reader_has_gone(tmp_path: Path) -> None:
    directory = tmp_path / "unread"
    directory.mkdir()
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("ottla")), "demo", *QUICK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(directory)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(END_SECONDS) == 0
    assert list(directory.iterdir()) == []


def test_it_stays_open_for_somebody_who_watches_until_ctrl_c(tmp_path: Path) -> None:
    seen, directory = b"", tmp_path / "watched"
    directory.mkdir()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("ottla")), "demo", *QUICK],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TMPDIR": str(directory), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        while b"until you press Ctrl-C" not in seen:
            seen += os.read(ours, 65536)  # ends with an error where the process ends first
        process.send_signal(signal.SIGINT)
        while chunk := _read(ours):
            seen += chunk
        assert process.wait(END_SECONDS) == 0, seen.decode(errors="replace")
    finally:
        process.kill()
        process.wait(END_SECONDS)
        os.close(ours)
    assert b"cannot go on" not in seen
    assert list(directory.iterdir()) == []


def _read(terminal: int) -> bytes:
    """What is written there; nothing when the other side is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
