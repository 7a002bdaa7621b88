"""`ottla cluster status` and `ottla partition …` on a cluster: what is shown is so, what is ordered is done."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from support.cluster_processes import ClusterProcesses
from support.processes import until

OTTLA = str(Path(sys.executable).with_name("ottla"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("commands"), 4, {"auto.leader.rebalance.enable": "false"}) as running:
        yield running


def ottla(cluster: ClusterProcesses, *arguments: str, code: int = 0) -> str:
    """What a command prints; standard error when it is to fail."""
    command = [OTTLA, *arguments, "--bootstrap", cluster.bootstrap]
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stderr if code else answer.stdout


def status(cluster: ClusterProcesses) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ottla(cluster, "cluster", "status", "--json"))
    return found


def replicas(cluster: ClusterProcesses, topic: str, index: int = 0) -> list[int]:
    return list(cluster.partition(topic, index)["replica_nodes"])


def fill(cluster: ClusterProcesses, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for _ in range(size // 10_000):
        producer.produce(topic, b"x" * 10_000, partition=0)
        producer.poll(0)
    assert producer.flush(30.0) == 0


def test_status_shows_a_missing_broker_and_what_it_leaves_behind(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic, 2)
    whole = status(cluster)
    assert whole["controller"] == cluster.controller()
    assert [voter["id"] for voter in whole["quorum"]["voters"]] == [1, 2, 3]
    assert [observer["id"] for observer in whole["quorum"]["observers"]] == [4]
    assert whole["under_replicated"] == []
    gone = replicas(cluster, topic)[0]
    cluster.stop(gone)
    until(lambda: gone not in cluster.partition(topic)["isr_nodes"], "it is out of sync", 30.0)
    broken = status(cluster)
    assert {"topic": topic, "partition": 0}.items() <= broken["under_replicated"][0].items()
    assert gone not in [broker["id"] for broker in broken["brokers"] if not broker["fenced"]]
    shown = ottla(cluster, "cluster", "status")
    assert "under-replicated" in shown
    cluster.start(gone)
    cluster.heal()
    assert status(cluster)["under_replicated"] == []


def test_elect_gives_leadership_back(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic)
    preferred = replicas(cluster, topic)[0]
    cluster.restart(preferred)
    cluster.heal()
    assert cluster.leader(topic) != preferred
    assert f"elected a leader for {topic}:0" in ottla(cluster, "partition", "elect", f"{topic}:0")
    assert cluster.leader(topic) == preferred
    assert "led as it should be" in ottla(cluster, "partition", "elect", topic)
    assert "does not exist" in ottla(cluster, "partition", "elect", f"{topic}-not", code=1)


def test_reassign_moves_bounds_shows_and_cancels(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic, copies=2)
    fill(cluster, topic, 3_000_000)
    before = replicas(cluster, topic)
    target = [broker for broker in cluster.nodes if broker not in before]
    order = f"{topic}:0={','.join(map(str, target))}"
    assert "moving 1 partition" in ottla(cluster, "partition", "reassign", order, "--throttle", "100KB", "--no-wait")
    (move,) = json.loads(ottla(cluster, "partition", "reassign", "--status", "--json"))
    assert sorted(move["adding"]) == sorted(target)
    assert 0 <= move["copied"] < move["size"]
    assert "cancelled 1 partition" in ottla(cluster, "partition", "reassign", "--cancel", topic)
    assert sorted(replicas(cluster, topic)) == sorted(before)
    assert "no partition is being moved" in ottla(cluster, "partition", "reassign", "--status")
    assert "moved 1 partition" in ottla(cluster, "partition", "reassign", order)
    assert replicas(cluster, topic) == target
    assert cluster.leader(topic) == target[0]
    assert "no such broker" in ottla(cluster, "partition", "reassign", f"{topic}:0=77", code=1).replace("\n", " ")


def test_balance_shows_its_plan_and_carries_it_out_when_told_to(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic, 4, 1)
    for index in range(4):
        ottla(cluster, "partition", "reassign", f"{topic}:{index}=1")
    shown = ottla(cluster, "partition", "balance", topic)
    assert "add --yes to carry this plan out" in shown
    assert [replicas(cluster, topic, index) for index in range(4)] == [[1]] * 4
    assert "moved 3 partitions" in ottla(cluster, "partition", "balance", topic, "--yes")
    assert sorted(replicas(cluster, topic, index)[0] for index in range(4)) == [1, 2, 3, 4]
    assert "nothing to do" in ottla(cluster, "partition", "balance", topic)
