"""Kafka's own command line tools on a cluster of three nodes. A JVM takes a second to start: few tests, many checks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kit.brokers.cluster_processes import ClusterProcesses
from kit.brokers.processes import until
from kit.others import java

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("tools"), 4, {"auto.leader.rebalance.enable": "false"}) as running:
        yield running


def tool(cluster: ClusterProcesses, name: str, *arguments: str) -> str:
    return java.run(name, "--bootstrap-server", cluster.bootstrap, *arguments).output


def described(cluster: ClusterProcesses, *arguments: str) -> list[str]:
    """The lines about partitions that kafka-topics prints."""
    lines = tool(cluster, "TopicCommand", "--describe", *arguments).splitlines()
    return [line for line in lines if "Partition: " in line]


def fill(cluster: ClusterProcesses, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for _ in range(size // 10_000):
        producer.produce(topic, b"x" * 10_000, partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0


def plan_file(path: Path, topic: str, replicas: dict[int, list[int]]) -> str:
    rows = [{"topic": topic, "partition": number, "replicas": each} for number, each in replicas.items()]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


def replicas_of(cluster: ClusterProcesses, topic: str, index: int = 0) -> list[int]:
    return list(cluster.partition(topic, index)["replica_nodes"])


def test_topics_tells_which_partitions_are_under_replicated_at_min_and_below(
    cluster: ClusterProcesses, topic: str
) -> None:
    cluster.create_topic(topic, 2, min_insync_replicas="2")
    whole = described(cluster, "--topic", topic)
    assert len(whole) == 2
    assert all(len(re.findall(r"\d", line.partition("Isr: ")[2].split()[0])) == 3 for line in whole)
    for only in ("--under-replicated-partitions", "--at-min-isr-partitions", "--under-min-isr-partitions"):
        assert described(cluster, "--topic", topic, only) == []
    holders = replicas_of(cluster, topic)
    gone = [number for number in holders if number != 4 and number != cluster.controller()][:1]
    cluster.kill(*gone)

    def missed(number: int) -> bool:
        answer = cluster.metadata(number, topic)
        rows = answer["topics"][0]["partitions"] if answer else ()
        return [row["isr_nodes"] for row in rows if gone[0] in row["isr_nodes"]] == [] != rows

    living = [number for number in cluster.nodes if number not in gone]
    until(lambda: all(map(missed, living)), "the dead replica is out of sync, in the eyes of every node", SECONDS)
    assert f"{topic}\tPartition: 0" in "\n".join(described(cluster, "--topic", topic, "--under-replicated-partitions"))
    assert f"{topic}\tPartition: 0" in "\n".join(described(cluster, "--topic", topic, "--at-min-isr-partitions"))
    assert described(cluster, "--topic", topic, "--under-min-isr-partitions") == []
    assert described(cluster, "--topic", topic, "--unavailable-partitions") == []
    cluster.start(*gone)
    cluster.heal()
    assert described(cluster, "--under-replicated-partitions") == []


def test_leader_election_gives_leadership_back_to_the_preferred_replica(cluster: ClusterProcesses, topic: str) -> None:
    cluster.create_topic(topic)
    preferred = replicas_of(cluster, topic)[0]
    cluster.stop(preferred)
    until(lambda: cluster.leader(topic) != preferred, "another leader")
    cluster.start(preferred)
    cluster.heal()
    assert cluster.leader(topic) != preferred, "nobody gave it back unasked"
    of_partition = ("--topic", topic, "--partition", "0")
    said = tool(cluster, "LeaderElectionCommand", "--election-type", "preferred", *of_partition)
    assert "Successfully completed leader election" in said
    until(lambda: cluster.leader(topic) == preferred, "the preferred leader", SECONDS)
    again = tool(cluster, "LeaderElectionCommand", "--election-type", "preferred", *of_partition)
    assert "Valid replica already elected" in again
    tool(cluster, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")


def test_reassign_partitions_executes_and_verifies(cluster: ClusterProcesses, topic: str, tmp_path: Path) -> None:
    cluster.create_topic(topic, 2)
    fill(cluster, topic, 500_000)
    others = {
        number: [broker for broker in (1, 2, 3, 4) if broker != replicas_of(cluster, topic, number)[0]]
        for number in (0, 1)
    }
    plan = plan_file(tmp_path / "plan.json", topic, others)
    began = tool(cluster, REASSIGN, "--execute", "--reassignment-json-file", plan)
    assert "Successfully started partition reassignments" in began

    def verify() -> str:
        return tool(cluster, REASSIGN, "--verify", "--reassignment-json-file", plan)

    said = until(lambda: said if "still in progress" not in (said := verify()) else "", "the moves are done", SECONDS)
    assert said.count(f"Reassignment of partition {topic}-") == 2
    assert said.count("is completed.") == 2
    for number, wanted in others.items():

        def is_there(number: int = number, wanted: list[int] = wanted) -> bool:
            found = cluster.partition(topic, number)
            return bool(found["replica_nodes"] == wanted and set(found["isr_nodes"]) == set(wanted))

        until(is_there, f"partition {number} is where it was sent", SECONDS)


def test_reassign_partitions_throttles_lists_and_cancels(cluster: ClusterProcesses, topic: str, tmp_path: Path) -> None:
    cluster.create_topic(topic, copies=2)
    fill(cluster, topic, 4_000_000)
    before = replicas_of(cluster, topic)
    target = [broker for broker in (1, 2, 3, 4) if broker not in before]
    plan = plan_file(tmp_path / "plan.json", topic, {0: target})
    began = tool(cluster, REASSIGN, "--execute", "--reassignment-json-file", plan, "--throttle", "10000")
    assert "The inter-broker throttle limit was set to 10000 B/s" in began
    assert setting(cluster, "topics", topic, "leader.replication.throttled.replicas")
    under_way = tool(cluster, REASSIGN, "--list")
    assert f"{topic}-0: replicas:" in under_way.replace("  ", " ")
    assert "is still in progress" in tool(cluster, REASSIGN, "--verify", "--reassignment-json-file", plan)
    cancelled = tool(cluster, REASSIGN, "--cancel", "--reassignment-json-file", plan)
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled
    until(lambda: sorted(replicas_of(cluster, topic)) == sorted(before), "it stays where it was", SECONDS)
    assert not setting(cluster, "topics", topic, "leader.replication.throttled.replicas")
    assert "No partition reassignments found" in tool(cluster, REASSIGN, "--list")
    assert not setting(cluster, "brokers", str(before[0]), "leader.replication.throttled.rate")
    cluster.heal()


def setting(cluster: ClusterProcesses, kind: str, name: str, key: str) -> str:
    """The value of a dynamic setting as kafka-configs shows it; empty when it is not set."""
    said = tool(cluster, "kafka.admin.ConfigCommand", "--describe", "--entity-type", kind, "--entity-name", name)
    found = re.search(rf"^\s*{re.escape(key)}=(\S+)", said, re.MULTILINE)
    return found[1] if found else ""


def test_metadata_quorum_describes_status_and_replication(cluster: ClusterProcesses) -> None:
    def described_under_one_leader() -> tuple[int, str, str] | None:
        """The leader and what the tool said; on a busy machine another may take over in between."""
        leader = cluster.controller()
        status = tool(cluster, "MetadataQuorumCommand", "describe", "--status")
        table = tool(cluster, "MetadataQuorumCommand", "describe", "--replication")
        led = re.search(rf"^LeaderId:\s+{leader}$", status, re.MULTILINE)
        return (leader, status, table) if led and cluster.controller() == leader else None

    found = until(described_under_one_leader, "a leader that stays", 3 * SECONDS)
    assert found is not None
    leader, text, table = found
    status: dict[str, Any] = dict(line.split(":", 1) for line in text.splitlines())
    assert int(status["LeaderEpoch"]) > 0
    assert int(status["HighWatermark"]) > 0
    assert int(status["MaxFollowerLag"]) >= 0
    voters = re.findall(r'"id": (\d)', status["CurrentVoters"])
    observers = re.findall(r'"id": (\d)', status["CurrentObservers"])
    assert (sorted(voters), observers) == (["1", "2", "3"], ["4"])
    rows = {row.split()[0]: row.split()[-1] for row in table.splitlines()[1:]}
    assert rows[str(leader)] == "Leader"
    assert rows["4"] == "Observer"
    assert sorted(rows.values()) == ["Follower", "Follower", "Leader", "Observer"]


def test_cluster_and_features_tell_about_the_whole(cluster: ClusterProcesses) -> None:
    of_cluster = ("--bootstrap-server", cluster.bootstrap)
    assert re.search(r"Cluster ID: \S{22}", java.run("ClusterTool", "cluster-id", *of_cluster).output)
    listed = java.run("ClusterTool", "list-endpoints", *of_cluster).lines
    assert [line.split()[0] for line in listed[1:]] == ["1", "2", "3", "4"]
    features = tool(cluster, "FeatureCommand", "describe")
    assert re.search(r"Feature: metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: \S+", features)
    assert "Feature: kraft.version" in features
