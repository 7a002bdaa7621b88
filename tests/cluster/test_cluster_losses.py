"""The ways to lose messages that the documentation warns of lose messages; the recommended settings lose none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cluster import work_loop
from cluster.traffic import PATIENCE, read_all
from support.cluster_processes import ClusterProcesses, NewCluster
from support.processes import until

COUNT = 200
SESSION = {
    # The replicas that are frozen for a moment must not be missed meanwhile: that would be another story.
    "broker.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
    "controller.quorum.fetch.timeout.ms": "6000",
}


def send(bootstrap: str, topic: str, **settings: Any) -> tuple[Producer, list[bytes]]:
    """A producer that was given so many records, and the list of those it holds for delivered, which grows."""
    delivered: list[bytes] = []

    def told(error: Any, message: Any) -> None:
        if error is None:
            delivered.append(message.value())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **PATIENCE, **settings})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=told)
    return producer, delivered


def lost_after_a_leader_failure(cluster: ClusterProcesses, topic: str, **settings: Any) -> set[bytes]:
    """What was delivered in the producer's eyes and is not there, after the leader fell before others had a copy."""
    cluster.create_topic(topic)
    leader = cluster.leader(topic)
    followers = [number for number in cluster.nodes if number != leader]
    cluster.freeze(*followers)
    # A record that answers the fetches which the followers had sent before: what comes after it reaches no follower.
    decoy = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "1", **PATIENCE})
    decoy.produce(topic, b"decoy", partition=0)
    assert decoy.flush(10.0) == 0
    producer, delivered = send(cluster.bootstrap, topic, **settings)
    if settings["acks"] == "all":
        assert producer.flush(0.5) == COUNT, "nothing is acknowledged that only the leader has"
    else:
        assert producer.flush(10.0) == 0
        assert len(delivered) == COUNT
        until(lambda: stored_on(cluster, leader, topic), "the leader has written the records")
    cluster.kill(leader)
    cluster.thaw(*followers)
    assert producer.flush(60.0) == 0
    cluster.start(leader)
    cluster.heal()
    assert len(delivered) == COUNT
    return set(delivered) - {value for _, _, value in read_all(cluster.bootstrap, topic, 1)}


def stored_on(cluster: ClusterProcesses, node: int, topic: str) -> bool:
    """Whether the node's log of partition 0 has anything in it."""
    return any(path.stat().st_size for path in (cluster.nodes[node].data / f"{topic}-0").glob("*.log"))


def test_a_leader_failure_takes_what_nobody_else_had_with_acks_0_and_1_and_nothing_with_acks_all(
    new_cluster: NewCluster,
) -> None:
    with new_cluster(settings=SESSION) as cluster:
        for acks in ("0", "1"):
            lost = lost_after_a_leader_failure(cluster, f"acks-{acks}", acks=acks)
            assert len(lost) == COUNT, f"acks={acks}: the records were on the leader alone"
        assert lost_after_a_leader_failure(cluster, "acks-all", acks="all") == set()
        assert lost_after_a_leader_failure(cluster, "idempotent", acks="all", **{"enable.idempotence": True}) == set()


@pytest.mark.parametrize("unclean", [True, False])
def test_an_unclean_election_loses_and_waiting_for_the_last_in_sync_replica_does_not(
    new_cluster: NewCluster, unclean: bool
) -> None:
    with new_cluster(settings={"unclean.leader.election.interval.ms": "500"}) as cluster:
        cluster.create_topic(
            "t", copies=2, min_insync_replicas="1", unclean_leader_election_enable=str(unclean).lower()
        )
        first = cluster.leader("t")
        second = next(number for number in cluster.partition("t")["replica_nodes"] if number != first)
        cluster.stop(second)
        until(lambda: list(cluster.partition("t")["isr_nodes"]) == [first], "the leader alone is in sync")
        producer, delivered = send(cluster.bootstrap, "t", acks="all")
        assert producer.flush(30.0) == 0
        cluster.kill(first)
        cluster.start(second)
        if unclean:
            until(lambda: cluster.leader("t") == second, "a leader that lacks records")
        else:
            until(lambda: cluster.partition("t")["leader_id"] == -1, "no leader, rather than one that lacks records")
        cluster.start(first)
        cluster.heal()
        lost = set(delivered) - {value for _, _, value in read_all(cluster.bootstrap, "t", 1)}
        assert len(delivered) == COUNT
        assert len(lost) == (COUNT if unclean else 0)


@pytest.mark.parametrize("when", ["auto", "after"])
def test_a_commit_before_the_work_loses_it_and_a_commit_after_the_work_does_not(
    new_cluster: NewCluster, when: str
) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("work")
        producer, _ = send(cluster.bootstrap, "work", acks="all")
        assert producer.flush(30.0) == 0
        with holder(cluster.bootstrap, "work", "workers", when) as process:
            assert process.stdout is not None
            held = 0
            while held < COUNT:
                held = int(process.stdout.readline())
            if when == "auto":
                until(lambda: committed(cluster.bootstrap, "work", "workers") == COUNT, "the timer has committed")
            process.kill()
        # Whoever takes over begins at the committed offset: what is before it counts as done, though nobody did it.
        begins = max(0, committed(cluster.bootstrap, "work", "workers"))
        assert begins == (COUNT if when == "auto" else 0)


@contextmanager
def holder(bootstrap: str, topic: str, group: str, when: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, work_loop.__file__, bootstrap, topic, group, when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def committed(bootstrap: str, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        offset: int = consumer.committed([TopicPartition(topic, 0)], 15.0)[0].offset
        return offset
    finally:
        consumer.close()
