"""A cluster whose nodes are killed under load loses, repeats and reorders nothing it acknowledged."""

from __future__ import annotations

import pytest

from cluster.traffic import Traffic
from kit.brokers.cluster_processes import ClusterProcesses, NewCluster

PARTITIONS = 3


def victims(cluster: ClusterProcesses, whom: str) -> list[int]:
    """The nodes a story is about, chosen at the moment of the blow."""
    leader, controller = cluster.leader("numbers"), cluster.controller()
    others = [number for number in cluster.nodes if number != leader]
    return {
        "the leader": [leader],
        "a follower": others[:1],
        "the controller": [controller],
        "two at once": [leader, others[0]],
        "all at once": list(cluster.nodes),
    }[whom]


@pytest.mark.parametrize("whom", ["the leader", "a follower", "the controller"])
def test_a_cluster_goes_on_without_a_killed_node_and_takes_it_back(new_cluster: NewCluster, whom: str) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(500)
            for _ in range(2):
                dead = victims(cluster, whom)
                cluster.kill(*dead)
                traffic.go_on(500)
                cluster.start(*dead)
                traffic.go_on(300)
                cluster.heal()
        assert traffic.verdict() == []


@pytest.mark.parametrize("whom", ["two at once", "all at once"])
def test_a_cluster_without_a_majority_waits_and_loses_nothing(new_cluster: NewCluster, whom: str) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(500)
            for _ in range(2):
                dead = victims(cluster, whom)
                cluster.kill(*dead)
                cluster.start(*dead)
                traffic.go_on(500)
                cluster.heal()
        assert traffic.verdict() == []
