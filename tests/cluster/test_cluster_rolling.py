"""Nodes are stopped and started one after the other under load, and no client has a reason to complain."""

from __future__ import annotations

from cluster.traffic import Traffic
from support.cluster_processes import NewCluster

PARTITIONS = 6


def test_a_rolling_restart_under_load_fails_no_send(new_cluster: NewCluster) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        # A send may take a few seconds, retries included, and not more.
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS, {"message.timeout.ms": 10_000}) as traffic:
            for number in cluster.nodes:
                traffic.go_on(500)
                cluster.restart(number)
                cluster.heal()
            traffic.go_on(500)
        assert traffic.sender.failures == []
        assert traffic.verdict() == []


def test_a_clean_stop_hands_leadership_over_before_the_node_goes(new_cluster: NewCluster) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(1000)
            leaving = cluster.leader("numbers")
            before = traffic.sender.longest_gap
            cluster.stop(leaving)
            traffic.go_on(500)
            # A node that is killed is missed after a session; one that says good-bye is not missed at all.
            assert traffic.sender.longest_gap < max(1.0, 2 * before), "the clients noticed a clean stop"
            cluster.start(leaving)
            cluster.heal()
        assert traffic.verdict() == []
