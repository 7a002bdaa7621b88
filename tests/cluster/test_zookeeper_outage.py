"""A minute without ZooKeeper: every server of the ensemble killed, producers, transactions and readers at work."""

from __future__ import annotations

import re
import time
from pathlib import Path

from cluster.traffic import Traffic
from kit.brokers.processes import until
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.brokers.zookeeper_clusters import ONLY_THE_STORYS_TOPICS, ZooKeeperCluster

PARTITIONS = 3
PARTS, PART_SECONDS = 6, 10.0
"""The minute. It is as long as it is to show that nothing which is renewed or given up with time stops a producer."""
PATIENCE_SECONDS = 120.0
UNHURRIED, PAUSE_SECONDS = {"linger.ms": 500}, 0.1
"""As much as goes through in a minute would be a long time of checking afterwards, and prove no more."""


def without_controller(cluster: ZooKeeperCluster) -> bool:
    """Whether each who began to decide has given up: without ZooKeeper nobody can know whether a session lasts."""
    said = "".join(node.log for node in cluster.nodes.values())
    begun = set(re.findall(r"this node is the controller in epoch (\d+)", said))
    return begun <= set(re.findall(r"this node is no longer the controller of epoch (\d+)", said))


def leaders(cluster: ZooKeeperCluster) -> dict[int, list[tuple[int, int]]]:
    """Who leads each partition, and since which epoch, in the eyes of each node; empty where one does not answer."""
    seen = {}
    for number in cluster.nodes:
        answer = cluster.metadata(number, "minute")
        if answer is None:
            return {}
        rows = sorted(answer["topics"][0]["partitions"], key=lambda row: int(row["partition_index"]))
        seen[number] = [(row["leader_id"], row["leader_epoch"]) for row in rows]
    return seen


def go_on(traffic: Traffic, seconds: float) -> None:
    """So many seconds, and longer where a busy machine needs more until records and transactions have come in."""
    ends = time.monotonic() + seconds
    records, transactions = traffic.sender.acknowledged + 200, traffic.committer.committed + 3

    def over() -> bool:
        assert not traffic.sender.failures, traffic.sender.failures[0]
        came_in = traffic.sender.acknowledged >= records and traffic.committer.committed >= transactions
        return came_in and time.monotonic() >= ends

    until(over, f"{seconds:g} s with records and transactions in them", seconds + PATIENCE_SECONDS)


def test_a_minute_without_any_zookeeper_server_loses_nothing_and_stops_no_producer(tmp_path: Path) -> None:
    with (
        ZooKeeperEnsemble(tmp_path / "ensemble", 3) as ensemble,
        ZooKeeperCluster(tmp_path / "cluster", ensemble, settings=ONLY_THE_STORYS_TOPICS) as cluster,
    ):
        cluster.create_topic("minute", PARTITIONS)
        with Traffic(cluster.bootstrap, "minute", PARTITIONS, UNHURRIED, pause=PAUSE_SECONDS) as traffic:
            traffic.go_on(300)
            before = until(lambda: cluster.znode("/controller_epoch"), "the epoch", 60.0)
            ensemble.kill()
            killed = time.monotonic()
            until(lambda: without_controller(cluster), "nobody decides without ZooKeeper", 60.0)
            led = until(lambda: leaders(cluster), "what every node sees", 60.0)
            for _ in range(PARTS):
                go_on(traffic, PART_SECONDS)
            assert time.monotonic() - killed >= PARTS * PART_SECONDS
            assert until(lambda: leaders(cluster), "what every node sees", 60.0) == led, "those who led go on leading"
            assert not any(server.running for server in ensemble.servers.values())
            ensemble.start()
            traffic.go_on(300)
            cluster.heal()
            cluster.create_topic("afterwards")
            until(lambda: (cluster.znode("/controller_epoch") or 0) > before, "another was elected", 60.0)
        assert traffic.verdict() == []
