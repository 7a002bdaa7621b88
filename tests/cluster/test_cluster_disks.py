"""Disks of a cluster under load: replaced one after the other, and one of a broker's several failing."""

from __future__ import annotations

import errno
import shutil
from functools import partial
from pathlib import Path

from cluster.failing_disk import FailingDisk
from cluster.traffic import Traffic
from kit.brokers.cluster_processes import HEAL_SECONDS, ClusterProcesses, NewCluster, NodeProcess
from kit.brokers.processes import until

PARTITIONS = 6
STEADY = {
    "zookeeper.session.timeout.ms": "15000",  # nobody is to be missed here
    "auto.leader.rebalance.enable": "false",  # leadership moves when the story says so
}


def test_new_disks_one_node_after_the_other_leave_every_partition_led_and_every_first_replica_able_to_lead(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(settings=STEADY)
    for node in cluster.nodes.values():
        # The quorum's log lies on another disk: a voter that lost its memory is another story.
        node.settings["metadata.log.dir"] = str(node.folder / "metadata")
        node.format(node.folder / "metadata", cluster.id)
        node.write_settings()
    with cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            for number, node in cluster.nodes.items():
                traffic.go_on(300)
                cluster.stop(number)
                shutil.rmtree(node.data)
                node.format(node.data, cluster.id)
                cluster.start(number)
                cluster.heal()
            cluster.spread("numbers", PARTITIONS)
            traffic.go_on(300)
        assert traffic.verdict() == []


def test_a_directory_that_fails_on_one_broker_gives_its_leaderships_to_others_and_the_broker_serves_on(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(settings=STEADY)
    troubled = cluster.nodes[1]
    for node in cluster.nodes.values():
        node.settings["log.dirs"] = f"{node.data},{second(node)}"
        node.settings["metadata.log.dir"] = str(node.data)
        node.write_settings()
    disk = FailingDisk(second(troubled), tmp_path)
    troubled.environment = disk.environment
    with cluster:
        cluster.create_topic("numbers", PARTITIONS)
        cluster.spread("numbers", PARTITIONS)
        led = led_by(cluster, troubled)
        lost = led & {int(path.name.rpartition("-")[2]) for path in second(troubled).glob("numbers-*")}
        assert lost, "it leads some of what lies there"
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(300)
            disk.fail(errno.EIO)
            until(lambda: not lost & led_by(cluster, troubled), "others lead what lay there", HEAL_SECONDS)
            traffic.go_on(300)
            assert troubled.running
            assert led_by(cluster, troubled) == led - lost, "what lies in its other directory it leads as before"
            disk.heal()
            cluster.restart(1)
            cluster.heal()
            cluster.spread("numbers", PARTITIONS)
            traffic.go_on(300)
        assert traffic.verdict() == []


def second(node: NodeProcess) -> Path:
    return node.folder / "second"


def led_by(cluster: ClusterProcesses, node: NodeProcess) -> set[int]:
    """The partitions that a node leads, in the eyes of another one."""
    answer = until(partial(cluster.metadata, 2, "numbers"), "node 2 answers", HEAL_SECONDS)
    assert answer is not None
    rows = answer["topics"][0]["partitions"]
    return {row["partition_index"] for row in rows if row["leader_id"] == node.node_id}
