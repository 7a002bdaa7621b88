"""Faults that only a cluster with ZooKeeper knows: an ensemble that dies, a controller whose session ended unseen.

What kills, silences and cuts do to any cluster is told in `test_cluster_*.py`, on both ways of coordination.
"""

from __future__ import annotations

from pathlib import Path

from cluster.traffic import Traffic
from support.processes import until
from support.zookeeper import ZooKeeperEnsemble
from support.zookeeper_clusters import ZooKeeperCluster

PARTITIONS = 3


def without_controller(cluster: ZooKeeperCluster) -> bool:
    """Whether the controller has given up, because it cannot know whether its session lasts."""
    return any(
        "ZooKeeper was not reached for as long as a session lasts" in node.log for node in cluster.nodes.values()
    )


def test_a_controller_that_was_frozen_beyond_its_session_wakes_up_fenced(
    tmp_path: Path, zookeeper: ZooKeeperEnsemble
) -> None:
    with ZooKeeperCluster(tmp_path, zookeeper, chroot="/frozen") as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(300)
            asleep = cluster.controller()
            before = int(cluster.tree.get("/controller_epoch")[0])
            cluster.freeze(asleep)
            until(lambda: cluster.controller() != asleep, "another controller", 60.0)
            until(lambda: str(asleep) not in cluster.tree.get_children("/brokers/ids"), "its broker is gone", 60.0)
            traffic.go_on(300)
            cluster.thaw(asleep)
            node = cluster.nodes[asleep]
            until(lambda: f"is no longer the controller of epoch {before}" in node.log, "it steps down", 60.0)
            traffic.go_on(300)
            cluster.heal()
        assert traffic.verdict() == []
        assert all(cluster.znode(f"/brokers/ids/{number}") for number in cluster.nodes), "it registered anew"


def test_the_death_of_zookeeper_servers_one_by_one_and_all_together_stops_no_producer(tmp_path: Path) -> None:
    with (
        ZooKeeperEnsemble(tmp_path / "ensemble", 3) as ensemble,
        ZooKeeperCluster(tmp_path / "cluster", ensemble) as cluster,
    ):
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(300)
            for whom in ("a follower", "the leader"):
                leader = ensemble.leader()
                dead = leader if whom == "the leader" else next(each for each in ensemble.servers if each != leader)
                ensemble.kill(dead)
                traffic.go_on(300)
                ensemble.start(dead)
                cluster.create_topic(f"after-{dead}-{whom.split()[1]}")
            ensemble.kill()
            until(lambda: without_controller(cluster), "nobody leads without ZooKeeper", 60.0)
            # Leaders go on leading: what is in sync is in sync.
            traffic.go_on(1000)
            ensemble.start()
            traffic.go_on(300)
            cluster.heal()
            cluster.create_topic("afterwards")
        assert traffic.verdict() == []
