"""`ottla cluster …`, `partition …`, `log verify`, `bench …` and `top` on ottla and on a real Kafka."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.command_line import Ottla
from kit.brokers.processes import OttlaProcess, until
from ottla.cli.bench_figures import CONSUMER_HEADER, DETAILED_HEADER

SECONDS = 60.0
StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


def test_the_quorum_is_shown_with_its_leader_and_lag(ottla: Ottla) -> None:
    document = ottla.json("cluster", "quorum")
    assert (document["leader"], [voter["id"] for voter in document["voters"]]) == (1, [1])
    assert document["voters"][0]["lag"] == 0
    assert document["high_watermark"] > 0
    text = ottla.lines("cluster", "quorum")
    assert text[0].split() == ["leader", "1"]
    assert text[-1].split()[:2] == ["1", "leader"]
    for arguments, sentence in (
        (("remove-voter", "77"), "node 77 does not vote"),
        (("add-voter", "77", "--listener", "CONTROLLER://localhost:1"), "does not see node 77"),
    ):
        answer = ottla.attempt("cluster", *arguments)
        assert (answer.returncode, sentence in answer.stderr.decode()) == (1, True), answer
    assert ottla.attempt("cluster", "add-voter", "77").returncode == 2


def test_a_status_tells_of_brokers_quorum_and_partitions(ottla: Ottla, made: str) -> None:
    status = ottla.json("cluster", "status")
    (broker,) = status["brokers"]
    assert (broker["id"], broker["fenced"], status["controller"]) == (1, False, 1)
    assert broker["leaders"] >= 3
    assert [voter["id"] for voter in status["quorum"]["voters"]] == [1]
    assert made not in [row["topic"] for row in (*status["offline"], *status["under_replicated"])]
    heading = ottla.lines("cluster", "status")
    assert heading[1].split() == ["controller", "1"]


def test_partitions_of_one_node_are_as_they_should_be(ottla: Ottla, made: str) -> None:
    """What several nodes do is in test_cluster_commands.py; here every command speaks to a real Kafka too."""
    assert "led as it should be" in ottla("partition", "elect", made).decode()
    assert {row["error"] for row in ottla.json("partition", "elect", f"{made}:0,2")} == {"ELECTION_NOT_NEEDED"}
    assert ottla.lines("partition", "reassign", f"{made}:0=1", "--throttle", "10MB") == ["moved 1 partition"]
    assert ottla.json("partition", "reassign", f"{made}:1=1", "--no-wait")["moved"] is False
    until(lambda: ottla.json("partition", "reassign", "--status", made) == [], "no move", SECONDS)
    assert ottla.lines("partition", "reassign", "--cancel", made) == ["no partition is being moved"]
    assert ottla.lines("partition", "reassign", "--unthrottle") == ["no copying is bounded any more"]
    assert "nothing to do" in ottla("partition", "balance", made).decode()
    assert ottla.json("partition", "balance", made)["partitions"] == []
    for arguments, sentence in (
        (("elect", f"{made}-not"), "does not exist"),
        (("reassign", f"{made}:0=77"), "77"),
        (("reassign", f"{made}:9=1"), "partition 9"),
    ):
        answer = ottla.attempt("partition", *arguments)
        assert (answer.returncode, sentence in answer.stderr.decode()) == (1, True), answer
    assert ottla.attempt("partition", "elect", "--unclean").returncode == 2


def test_log_directories_are_shown_in_sums_and_by_replica(ottla: Ottla, any_broker: Broker, made: str) -> None:
    ottla("produce", made, "--partition", "1", stdin=b"some records\n" * 10)
    (directory,) = ottla.json("cluster", "log-dirs", made)
    assert (directory["broker"], directory["error"]) == (1, None)
    assert directory["directory"] == str(any_broker.directories[0])
    sizes = {row["partition"]: row["size"] for row in directory["replicas"]}
    assert (sizes[0], sizes[2]) == (0, 0)
    assert sizes[1] == directory["size"] > 130
    assert f"{made} " in ottla("cluster", "log-dirs", "--broker", "1").decode()
    rows = [line.split() for line in ottla.lines("cluster", "log-dirs", made, "--partitions")[1:]]
    assert [(row[0], row[1]) for row in rows] == [(made, "0"), (made, "1"), (made, "2")]
    missing = ottla.attempt("cluster", "log-dirs", "--broker", "77")
    assert (missing.returncode, b"no broker 77" in missing.stderr) == (1, True)


def test_a_log_of_either_is_verified_and_damage_found(
    ottla: Ottla, any_broker: Broker, made: str, tmp_path: Path
) -> None:
    ottla("produce", made, "--partition", "0", "-z", "gzip", stdin=b"some records\n" * 100)
    copy = tmp_path / f"{made}-0"
    copy.mkdir()
    for file in (any_broker.directories[0] / f"{made}-0").glob("0*"):  # the rest may be replaced at any time
        shutil.copy(file, copy)
    (whole,) = ottla.json("log", "verify", str(copy), "--deep")
    assert (whole["whole"], whole["records"]) == (True, 100)
    file = copy / "00000000000000000000.log"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    damaged = ottla.attempt("log", "verify", str(copy))
    assert damaged.returncode == 1
    assert "the checksum of the batch at offset 0 does not match" in damaged.stdout.decode()


def test_a_data_directory_is_verified_when_its_node_has_stopped(start_broker: StartBroker, topic: str) -> None:
    with start_broker({"log.segment.bytes": "1048576"}) as broker:
        ottla = Ottla(broker.bootstrap)
        ottla("produce", topic, stdin=(b"x" * 1000 + b"\n") * 3000)
        ottla("group", "reset", topic, "-t", topic, "--to-latest", "--execute")
        (directory,) = broker.directories
        running = ottla.attempt("log", "verify", str(directory))
        assert (running.returncode, b"in use by a node" in running.stderr) == (1, True)
    (report,) = ottla.json("log", "verify", str(directory), "--deep")
    assert (report["whole"], report["damage"], report["leftovers"]) == (True, [], [])
    assert report["records"] > 3000
    assert report["bytes"] > 3_000_000


def test_a_bench_sends_reads_and_times_records(ottla: Ottla, made: str) -> None:
    sent = ottla.json("bench", "producer", made, "-n", "3000", "-s", "50", "-z", "lz4", "--acks", "1")
    assert (sent["records"], sent["bytes"], sent["failed"]) == (3000, 150_000, 0)
    assert 0 < sent["p50_ms"] <= sent["p99_9_ms"] <= sent["latency_max_ms"]
    (line,) = ottla.lines("bench", "producer", made, "-n", "100", "--payload-monotonic", "--throughput", "2000")
    assert line.startswith("100 records sent, ")
    assert line.endswith("ms 99.9th.")
    assert {row["value"] for row in ottla.records(made)} >= {"0", "99"}
    header, row = ottla.lines("bench", "consumer", made, "-n", "3100")
    assert header == CONSUMER_HEADER
    assert row.split(", ")[4] == "3100"
    read = ottla.json("bench", "consumer", made, "-n", "3100", "--group", f"bench-{made}", "--print-metrics")
    assert (read["records"], read["rebalance_seconds"] > 0) == (3100, True)
    assert read["metrics"]


def test_a_bench_in_transactions_leaves_only_what_is_committed(ottla: Ottla, made: str) -> None:
    ottla("bench", "producer", made, "-n", "200", "--transactional-id", f"tx-{made}", "--transaction-duration-ms", "20")
    # A commit has happened when it is decided; the partitions hear of it a moment later.
    until(lambda: len(ottla.records(made, "--committed")) == 200, "all of it is committed", SECONDS)


def test_a_bench_that_finds_too_little_says_so(broker: Broker, topic: str) -> None:
    ottla = Ottla(broker.bootstrap)
    ottla("produce", topic, stdin=b"a\nb\n")
    said = (
        "bench",
        "consumer",
        topic,
        "-n",
        "3",
        "--idle",
        "2",
        "--show-detailed-stats",
        "--reporting-interval",
        "0.2",
    )

    def finds_two() -> bool:
        """A slow machine may be idle before the first."""
        answer = ottla.attempt(*said)
        assert answer.returncode == 0
        assert answer.stdout.decode().splitlines()[0] == DETAILED_HEADER
        assert b" of 3 records" in answer.stderr
        return b"after 2 of 3 records" in answer.stderr

    until(finds_two, "two of three records", SECONDS)


def test_the_way_through_is_timed(ottla: Ottla, topic: str) -> None:
    ottla("topic", "create", topic, "--partitions", "1")
    found = ottla.json("bench", "latency", topic, "-n", "20")
    assert found["records"] == 20
    assert 0 < found["p50_ms"] <= found["latency_max_ms"]
    lines = ottla.lines("bench", "latency", topic, "-n", "5", "--acks", "1", "--set", "linger.ms=1")
    assert lines[0].split("\t")[0] == "0"
    assert lines[1].startswith("Avg latency: ")
    assert lines[2].startswith("Percentiles: 50th = ")


def test_top_shows_what_two_looks_tell(ottla: Ottla, made: str) -> None:
    ottla("produce", made, stdin=b"a record\n" * 50)
    group = f"group-{made}"
    ottla("group", "reset", group, "-t", made, "--to-earliest", "--execute")
    document = ottla.json("top", "--once", "--interval", "0.1")
    (row,) = [each for each in document["topics"] if each["name"] == made]
    assert (row["partitions"], row["records"], row["offline"]) == (3, 50, 0)
    (behind,) = [each for each in document["groups"] if each["name"] == group]
    assert (behind["lag"], behind["state"], behind["members"]) == (50, "Empty", 0)
    assert document["brokers"][0]["leaders"] >= 3
    text = ottla("top", "--once", "--interval", "0.1", "--most", "1000").decode()
    assert text.startswith(f"cluster {document['cluster_id']}  controller 1  brokers 1/1  in ")
    assert made in text


@pytest.mark.parametrize("end", ["q", "ctrl-c"])
def test_top_lives_until_somebody_ends_it(broker: Broker, end: str) -> None:
    program = str(Path(sys.executable).with_name("ottla"))
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40", "OTTLA_CONFIG": os.devnull}
    command = [program, "top", "--interval", "0.1", "--bootstrap", broker.bootstrap]
    shown = bytearray()

    def read() -> bytearray:
        """A terminal that nobody reads would hold the program up."""
        if select.select([ours], [], [], 0.05)[0]:
            shown.extend(os.read(ours, 65536))
        return shown

    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=pipe, env=environment) as process:
        try:
            until(lambda: b"q ends" in read(), "a screen", SECONDS)
            if end == "q":
                os.write(ours, b"q")
            else:
                process.send_signal(signal.SIGINT)
            until(lambda: read() and process.poll() is not None, "its end", SECONDS)
            assert process.stderr is not None
            assert (process.returncode, process.stderr.read()) == (0, b"")
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)
    assert b"BROKER" in shown
    assert b"leader skew" in shown


def test_top_tells_of_a_cluster_that_does_not_answer_and_goes_on(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("ottla")), "top", "--json", "--interval", "0.1", "--timeout", "2"]
    with OttlaProcess(tmp_path / "data") as broker:
        environment = {**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap, "OTTLA_CONFIG": os.devnull}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment) as process:
            try:
                shown, told = process.stdout, process.stderr
                assert shown is not None
                assert told is not None

                def look() -> dict[str, Any]:
                    line = shown.readline()
                    assert line, told.read()
                    found: dict[str, Any] = json.loads(line)
                    return found

                before = look()
                broker.kill()
                while b"connection refused" not in (line := told.readline()):
                    assert line.startswith(b"ottla: ")  # it may have been slow before
                broker.start()
                # What was printed before the gap may still be there to read.
                until(lambda: look()["seconds"] > 1.5, "a look after the gap", SECONDS)
                process.send_signal(signal.SIGINT)
                shown.read()
                assert process.wait(SECONDS) == 0
            finally:
                process.kill()
    assert before["brokers"][0]["id"] == 1
