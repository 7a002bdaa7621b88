"""The `ottla` program as a process: signals, pipes that close, brokers that crash or never answer.

What the commands do is tested in `test_command_line_topics` and `test_command_line_records`, without a process each.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.command_line import Ottla, Run
from kit.brokers.processes import OttlaProcess, free_port, until

SECONDS = 60.0
PROGRAM = str(Path(sys.executable).with_name("ottla"))


class Program(Ottla):
    """Runs the program as a process, without any profile."""

    profile: ClassVar = {"OTTLA_CONFIG": os.devnull}

    def attempt(self, *arguments: str, stdin: bytes = b"") -> Run:
        answer = subprocess.run(
            [PROGRAM, *arguments], input=stdin, capture_output=True, check=False, timeout=SECONDS, env=self.environment
        )
        return Run(answer.returncode, answer.stdout, answer.stderr)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """The program while it runs; killed in the end if it still does."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [PROGRAM, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=self.environment
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def ottla(broker: Broker) -> Program:
    """One broker is enough for what does not depend on it."""
    return Program(broker.bootstrap)


# --- following and stopping -------------------------------------------------------------------------------------------


def test_following_shows_what_comes_and_ctrl_c_ends_it_cleanly(ottla: Program, made: str) -> None:
    with ottla.running("consume", made) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        for number in range(2):
            ottla("produce", made, stdin=b"record %d\n" % number)
            assert follower.stdout.readline() == b"record %d\n" % number
        follower.send_signal(signal.SIGINT)
        assert follower.wait(SECONDS) == 0
        assert follower.stderr.read() == b""


def test_a_member_of_a_group_that_is_terminated_commits_what_it_has_shown(ottla: Program, made: str) -> None:
    ottla("produce", made, "-p", "0", stdin=b"a\nb\n")
    with ottla.running("consume", made, "--group", made) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert [follower.stdout.readline(), follower.stdout.readline()] == [b"a\n", b"b\n"]
        follower.send_signal(signal.SIGTERM)
        assert follower.wait(SECONDS) == 143
        assert follower.stderr.read() == b""
    assert ottla.lines("consume", made, "--group", made, "--until-end") == []


def test_ctrl_c_while_producing_sends_what_was_read(ottla: Program, made: str) -> None:
    with ottla.running("produce", made) as process:
        assert process.stdin is not None
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        until(lambda: ottla.lines("consume", made, "-e") == ["typed"], "the line is there while more is awaited")
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        assert process.stderr is not None
        complaint = process.stderr.read()
    assert complaint.startswith(b"sent 1 record ")
    assert complaint.count(b"\n") == 1


def test_a_reader_that_had_enough_ends_the_command_quietly(ottla: Program, made: str) -> None:
    ottla("produce", made, stdin=b"x\n" * 50_000)
    with ottla.running("consume", made) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        ottla("produce", made, stdin=b"y\n" * 50_000)
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == b""


def test_producing_and_following_live_through_a_crash_of_the_broker_without_loss_or_duplicate(
    tmp_path: Path, topic: str
) -> None:
    with OttlaProcess(tmp_path / "data") as own:
        ottla = Program(own.bootstrap)
        ottla("topic", "create", topic, "-p", "3")
        with ottla.running("produce", topic) as producer, ottla.running("consume", topic) as follower:
            assert producer.stdin is not None
            assert follower.stdout is not None
            seen: list[int] = []

            def end_both() -> None:
                """A wait without end would tell nothing of what went wrong."""
                producer.kill()
                follower.kill()

            giving_up = threading.Timer(200, end_both)
            giving_up.daemon = True
            giving_up.start()
            for wave in range(3):
                numbers = range(wave * 5000, wave * 5000 + 5000)
                producer.stdin.write(b"".join(b"%d\n" % number for number in numbers))
                producer.stdin.flush()
                if wave > 0:  # the first one shows that both are at work; the others are cut in the middle
                    own.kill()
                    own.start()
                for _ in numbers:
                    line = follower.stdout.readline()
                    assert line, (wave, len(seen), producer.communicate(), follower.communicate())
                    seen.append(int(line))
            giving_up.cancel()
            producer.stdin.close()
            assert producer.wait(SECONDS) == 0
        assert sorted(seen) == list(range(15_000))


@pytest.mark.parametrize("arguments", [("topic", "list"), ("topic", "list", "--json")], ids=" ".join)
def test_output_that_nobody_reads_is_no_failure(ottla: Program, arguments: tuple[str, ...]) -> None:
    with ottla.running(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == b""


# --- clusters that are not there --------------------------------------------------------------------------------------


def test_nobody_listening_is_said_at_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    for arguments in (("topic", "list"), ("consume", "x"), ("produce", "x")):
        # Said at once: the process has no more than SECONDS, and would try for longer than that.
        answer = Program(address).attempt(*arguments, "--timeout", str(4 * SECONDS))
        assert answer.returncode == 1
        assert f"ottla: cannot reach {address}: connection refused; ".encode() in answer.stderr


def test_a_listener_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = Program(f"127.0.0.1:{silent.getsockname()[1]}").attempt("topic", "list", "--timeout", "3")
        assert answer.returncode == 1
        assert b"gave up waiting" in answer.stderr


def test_the_second_address_serves_when_the_first_is_dead(broker: Broker, made: str) -> None:
    ottla = Program(f"127.0.0.1:{free_port()},{broker.bootstrap}")
    assert made in [entry["name"] for entry in ottla.json("topic", "list")]


def test_debug_shows_where_a_failure_happened(ottla: Program, topic: str) -> None:
    answer = ottla.attempt("--debug", "topic", "describe", topic)
    assert answer.returncode == 1
    assert b"Traceback" in answer.stderr


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_help_and_version_need_no_broker() -> None:
    ottla = Program("127.0.0.1:1")
    assert ottla("--version").startswith(b"ottla ")
    for arguments in ((), ("topic",), ("topic", "create"), ("produce",), ("consume",), ("serve",), ("log",)):
        assert b"Usage: ottla" in ottla(*arguments, "--help")


def test_the_files_of_the_broker_can_be_looked_into(start_broker: Callable[[dict[str, str]], Any], topic: str) -> None:
    with start_broker({}) as own:
        ottla = Program(own.bootstrap)
        ottla("topic", "create", topic, "-p", "1")
        ottla("produce", topic, "-K", ":", stdin=b"k:first\nk:second\n")
        (segment,) = [path for folder in own.directories for path in folder.glob(f"{topic}-0/*.log")]
        rows = [json.loads(line) for line in ottla.lines("log", "dump", str(segment), "--records", "--json")]
    assert [row["value"] for row in rows if row["kind"] == "record"] == ["first", "second"]
