"""Nodes are stopped and started one after the other under load, and no client has a reason to complain."""

from __future__ import annotations

from cluster.traffic import Traffic
from kit.brokers.cluster_processes import HEAL_SECONDS, ClusterProcesses, NewCluster
from kit.brokers.processes import until

PARTITIONS = 6
STEADY = {"zookeeper.session.timeout.ms": "15000"}  # nobody is to be missed here


def test_a_rolling_restart_under_load_fails_no_send(new_cluster: NewCluster) -> None:
    with new_cluster(settings=STEADY) as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        # A send may take a while, retries included, but not as long as a client's patience lasts by default.
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS, {"message.timeout.ms": 60_000}) as traffic:
            for number in cluster.nodes:
                traffic.go_on(500)
                cluster.restart(number)
                cluster.heal()
            traffic.go_on(500)
        assert traffic.sender.failures == []
        assert traffic.verdict() == []


def test_a_clean_stop_hands_leadership_over_before_the_node_goes(new_cluster: NewCluster) -> None:
    with new_cluster(settings=STEADY) as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            traffic.go_on(1000)
            leaving = cluster.leader("numbers")
            cluster.stop(leaving)
            # One that is killed is missed, by its port or after its session. One that says good-bye is told when to go.
            said = "".join(node.log for node in cluster.nodes.values())
            assert f"broker {leaving} is leaving: others take over what it leads" in said
            others = [number for number in cluster.nodes if number != leaving]
            until(lambda: all(leaving not in leaders(cluster, each) for each in others), "others lead", HEAL_SECONDS)
            traffic.go_on(500)
            cluster.start(leaving)
            cluster.heal()
        assert traffic.verdict() == []


def leaders(cluster: ClusterProcesses, asked: int) -> list[int]:
    """Who leads the partitions in the eyes of one node."""
    answer = cluster.metadata(asked, "numbers")
    return [row["leader_id"] for row in answer["topics"][0]["partitions"]] if answer else list(cluster.nodes)
