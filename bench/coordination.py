"""The quorum and ZooKeeper, side by side: three ottla nodes, replication factor 3, acks=all, coordinated by either.

Owns: what is measured of the two, and its table. Never knows: how either works. ZooKeeper is one server on the same
machine, as `ottla cluster start --coordination zookeeper` runs it; its process counts for memory.
"""

import json
import os
import signal
import subprocess
import time
from itertools import count
from typing import NamedTuple

from bench.brokers import HERE
from bench.cluster import create_partitions, created, gap, partitions_of, start, until, wait_until_whole
from bench.clusters import NODES, OttlaCluster, resident_kilobytes
from bench.turns import Numbers, in_turn
from bench.wire import Connection

from ottla.node.local_cluster import prepare
from ottla.node.local_ensemble import LocalEnsemble, connect_string, launch_command, prepare_ensemble

SURVIVORS = len(NODES) - 1


class Row(NamedTuple):
    label: str
    key: str
    unit: str


ROWS = (
    Row("start to first write of a replicated topic", "start", "s"),
    Row("creating 1,000 partitions", "create_partitions", "s"),
    Row("longest gap between acknowledgements after kill -9 of the leader", "gap_leader", "s"),
    Row("… of a leader that is the controller too", "gap_both", "s"),
    Row("… after a controlled stop of the leader", "gap_stopped", "s"),
    Row("a topic can be created again after kill -9 of the controller", "without_controller", "s"),
    Row("resident memory of all processes", "resident", "MB"),
)
Found = dict[str, dict[str, Numbers]]


class QuorumCluster(OttlaCluster):
    name = "quorum"


class ZooKeeperCluster(OttlaCluster):
    """The nodes one by one and the ensemble beside them, which stays when every node was killed once."""

    name = "zookeeper"
    _ensemble: LocalEnsemble | None = None

    def start(self) -> None:
        found = subprocess.run(
            [str(HERE.parent / "scripts" / "real-zookeeper")], check=True, stdout=subprocess.PIPE, text=True
        )
        command = launch_command({**os.environ, "ZOOKEEPER_HOME": found.stdout.strip()})
        servers = prepare_ensemble(str(self.home), 1, self.first_port)
        prepare(str(self.home), len(NODES), self.first_port, connect_string(servers))
        self._ensemble = LocalEnsemble(servers, command)
        self._ensemble.start()
        for node in NODES:
            self.restart(node)

    def stop(self) -> None:
        super().stop()
        if self._ensemble is not None:
            self._ensemble.stop()

    def resident_megabytes(self) -> float:
        server = int((self.home / "zookeeper-1" / "pid").read_text())
        return super().resident_megabytes() + resident_kilobytes(server) / 1024


KINDS: tuple[type[OttlaCluster], ...] = (QuorumCluster, ZooKeeperCluster)


def measure(starts: int) -> Found:
    return in_turn("coordination", KINDS, starts, numbers_of)


def numbers_of(cluster: OttlaCluster) -> tuple[Numbers, Numbers]:
    cluster.format()
    try:
        found = {"start": start(cluster), "resident": cluster.resident_megabytes()}
        found["create_partitions"] = create_partitions(cluster)
        controller = controller_of(cluster)
        found["gap_leader"] = gap(cluster, led_by(cluster, "other", NODES[controller % len(NODES)]), signal.SIGKILL)
        controller = controller_of(cluster)
        found["gap_both"] = gap(cluster, led_by(cluster, "both", controller), signal.SIGKILL)
        found["gap_stopped"] = gap(cluster, "stopped", signal.SIGTERM)
        found["without_controller"] = without_controller(cluster)
        return found, {}
    finally:
        cluster.stop()
        cluster.remove()


def controller_of(cluster: OttlaCluster) -> int:
    """As any administrator would ask."""
    answer = subprocess.run(
        [cluster.program, "cluster", "status", "--json", "-b", cluster.address], check=True, stdout=subprocess.PIPE
    )
    return int(json.loads(answer.stdout)["controller"])


def led_by(cluster: OttlaCluster, name: str, node: int) -> str:
    """A new topic of one partition whose leader is this node."""
    for number in count():
        topic = f"{name}-{number}"
        assert created(cluster, topic, 1), "the topic is created"
        wait_until_whole(cluster, topic)
        if partitions_of(cluster, topic)[0].leader == node:
            return topic
    raise AssertionError("the count has no end")


def without_controller(cluster: OttlaCluster) -> float:
    """Seconds from the death of the controller until another node has made a topic."""
    dead = controller_of(cluster)
    asked = cluster.port_of(NODES[dead % len(NODES)])
    pid = cluster.pid_of(dead)
    begin = time.perf_counter()
    os.kill(pid, signal.SIGKILL)

    def made() -> bool:
        with Connection(asked) as connection:
            connection.create_topics(["after"], 1, replicas=SURVIVORS)
        return True

    until(made, "a topic without the controller that was")
    seconds = time.perf_counter() - begin
    cluster.wait_for_end(pid, dead)
    cluster.restart(dead)
    wait_until_whole(cluster, "first")
    return seconds


def table(found: Found) -> str:
    lines = [
        "| three ottla nodes, RF 3, acks=all | quorum | ZooKeeper | quorum ÷ ZooKeeper |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in ROWS:
        quorum, zookeeper = (found[kind.name]["cold"][row.key] for kind in KINDS)
        digits = 0 if row.unit == "MB" else 2
        lines.append(
            f"| {row.label} | {quorum:,.{digits}f} {row.unit} | {zookeeper:,.{digits}f} {row.unit} "
            f"| {quorum / zookeeper:.2f} |"
        )
    return "\n".join(lines)
