"""One quorum of two real Kafka controllers and one of ours: they elect each other and keep the same log."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.brokers.processes import free_port, until
from kit.others.java import attempt, command

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
PATIENCE_MS = 15_000
"""A leader that a busy machine lets wait for a moment stays the leader; one that stops says so."""
SECONDS = 120.0
ROUNDS = 20
"""Two could be elected each time: ours may have to wait a few times for its turn."""
KAFKAS = (1, 2)
OURS = 3
LOG = "__cluster_metadata-0/00000000000000000000.log"


class Controllers:
    """Three controllers as processes, by node id."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        ports = {node_id: free_port() for node_id in (*KAFKAS, OURS)}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
        for node_id, port in ports.items():
            self.settings(node_id).write_text(
                "process.roles=controller\n"
                f"node.id={node_id}\n"
                "controller.listener.names=CONTROLLER\n"
                f"listeners=CONTROLLER://127.0.0.1:{port}\n"
                f"advertised.listeners=CONTROLLER://127.0.0.1:{port}\n"
                f"controller.quorum.voters={voters}\n"
                f"controller.quorum.fetch.timeout.ms={PATIENCE_MS}\n"
                f"log.dirs={self.data(node_id)}\n"
            )

    def settings(self, node_id: int) -> Path:
        return self._path / f"{node_id}.properties"

    def data(self, node_id: int) -> Path:
        return self._path / f"node-{node_id}"

    def ottla(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ottla.cli.main", *arguments, "--config", str(self.settings(OURS))]

    def format(self) -> None:
        for node_id in KAFKAS:
            done = attempt("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self.settings(node_id)))
            assert done.code == 0, done.errors
        subprocess.run(self.ottla("format", "--cluster-id", CLUSTER), check=True, capture_output=True)

    def start(self, node_id: int) -> None:
        words = self.ottla("serve") if node_id == OURS else command("kafka.Kafka", str(self.settings(node_id)))
        with (self._path / f"{node_id}.log").open("ab") as log:
            self._running[node_id] = subprocess.Popen(words, stdout=log, stderr=log)

    def stop(self, node_id: int) -> None:
        process = self._running.pop(node_id)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def election(self, node_id: int) -> tuple[int, int]:
        """Epoch and leader, as the node has written them down."""
        path = self.data(node_id) / "__cluster_metadata-0" / "quorum-state"
        if not path.exists():
            return 0, -1
        fields: dict[str, Any] = json.loads(path.read_text())
        return int(fields["leaderEpoch"]), int(fields["leaderId"])

    def agreed_leader(self) -> int:
        """The leader, once all that run know it."""

        def found() -> int:
            elections = {self.election(node_id) for node_id in self._running}
            leader_id = max(elections)[1]
            return leader_id if len(elections) == 1 and leader_id in self._running else 0

        return until(found, "a leader that all know", SECONDS)

    def common_bytes(self) -> int:
        """How much of their logs those that run have, and is the same; 0 as long as one has yet to be cut."""
        paths = [self.data(node_id) / LOG for node_id in self._running]
        logs = [path.read_bytes() if path.exists() else b"" for path in paths]
        size = min(map(len, logs))
        return size if len({log[:size] for log in logs}) == 1 else 0


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    yield made
    made.stop_all()


def test_real_controllers_and_ours_elect_each_other_and_keep_one_log(controllers: Controllers) -> None:
    controllers.format()
    for node_id in KAFKAS:
        controllers.start(node_id)
    leader_id = controllers.agreed_leader()
    assert leader_id in KAFKAS
    controllers.start(OURS)
    assert controllers.agreed_leader() == leader_id
    until(lambda: controllers.common_bytes() > 1000, "a log that all have", SECONDS)

    for _ in range(ROUNDS):
        if leader_id == OURS:
            break
        # A real one that leads stops in good order; the two others elect one of themselves.
        stopped = leader_id
        controllers.stop(stopped)
        leader_id = controllers.agreed_leader()
        assert leader_id != stopped
        if leader_id != OURS:
            controllers.start(stopped)
            controllers.agreed_leader()
    assert leader_id == OURS, "ours was never elected"
    size = controllers.common_bytes()
    until(lambda: controllers.common_bytes() > size, "a real controller that follows ours", SECONDS)
