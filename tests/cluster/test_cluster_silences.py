"""A node that falls silent, frozen or cut off, is replaced; when it speaks again, nothing it says does any harm."""

from __future__ import annotations

import pytest

from cluster.traffic import Traffic
from kit.brokers.cluster_processes import HEAL_SECONDS, SILENCE, ClusterProcesses, NewCluster
from kit.brokers.processes import until

PARTITIONS = 3


@pytest.mark.parametrize("whom", ["the leader", "the controller"])
def test_a_node_frozen_for_longer_than_its_session_is_replaced_and_follows_when_it_wakes(
    new_cluster: NewCluster, whom: str
) -> None:
    with new_cluster(settings=SILENCE) as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            known_to_all(cluster, traffic)
            silent = cluster.leader("numbers") if whom == "the leader" else cluster.controller()
            cluster.freeze(silent)
            until(lambda: cluster.leader("numbers") != silent, "another leader", HEAL_SECONDS)
            until(lambda: cluster.controller() != silent, "another controller", HEAL_SECONDS)
            traffic.go_on(500)
            cluster.thaw(silent)
            traffic.go_on(500)
            cluster.heal()
        assert traffic.verdict() == []


@pytest.mark.parametrize("whom", ["the leader", "the controller", "a follower"])
def test_a_node_that_is_cut_off_from_the_others_is_replaced_and_follows_when_links_heal(
    new_cluster: NewCluster, whom: str
) -> None:
    with new_cluster(settings=SILENCE, links=True) as cluster:
        assert cluster.network is not None
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            known_to_all(cluster, traffic)
            leader = cluster.leader("numbers")
            lonely = {
                "the leader": leader,
                "the controller": cluster.controller(),
                "a follower": next(number for number in cluster.nodes if number != leader),
            }[whom]
            others = [number for number in cluster.nodes if number != lonely]
            cluster.network.cut([lonely], others)
            # Clients still reach the lonely node; what it cannot replicate it must not acknowledge.
            until(lambda: all(lonely not in isr(cluster, others[0], index) for index in range(PARTITIONS)),
                  "the others go on without the lonely node", HEAL_SECONDS)  # fmt: skip
            traffic.go_on(500)
            cluster.network.heal()
            cluster.heal()
            traffic.go_on(300)
        assert traffic.verdict() == []


def test_two_replicas_that_cannot_see_each_other_agree_through_the_third(new_cluster: NewCluster) -> None:
    with new_cluster(settings=SILENCE, links=True) as cluster:
        assert cluster.network is not None
        cluster.create_topic("numbers", PARTITIONS)
        with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
            known_to_all(cluster, traffic)
            # The third decides. (A leader that only the controller cannot reach goes on telling clients what it last
            # heard, as Kafka's does, and clients that believe it go in circles.)
            third = cluster.controller()
            one, other = (number for number in cluster.nodes if number != third)
            cluster.network.cut([one], [other])
            # Transactions wait: the coordinator on one side has markers for partitions on the other.
            traffic.go_on(500, transactions=0)
            cluster.network.heal()
            cluster.heal()
            traffic.go_on(300)
        assert traffic.verdict() == []


def known_to_all(cluster: ClusterProcesses, traffic: Traffic) -> None:
    """Let clients work with every node.

    One that has only a connection to a node which hears nothing any more asks that node who leads, again and again.
    """
    cluster.spread("numbers", PARTITIONS)
    traffic.go_on(500)


def isr(cluster: ClusterProcesses, asked: int, index: int) -> list[int]:
    """The in-sync set of a partition in the eyes of one node."""
    answer = cluster.metadata(asked, "numbers")
    rows = answer["topics"][0]["partitions"] if answer else []
    found = [list(row["isr_nodes"]) for row in rows if row["partition_index"] == index]
    return found[0] if found else list(cluster.nodes)
