"""The `ottla` program as people and scripts use it, against a running broker.

Every command is run at least once as a process of its own; output is read as a program would read it, and each way to
fail ends with its exit code and one sentence.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.brokers import Broker
from support.processes import OttlaProcess, free_port, until

SECONDS = 60.0
PROGRAM = str(Path(sys.executable).with_name("ottla"))


class Ottla:
    """Runs the program against one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._environment = {**os.environ, "OTTLA_BOOTSTRAP": bootstrap, "COLUMNS": "200"}

    def attempt(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=SECONDS,
            env=self._environment,
        )

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

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """The program while it runs; killed in the end if it still does."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [PROGRAM, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def ottla(broker: Broker) -> Ottla:
    return Ottla(broker.bootstrap)


@pytest.fixture
def made(ottla: Ottla, topic: str) -> str:
    """A topic of three partitions."""
    ottla("topic", "create", topic, "--partitions", "3")
    return topic


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_is_created_listed_described_altered_and_deleted(ottla: Ottla, topic: str) -> None:
    said = ottla.lines(
        "topic", "create", topic, "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=3600000"
    )
    assert said == [f"created topic {topic!r}: 2 partitions, replication factor 1"]

    (listed,) = [entry for entry in ottla.json("topic", "list") if entry["name"] == topic]
    assert (listed["partitions"], listed["replication_factor"], listed["state"]) == (2, 1, "ok")
    assert listed["size"] == 0

    altered = ("--partitions", "4", "--config", "max.message.bytes=2000", "--delete-config", "retention.ms")
    ottla("topic", "alter", topic, *altered)

    def grown() -> Any:
        (found,) = ottla.json("topic", "describe", topic)
        return found if len(found["partitions"]) == 4 and "max.message.bytes" in found["configs"] else None

    described = until(grown, "four partitions and the new setting")
    assert described["configs"] == {"max.message.bytes": "2000"}
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2, 3]

    assert ottla.lines("topic", "delete", topic) == [f"deleted topic {topic!r}"]
    until(lambda: topic not in [entry["name"] for entry in ottla.json("topic", "list")], "the topic is gone")


def test_a_description_shows_offsets_and_settings_of_each_partition(ottla: Ottla, made: str) -> None:
    ottla("produce", made, "--partition", "1", stdin=b"a\nb\n")
    text = ottla("topic", "describe", made).decode()
    assert text.startswith(f"topic        {made}\n")
    assert "records      2\n" in text
    rows = [line.split() for line in text[text.index("PARTITION") :].splitlines()[1:]]
    assert [(row[0], row[4], row[5], row[6]) for row in rows] == [
        ("0", "0", "0", "0"),
        ("1", "0", "2", "2"),
        ("2", "0", "0", "0"),
    ]
    (described,) = ottla.json("topic", "describe", made)
    assert [(part["earliest_offset"], part["latest_offset"]) for part in described["partitions"]] == [
        (0, 0),
        (0, 2),
        (0, 0),
    ]
    assert described["partitions"][1]["size"] > 0


def test_a_list_for_programs_is_aligned_text_with_a_heading(ottla: Ottla, made: str) -> None:
    heading, *rows = ottla.lines("topic", "list")
    assert heading.split() == ["TOPIC", "PARTITIONS", "REPLICATION", "SIZE", "STATE"]
    (mine,) = [row for row in rows if row.split()[0] == made]
    assert mine.split()[1:3] == ["3", "1"]
    assert mine.endswith("  ok")


def test_what_is_there_already_or_not_there_can_be_fine(ottla: Ottla, made: str) -> None:
    assert ottla.lines("topic", "create", made, "--if-not-exists") == [f"topic {made!r} exists already"]
    assert ottla("topic", "delete", f"{made}-missing", "--if-exists") == b""


# --- records ----------------------------------------------------------------------------------------------------------


def test_lines_go_in_and_come_out(ottla: Ottla, made: str) -> None:
    sent = ottla.attempt("produce", made, stdin=b"one\ntwo\nthree")
    assert sent.returncode == 0
    assert sent.stdout == b""
    assert sent.stderr.startswith(f"sent 3 records (47 B) to {made!r} in ".encode())
    assert sorted(ottla.lines("consume", made, "--until-end")) == ["one", "three", "two"]
    assert ottla.attempt("produce", made, "--quiet", stdin=b"four").stderr == b""


def test_keys_headers_nulls_and_arbitrary_bytes_survive(ottla: Ottla, made: str) -> None:
    lines = b"ann:\xff\x00\nbob:\ncarl:a:b\n"
    options = ("--key-separator", ":", "--null-value", "", "--header", "from=test", "--header", "n=1")
    ottla("produce", made, *options, "--partition", "0", stdin=lines)
    shown = ottla("consume", made, "-e", "--keys", "--headers", "--offsets", "--separator", "|", "--null-value", "-")
    assert shown == b"0:0|from=test,n=1|ann|\xff\x00\n0:1|from=test,n=1|bob|-\n0:2|from=test,n=1|carl|a:b\n"
    records = ottla.records(made)
    assert [(record["key"], record["value"]) for record in records] == [
        ("ann", {"base64": "/wA="}),
        ("bob", None),
        ("carl", "a:b"),
    ]
    assert records[0]["headers"] == [["from", "test"], ["n", "1"]]


def test_a_topic_can_be_copied_as_json(ottla: Ottla, made: str) -> None:
    copy = f"{made}-copy"
    ottla("topic", "create", copy, "--partitions", "1")
    ottla("produce", made, "-K", "=", "-H", "h=\u00e9", stdin="a=\u00e9\nb=\u20ac\n".encode() + b"c=\xfe\n")
    lines = ottla("consume", made, "--until-end", "--json")
    ottla("produce", copy, "--json", "--compression", "zstd", stdin=lines)

    def content(records: list[dict[str, Any]]) -> list[Any]:
        return sorted(
            [[record[name] for name in ("key", "timestamp", "value", "headers")] for record in records], key=str
        )

    assert content(ottla.records(copy)) == content(ottla.records(made))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_and_many_records_arrive_once_in_order_of_their_key(
    ottla: Ottla, made: str, compression: str
) -> None:
    lines = b"".join(b"k%d:%d\n" % (number % 7, number) for number in range(20_000))
    ottla("produce", made, "-K", ":", "--compression", compression, stdin=lines)
    seen: dict[str, list[int]] = {}
    for line in ottla.lines("consume", made, "-e", "--keys"):
        key, value = line.split("\t")
        seen.setdefault(key, []).append(int(value))
    assert seen == {f"k{key}": list(range(key, 20_000, 7)) for key in range(7)}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_delivers(ottla: Ottla, made: str, acks: str) -> None:
    ottla("produce", made, "--acks", acks, stdin=b"x\n" * 100)
    until(lambda: len(ottla.lines("consume", made, "-e")) == 100, "a hundred records")


def test_files_are_sent_in_turn_and_standard_input_where_a_dash_stands(ottla: Ottla, made: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"4")
    ottla("produce", made, "-p", "2", str(tmp_path / "a"), "-", str(tmp_path / "b"), stdin=b"3\n")
    assert ottla.lines("consume", made, "-p", "2", "-e") == ["1", "2", "3", "4"]


def test_reading_starts_where_it_is_told_and_ends_after_so_many(ottla: Ottla, made: str) -> None:
    for number, stamp in enumerate(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]):
        line = json.dumps({"value": str(number), "timestamp": stamp.replace("Z", "+00:00")})
        ottla("produce", made, "--json", "-p", "0", stdin=line.encode())
    ottla("produce", made, "-p", "1", stdin=b"other\n")

    def values(*arguments: str) -> list[str]:
        return ottla.lines("consume", made, "-p", "0", "--until-end", *arguments)

    assert values() == ["0", "1", "2"]
    assert values("--from", "1") == ["1", "2"]
    assert values("--from", "-1") == ["2"]
    assert values("--from", "-9") == ["0", "1", "2"]
    assert values("--from", "2026-01-02T00:00:00+00:00") == ["1", "2"]
    assert values("--from", "end") == []
    assert values("--max", "2") == ["0", "1"]
    assert values("--format", r"{partition}/{offset}={value};") == ["0/0=0;0/1=1;0/2=2;"]
    assert values("--timestamps", "--max", "1") == ["2026-01-01T00:00:00.000Z\t0"]
    assert sorted(ottla.lines("consume", made, "-p", "0", "-p", "1", "-e")) == ["0", "1", "2", "other"]
    assert len(ottla.lines("consume", made, "--max", "4")) == 4


# --- following and stopping -------------------------------------------------------------------------------------------


def test_following_shows_what_comes_and_ctrl_c_ends_it_cleanly(ottla: Ottla, made: str) -> None:
    with ottla.running("consume", made) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        for number in range(2):
            ottla("produce", made, stdin=b"record %d\n" % number)
            assert follower.stdout.readline() == b"record %d\n" % number
        follower.send_signal(signal.SIGINT)
        assert follower.wait(SECONDS) == 0
        assert follower.stderr.read() == b""


def test_ctrl_c_while_producing_sends_what_was_read(ottla: Ottla, made: str) -> None:
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


def test_a_reader_that_had_enough_ends_the_command_quietly(ottla: Ottla, made: str) -> None:
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
        ottla = Ottla(own.bootstrap)
        ottla("topic", "create", topic, "-p", "3")
        with ottla.running("produce", topic) as producer, ottla.running("consume", topic) as follower:
            assert producer.stdin is not None
            assert follower.stdout is not None
            seen: list[int] = []
            for wave in range(3):
                numbers = range(wave * 5000, wave * 5000 + 5000)
                producer.stdin.write(b"".join(b"%d\n" % number for number in numbers))
                producer.stdin.flush()
                if wave > 0:  # the first one shows that both are at work; the others are cut in the middle
                    own.kill()
                    own.start()
                seen += [int(follower.stdout.readline()) for _ in numbers]
            producer.stdin.close()
            assert producer.wait(SECONDS) == 0
        assert sorted(seen) == list(range(15_000))


@pytest.mark.parametrize("arguments", [("topic", "list"), ("topic", "list", "--json")], ids=" ".join)
def test_output_that_nobody_reads_is_no_failure(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    with ottla.running(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == b""


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("topic", "describe", "MISSING"), ["topic 'MISSING' does not exist", "topic list"], id="describe"),
        pytest.param(("topic", "delete", "MISSING"), ["topic 'MISSING' does not exist"], id="delete"),
        pytest.param(("topic", "alter", "MISSING", "-p", "9"), ["'MISSING' does not exist"], id="more partitions"),
        pytest.param(("topic", "alter", "MISSING", "-c", "retention.ms=1"), ["'MISSING'", "exist"], id="a setting"),
        pytest.param(("consume", "MISSING"), ["topic 'MISSING' does not exist"], id="consume"),
        pytest.param(("topic", "create", "MADE"), ["topic 'MADE' exists already", "--if-not-exists"], id="twice"),
        pytest.param(("topic", "create", "no such name"), ["not a valid topic name"], id="bad name"),
        pytest.param(("topic", "create", "MISSING", "-r", "9"), ["replication factor"], id="too many copies"),
        pytest.param(("topic", "create", "MISSING", "-c", "no.such=1"), ["not valid", "no.such"], id="bad setting"),
        pytest.param(("topic", "alter", "MADE", "-p", "2"), ["number of partitions"], id="fewer partitions"),
        pytest.param(("consume", "MADE", "-p", "7"), ["no partition 7", "0 to 2"], id="no such partition"),
        pytest.param(("consume", "MADE", "--from", "5"), ["offset 5", "not in the log"], id="no such offset"),
        pytest.param(("produce", "MADE", "-p", "7"), ["partition 7", "3 partitions"], id="produce elsewhere"),
        pytest.param(("produce", "MADE", "-K", ":"), ["line 1 of standard input", "separator ':'"], id="no separator"),
        pytest.param(("produce", "MADE", "--json"), ["line 1 of standard input is not JSON"], id="no JSON"),
        pytest.param(("produce", "MADE", "/no/such/file"), ["cannot read /no/such/file"], id="no file"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_code_1(
    ottla: Ottla, made: str, arguments: tuple[str, ...], words: list[str]
) -> None:
    def named(text: str) -> str:
        return text.replace("MISSING", f"{made}-missing").replace("MADE", made)

    answer = ottla.attempt(*map(named, arguments), stdin=b"a line\n")
    said = [line for line in answer.stderr.decode().splitlines() if not line.startswith("sent 0 records")]
    assert answer.returncode == 1
    assert len(said) == 1
    assert said[0].startswith("ottla: ")
    for word in map(named, words):
        assert word in said[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("topic", "create"),
        ("topic", "create", "x", "--partitions", "0"),
        ("topic", "create", "x", "--config", "novalue"),
        ("topic", "alter", "x"),
        ("consume", "x", "--from", "someday"),
        ("consume", "x", "--json", "--format", "{value}"),
        ("consume", "x", "--format", "{nothing}"),
        ("produce", "x", "--compression", "rar"),
        ("produce", "x", "--json", "--key-separator", ":"),
        ("produce", "x", "--header", "novalue"),
        ("topic", "list", "--bootstrap", "host:port"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    answer = ottla.attempt(*arguments)
    assert answer.returncode == 2
    assert b"Usage: ottla" in answer.stderr
    assert b"Traceback" not in answer.stderr


def test_a_record_the_topic_does_not_take_is_named_with_its_reason(ottla: Ottla, topic: str) -> None:
    ottla("topic", "create", topic, "-p", "1", "-c", "cleanup.policy=compact", "-c", "max.message.bytes=1000")
    keyless = ottla.attempt("produce", topic, stdin=b"no key\n")
    assert keyless.returncode == 1
    assert b"a record the topic does not take" in keyless.stderr
    large = ottla.attempt("produce", topic, "-K", ":", stdin=b"k:" + b"x" * 5000)
    assert large.returncode == 1
    assert b"too large" in large.stderr
    assert b"max.message.bytes" in large.stderr
    many = b"".join(b"k%d:%d\n" % (number, number) for number in range(500))
    ottla("produce", topic, "-K", ":", stdin=many)
    assert len(ottla.lines("consume", topic, "-e")) == 500


def test_nobody_listening_is_said_at_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    for arguments in (("topic", "list"), ("consume", "x"), ("produce", "x")):
        began = time.monotonic()
        answer = Ottla(address).attempt(*arguments)
        assert answer.returncode == 1
        assert f"ottla: cannot reach {address}: connection refused; ".encode() in answer.stderr
        assert time.monotonic() - began < 10


def test_a_listener_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        answer = Ottla(f"127.0.0.1:{silent.getsockname()[1]}").attempt("topic", "list", "--timeout", "0.5")
        assert answer.returncode == 1
        assert b"gave up waiting" in answer.stderr
        assert time.monotonic() - began < 10


def test_the_second_address_serves_when_the_first_is_dead(broker: Broker, made: str) -> None:
    ottla = Ottla(f"127.0.0.1:{free_port()},{broker.bootstrap}")
    assert made in [entry["name"] for entry in ottla.json("topic", "list")]


def test_debug_shows_where_a_failure_happened(ottla: Ottla, topic: str) -> None:
    answer = ottla.attempt("--debug", "topic", "describe", topic)
    assert answer.returncode == 1
    assert b"Traceback" in answer.stderr


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_help_and_version_need_no_broker() -> None:
    ottla = Ottla("127.0.0.1:1")
    assert ottla("--version").startswith(b"ottla ")
    for arguments in ((), ("topic",), ("topic", "create"), ("produce",), ("consume",), ("serve",), ("log",)):
        assert b"Usage: ottla" in ottla(*arguments, "--help")


def test_the_files_of_the_broker_can_be_looked_into(start_broker: Callable[[dict[str, str]], Any], topic: str) -> None:
    with start_broker({}) as own:
        ottla = Ottla(own.bootstrap)
        ottla("topic", "create", topic, "-p", "1")
        ottla("produce", topic, "-K", ":", stdin=b"k:first\nk:second\n")
        (segment,) = [path for folder in own.directories for path in folder.glob(f"{topic}-0/*.log")]
        rows = [json.loads(line) for line in ottla.lines("log", "dump", str(segment), "--records", "--json")]
    assert [row["value"] for row in rows if row["kind"] == "record"] == ["first", "second"]
