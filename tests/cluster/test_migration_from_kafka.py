"""What a real Kafka of the ZooKeeper times left, its tree and its data, is gone on with: by ZooKeeper or the quorum.

Kafka 3.9 is the last release that ZooKeeper could coordinate.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kit.brokers.command_line import Ottla
from kit.brokers.processes import OttlaProcess, free_port, until
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.others import java

LAST = "3.9.1"
CHROOT = "/kafka"
SECONDS = 240.0
RECORDS = 100


class Left(NamedTuple):
    """What there was when Kafka stopped."""

    ensemble: ZooKeeperEnsemble
    data: Path
    topic_id: str
    cluster_id: str
    ends: dict[int, int]

    @property
    def connect(self) -> str:
        return self.ensemble.connect + CHROOT


@contextmanager
def kafka(folder: Path, connect: str) -> Iterator[Ottla]:
    """A broker of Kafka's, and the commands for it; it is stopped cleanly."""
    port = free_port()
    settings = folder / "kafka.properties"
    settings.write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        f"zookeeper.connect={connect}\nlog.dirs={folder / 'data'}\n"
        "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=2\ngroup.initial.rebalance.delay.ms=0\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "transaction.state.log.num.partitions=2\n"
    )

    def serves() -> bool:
        assert process.poll() is None, (folder / "kafka.log").read_text(errors="replace")[-3000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with (folder / "kafka.log").open("wb") as log:
        command = java.command("kafka.Kafka", str(settings), version=LAST)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until(serves, "Kafka serves", SECONDS)
        yield Ottla(f"127.0.0.1:{port}")
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()


def ends(ottla: Ottla) -> dict[int, int]:
    return {row["partition"]: row["latest_offset"] for row in ottla.json("topic", "offsets", "orders")}


def described(ottla: Ottla) -> dict[str, Any]:
    (found,) = ottla.json("topic", "describe", "orders")
    return dict(found)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    """A topic with plain and transactional records, a setting, and a group that has read all of it."""
    folder = tmp_path_factory.mktemp("kafka")
    with ZooKeeperEnsemble(folder / "ensemble") as ensemble:
        with kafka(folder, ensemble.connect + CHROOT) as ottla:
            ottla("topic", "create", "orders", "-p", "2", "-r", "1", "-c", "retention.ms=604800001")
            ottla("produce", "orders", stdin=b"a record\n" * RECORDS)
            ottla("bench", "producer", "orders", "-n", str(RECORDS), "--transactional-id", "till")
            until(lambda: len(ottla.records("orders", "--committed")) == 2 * RECORDS, "all is committed", SECONDS)
            ottla("group", "reset", "kitchen", "-t", "orders", "--to-latest", "--execute")
            status = ottla.json("cluster", "status")
            topic_id, found = described(ottla)["id"], ends(ottla)
        client = ensemble.client(CHROOT)
        until(lambda: not client.get_children("/brokers/ids"), "the session has ended", SECONDS)
        client.stop()
        client.close()
        yield Left(ensemble, folder / "data", topic_id, status["cluster_id"], found)


def assert_all_is_there(ottla: Ottla, left: Left) -> None:
    """What Kafka left, and that it goes on from there."""
    until(lambda: ottla.json("cluster", "status")["offline"] == [], "every partition is led", SECONDS)
    assert ottla.json("cluster", "status")["cluster_id"] == left.cluster_id
    assert described(ottla)["id"] == left.topic_id
    assert ends(ottla) == left.ends
    assert len(ottla.records("orders", "--committed")) == 2 * RECORDS
    settings = {row["name"]: row["value"] for row in ottla.json("config", "describe", "topic", "orders")["configs"]}
    assert settings["retention.ms"] == "604800001"
    (group,) = ottla.json("group", "describe", "kitchen")
    assert {row["partition"]: row["committed"] for row in group["partitions"]} == left.ends
    ottla("bench", "producer", "orders", "-n", "10", "--transactional-id", "till")
    until(lambda: len(ottla.records("orders", "--committed")) == 2 * RECORDS + 10, "it goes on", SECONDS)
    (group,) = ottla.json("group", "describe", "kitchen")
    assert group["lag"] >= 10


def test_a_tree_and_a_directory_of_kafkas_are_moved_to_the_quorum(left: Left, tmp_path: Path) -> None:
    data = shutil.copytree(left.data, tmp_path / "data")
    file = tmp_path / "quorum.properties"
    file.write_text(f"node.id=1\nlog.dirs={data}\n")
    moved = Ottla(None).json("quorum", "migrate", "--zookeeper", left.connect, "--config", str(file), "--execute")
    assert (moved["cluster_id"], moved["topics"]["orders"], moved["brokers"]) == (left.cluster_id, 2, [1])
    with OttlaProcess(data) as node:
        assert_all_is_there(Ottla(node.bootstrap), left)


def test_a_tree_and_a_directory_of_kafkas_are_gone_on_with(left: Left, tmp_path: Path) -> None:
    data = shutil.copytree(left.data, tmp_path / "data")
    with OttlaProcess(data, {"broker.id": "1", "zookeeper.connect": left.connect}) as node:
        assert_all_is_there(Ottla(node.bootstrap), left)
