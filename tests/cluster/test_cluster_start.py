"""`ottla cluster start`: one command is a cluster, and one signal ends it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from kit.brokers.processes import free_ports, until
from kit.brokers.zookeeper import libraries

OTTLA = str(Path(sys.executable).with_name("ottla"))
SECONDS = 150.0


@contextmanager
def started(
    directory: Path, port: int, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A running `ottla cluster start` that has said it is ready."""
    command = [OTTLA, "cluster", "start", "--data", str(directory), "--port", str(port), *arguments]
    own = {**os.environ, **(environment or {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own) as process:
        try:
            yield process
        finally:
            process.kill()
            for file in directory.glob("node-*/pid"):
                with suppress(ProcessLookupError):
                    os.kill(int(file.read_text()), signal.SIGKILL)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> None:
    process.send_signal(number)
    assert process.wait(SECONDS) == 0, process.stderr.read() if process.stderr else ""


def ottla(port: int, *arguments: str, stdin: str = "") -> str:
    """What a command prints that must succeed."""
    command = [OTTLA, *arguments, "--bootstrap", f"127.0.0.1:{port}"]
    answer = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def status_of(port: int) -> dict[str, Any]:
    """What a node says of its cluster, as soon as it can: there may just be no controller."""
    command = [OTTLA, "cluster", "status", "--json", "--bootstrap", f"127.0.0.1:{port}"]

    def answer() -> str:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return ended.stdout if ended.returncode == 0 else ""

    found: dict[str, Any] = json.loads(until(answer, f"an answer to {' '.join(command[1:])}", SECONDS))
    return found


def is_ready(port: int) -> bool:
    """What a node says of itself at its port for metrics."""
    connection = HTTPConnection("localhost", port, timeout=SECONDS)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    said = (answer.status, answer.read())
    connection.close()
    return said == (200, b"ready\n")


def refused(*arguments: str) -> str:
    """The sentence of a start that must fail."""
    command = [OTTLA, "cluster", "start", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert answer.returncode == 1, answer.stdout
    assert answer.stderr.count("\n") == 1, answer.stderr
    return answer.stderr


def test_three_nodes_start_serve_stop_and_start_again_with_what_they_had(tmp_path: Path) -> None:
    port = free_ports(3)
    with started(tmp_path, port, "--brokers", "3") as process:
        addresses = ",".join(f"127.0.0.1:{each}" for each in range(port, port + 3))
        assert f"is ready on {addresses} (3 nodes, data in {tmp_path}" in line_of(process)
        pids = [int((tmp_path / f"node-{number}" / "pid").read_text()) for number in (1, 2, 3)]
        assert len(set(pids)) == 3
        ottla(port, "topic", "create", "orders", "--partitions", "6")
        ottla(port + 1, "produce", "orders", stdin="one\ntwo\nthree\n")

        def whole() -> bool:
            status = status_of(port + 2)
            lacking = status["under_replicated"] + status["offline"] + status["under_min_in_sync"]
            return sum(broker["leaders"] for broker in status["brokers"]) == 6 and not lacking

        until(whole, "every node knows of all partitions, and has its share", SECONDS)
        assert [broker["id"] for broker in status_of(port + 2)["brokers"]] == [1, 2, 3]
        assert [voter["id"] for voter in status_of(port + 2)["quorum"]["voters"]] == [1, 2, 3]
        stop(process)
        assert not list(tmp_path.glob("node-*/pid"))
    metrics = free_ports(3)
    with started(tmp_path, port, "--metrics-port", str(metrics)) as process:
        assert "3 nodes" in line_of(process)
        read = ottla(port, "consume", "orders", "--until-end")
        assert sorted(read.split()) == ["one", "three", "two"]
        until(lambda: all(is_ready(metrics + number) for number in range(3)), "all say that they are ready", SECONDS)
        stop(process, signal.SIGINT)


def test_a_node_that_dies_is_named_and_not_started_again_and_the_rest_stops_cleanly(tmp_path: Path) -> None:
    port = free_ports(3)
    with started(tmp_path, port, "--brokers", "3") as process:
        line_of(process)
        victim = int((tmp_path / "node-2" / "pid").read_text())
        os.kill(victim, signal.SIGKILL)
        said = line_of(process)
        assert said.startswith("node 2 ended: signal 9")
        assert "ottla serve --config" in said

        def living() -> list[int]:
            return [broker["id"] for broker in status_of(port)["brokers"] if not broker["fenced"]]

        until(lambda: living() == [1, 3], "node 2 is missed", SECONDS)
        stop(process)


def test_a_closed_terminal_stops_all_nodes_cleanly_and_costs_none_before(tmp_path: Path) -> None:
    port = free_ports(2)
    with started(tmp_path, port, "--brokers", "2") as process:
        line_of(process)
        assert process.stdout is not None
        process.stdout.close()
        os.kill(int((tmp_path / "node-2" / "pid").read_text()), signal.SIGKILL)
        until(lambda: not (tmp_path / "node-2" / "pid").exists(), "the end of node 2 was told to nobody", SECONDS)
        process.send_signal(signal.SIGHUP)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGHUP)  # the system's and the shell's
        process.wait(SECONDS)
        assert not (tmp_path / "node-1" / "pid").exists()
        assert list((tmp_path / "node-1").rglob(".kafka_cleanshutdown")), "node 1 stopped cleanly"


def test_more_brokers_join_a_cluster_that_is_there(tmp_path: Path) -> None:
    port = free_ports(4)
    with started(tmp_path, port, "--brokers", "3") as process:
        line_of(process)
        stop(process)
    with started(tmp_path, port, "--brokers", "4") as process:
        assert "4 nodes" in line_of(process)

        def known() -> list[int]:
            return [broker["id"] for broker in status_of(port + 3)["brokers"]]

        until(lambda: known() == [1, 2, 3, 4], "the fourth is one of them", SECONDS)
        assert [voter["id"] for voter in status_of(port + 3)["quorum"]["voters"]] == [1, 2, 3]
        stop(process)
    assert "a start cannot take nodes away" in refused("--data", str(tmp_path), "--brokers", "3")


def test_a_start_that_cannot_be_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    port = free_ports(3)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        sentence = refused("--data", str(tmp_path / "cluster"), "--port", str(port))
    assert f"port {port + 1} of node 2 is in use by another process" in sentence
    assert not (tmp_path / "cluster").exists()
    data, first = str(tmp_path / "cluster"), str(port)
    assert "There is no setting 'sense'" in refused("--data", data, "--port", first, "--set", "sense=1")
    assert not list((tmp_path / "cluster").glob("node-*/pid"))
    assert f"has its ports from {port}, not {port + 7}" in refused("--data", data, "--port", str(port + 7))
    (tmp_path / "file").write_text("")
    assert "choose another --data" in refused("--data", str(tmp_path / "file"), "--port", first)


def test_a_cluster_of_zookeepers_starts_with_its_ensemble_and_ends_with_it(tmp_path: Path) -> None:
    port = free_ports(2)
    home = {"ZOOKEEPER_HOME": str(libraries())}
    wanted = ("--brokers", "2", "--coordination", "zookeeper")
    with started(tmp_path, port, *wanted, environment=home) as process:
        assert "is ready on" in line_of(process)
        ottla(port, "topic", "create", "orders", "--replication-factor", "2")
        ottla(port, "produce", "orders", stdin="one\ntwo\n")
        assert [broker["id"] for broker in status_of(port)["brokers"]] == [1, 2]
        servers = int(settings_of(tmp_path / "zookeeper-1" / "zoo.cfg")["clientPort"])
        assert listens(servers)
        stop(process)
    assert not listens(servers), "the ensemble ends with the cluster"
    with started(tmp_path, port, environment=home) as process:
        assert "is ready on" in line_of(process)
        assert ottla(port, "consume", "orders", "--until-end") == "one\ntwo\n"
        stop(process)
    assert "is coordinated by ZooKeeper" in refused("--data", str(tmp_path), "--coordination", "quorum")


def settings_of(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
