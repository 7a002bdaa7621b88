"""A cluster that ZooKeeper coordinates, under faults of its nodes and of the ensemble: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.traffic import Traffic
from support.processes import until
from support.zookeeper import ZooKeeperEnsemble
from support.zookeeper_clusters import ZooKeeperCluster

PARTITIONS = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """One server for the stories in which it lives; each has its own place in the tree."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def without_controller(cluster: ZooKeeperCluster) -> bool:
    """Whether the controller has given up, because it cannot know whether its session lasts."""
    return any(
        "ZooKeeper was not reached for as long as a session lasts" in node.log for node in cluster.nodes.values()
    )


def test_killed_brokers_and_controllers_are_replaced_and_come_back(tmp_path: Path, ensemble: ZooKeeperEnsemble) -> None:
    with ZooKeeperCluster(tmp_path, ensemble, chroot="/kills") as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(300)
            for whom in ("the controller", "the leader"):
                dead = cluster.controller() if whom == "the controller" else cluster.leader("numbers")
                cluster.kill(dead)
                traffic.go_on(300)
                cluster.start(dead)
                cluster.heal()
        assert traffic.verdict() == []
        epoch = int(cluster.tree.get("/controller_epoch")[0])
        assert epoch >= 2, "the death of a controller begins another epoch"


def test_a_controller_that_was_frozen_beyond_its_session_wakes_up_fenced(
    tmp_path: Path, server: ZooKeeperEnsemble
) -> None:
    with ZooKeeperCluster(tmp_path, server, chroot="/frozen") as cluster:
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
