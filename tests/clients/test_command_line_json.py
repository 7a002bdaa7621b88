"""What nodes and clusters in the foreground say to programs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ottla
from kit.brokers.command_line import Ottla
from kit.brokers.processes import free_port

OTTLA = str(Path(sys.executable).with_name("ottla"))
SECONDS = 120


@contextlib.contextmanager
def started(log: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in the foreground, which ends with the test at the latest."""
    command = [OTTLA, *arguments, "--json"]
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as made:
        try:
            yield made
        finally:
            if made.poll() is None:
                made.terminate()


def next_object(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def test_a_node_that_is_ready_is_an_object(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    where = ("--port", "0", "--data", data, "--metrics-port", "0")
    with started(tmp_path / "log", "serve", *where) as process:
        ready = next_object(process)
        assert Ottla(ready["address"]).json("cluster", "status")["cluster_id"] == ready["cluster_id"]
        process.terminate()
        assert process.wait(SECONDS) == 0
    assert ready.pop("seconds") > 0
    assert len(ready.pop("cluster_id")) == 22
    assert re.fullmatch(r"localhost:\d{4,5}", ready["address"])
    assert re.fullmatch(r"localhost:\d{4,5}", ready.pop("metrics"))
    address = ready.pop("address")
    assert ready == {
        "event": "ready",
        "version": ottla.__version__,
        "listeners": {"PLAINTEXT": address},
        "node_id": 1,
        "data": [data],
    }


def test_a_cluster_that_is_ready_and_a_node_that_ends_are_objects(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "cluster"
    where = ("--brokers", "1", "--port", str(port), "--data", str(data))
    with started(tmp_path / "log", "cluster", "start", *where) as process:
        ready = next_object(process)
        os.kill(int((data / "node-1" / "pid").read_text()), signal.SIGKILL)
        ended = next_object(process)
        assert process.wait(SECONDS) == 1, "no node is left"
    config = str(data / "node-1" / "server.properties")
    assert (ready["event"], ready["bootstrap"], ready["data"]) == ("ready", f"127.0.0.1:{port}", str(data))
    assert ready["nodes"] == [{"node_id": 1, "address": f"127.0.0.1:{port}", "config": config}]
    assert (ended["event"], ended["node_id"], ended["config"]) == ("ended", 1, config)
    assert "signal 9" in ended["reason"]


def test_formatting_answers_the_id_of_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text(
        f"node.id=7\nprocess.roles=broker,controller\nlog.dirs={tmp_path / 'a'},{tmp_path / 'b'}\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=7@localhost:9093\n"
    )
    command = Ottla(None)
    first = command.json("format", "--config", str(file))
    again = command.json("format", "--config", str(file), "--cluster-id", first["cluster_id"], "--ignore-formatted")
    assert (first["node_id"], len(first["cluster_id"])) == (7, 22)
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert first["directories"] == [{"path": path, "formatted": True} for path in paths]
    assert again == {**first, "directories": [{"path": path, "formatted": False} for path in paths]}
