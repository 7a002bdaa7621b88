"""Faults that only a cluster with ZooKeeper knows: servers that die, a controller whose session ended unseen.

An ensemble that dies as a whole is told in `test_zookeeper_outage.py`; what kills, silences and cuts do to any cluster
is told in `test_cluster_*.py`, on both ways of coordination.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from cluster.traffic import Traffic
from kit.brokers.cluster_processes import HOST, NodeProcess
from kit.brokers.processes import until
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.brokers.zookeeper_clusters import ONLY_THE_STORYS_TOPICS, ZooKeeperCluster
from kit.wire.raw import RawConnection

PARTITIONS = 3


def control_port(node: NodeProcess) -> int:
    return int(node.settings["listeners"].rpartition(":")[2])


def ask_for(connection: RawConnection, topic: str) -> None:
    """Ask a controller itself, which passes nothing on to another."""
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    connection.send("create_topics", 7, {"topics": [wanted], "timeout": 30_000})


def test_a_controller_that_was_frozen_beyond_its_session_wakes_up_and_its_writes_are_refused(
    tmp_path: Path, zookeeper: ZooKeeperEnsemble
) -> None:
    settings = {**ONLY_THE_STORYS_TOPICS, "zookeeper.session.timeout.ms": "8000"}
    cluster = ZooKeeperCluster(tmp_path, zookeeper, settings=settings, chroot="/frozen")
    relays = cluster.reach_over_relays()
    with cluster, ExitStack() as connections:
        cluster.create_topic("sleep", PARTITIONS)
        with Traffic(cluster.bootstrap, "sleep", PARTITIONS) as traffic:
            traffic.go_on(300)
            asleep = cluster.controller()
            node = cluster.nodes[asleep]
            before = int(cluster.tree.get("/controller_epoch")[0])
            before_it_slept, while_it_slept = (
                connections.enter_context(RawConnection(HOST, control_port(node))) for _ in range(2)
            )
            # A write is under way when it falls asleep, and another is asked for before it wakes up.
            relays[asleep].hold()
            ask_for(before_it_slept, "under-way")
            until(lambda: b"under-way" in relays[asleep].held, "its write is under way", 60.0)
            cluster.freeze(asleep)
            ask_for(while_it_slept, "asked-for")
            until(lambda: cluster.controller() != asleep, "another controller", 60.0)
            until(lambda: str(asleep) not in cluster.tree.get_children("/brokers/ids"), "its broker is gone", 60.0)
            relays[asleep].release()
            cluster.thaw(asleep)
            for connection in (before_it_slept, while_it_slept):
                assert connection.receive()["topics"][0]["error_code"] == "not_controller"
            refusal = f"a write of the controller of epoch {before} was refused: BadVersion at /controller_epoch"
            until(lambda: refusal in node.log, "the ensemble refused what it wrote", 60.0)
            until(lambda: f"is no longer the controller of epoch {before}" in node.log, "it steps down", 60.0)
            traffic.go_on(300)
            cluster.heal()
        assert traffic.verdict() == []
        assert int(cluster.tree.get("/controller_epoch")[0]) > before
        assert not {"under-way", "asked-for"} & set(cluster.tree.get_children("/brokers/topics"))
        assert all(cluster.znode(f"/brokers/ids/{number}") for number in cluster.nodes), "it registered anew"


def test_the_death_of_a_zookeeper_follower_and_of_the_leader_stops_no_producer(tmp_path: Path) -> None:
    with (
        ZooKeeperEnsemble(tmp_path / "ensemble", 3) as ensemble,
        ZooKeeperCluster(tmp_path / "cluster", ensemble, settings=ONLY_THE_STORYS_TOPICS) as cluster,
    ):
        cluster.create_topic("deaths", PARTITIONS)
        with Traffic(cluster.bootstrap, "deaths", PARTITIONS) as traffic:
            traffic.go_on(300)
            for whom in ("a follower", "the leader"):
                leader = ensemble.leader()
                dead = leader if whom == "the leader" else next(each for each in ensemble.servers if each != leader)
                ensemble.kill(dead)
                traffic.go_on(300)
                ensemble.start(dead)
                cluster.create_topic(f"after-{dead}-{whom.split()[1]}")
            cluster.heal()
        assert traffic.verdict() == []
