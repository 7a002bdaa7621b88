"""The ways to lose messages that the documentation warns of lose messages; the recommended settings lose none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from cluster import work_loop
from cluster.traffic import PATIENCE, read_all
from kit.brokers.cluster_processes import ClusterProcesses, NewCluster
from kit.brokers.processes import until

COUNT = 200
LAST = b"record %d" % (COUNT - 1)
SECONDS = 120.0
SESSION = {
    # The replicas that are frozen for a moment must not be missed meanwhile: that would be another story.
    "broker.session.timeout.ms": "30000",
    "replica.lag.time.max.ms": "30000",
    "controller.quorum.fetch.timeout.ms": "30000",
    "zookeeper.session.timeout.ms": "6000",  # a killed node is missed after as long
}


class Sender:
    """A producer that has its connection to the leader when it is there: it has delivered a record of its own."""

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self.delivered: list[bytes] = []
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **PATIENCE, **settings})
        self._producer.produce(topic, b"first", partition=0)
        assert self.left(SECONDS) == 0

    def send(self, *values: bytes) -> None:
        """What is held for delivered is listed when it is."""
        for value in values:
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._told)

    def send_all(self) -> None:
        self.send(*(b"record %d" % number for number in range(COUNT)))

    def left(self, seconds: float) -> int:
        """How many are not delivered after so long."""
        return self._producer.flush(seconds)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.delivered.append(message.value())


def lost_after_a_leader_failure(cluster: ClusterProcesses, topic: str, **settings: Any) -> set[bytes]:
    """What was delivered in the producer's eyes and is not there, after the leader fell before others had a copy."""
    cluster.create_topic(topic)
    decoy, sender = Sender(cluster.bootstrap, topic, acks="1"), Sender(cluster.bootstrap, topic, **settings)
    leader = cluster.leader(topic)
    followers = [number for number in cluster.nodes if number != leader]
    cluster.freeze(*followers)
    # A record that answers the fetches which the followers had sent before: what comes after it reaches no follower.
    decoy.send(b"decoy")
    assert decoy.left(SECONDS) == 0
    sender.send_all()
    if settings["acks"] == "all":
        assert sender.left(0.5) == COUNT, "nothing is acknowledged that only the leader has"
    else:
        assert sender.left(SECONDS) == 0
        assert len(sender.delivered) == COUNT
        until(lambda: stored_on(cluster, leader, topic), "the leader has written the records")
    cluster.kill(leader)
    cluster.thaw(*followers)
    assert sender.left(SECONDS) == 0
    cluster.start(leader)
    cluster.heal()
    assert len(sender.delivered) == COUNT
    return set(sender.delivered) - {value for _, _, value in read_all(cluster.bootstrap, topic, 1)}


def stored_on(cluster: ClusterProcesses, node: int, topic: str) -> bool:
    """Whether the last of all records is in the node's log of partition 0."""
    return any(LAST in path.read_bytes() for path in (cluster.nodes[node].data / f"{topic}-0").glob("*.log"))


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
        sender = Sender(cluster.bootstrap, "t", acks="all")
        sender.send_all()
        assert sender.left(SECONDS) == 0
        cluster.kill(first)
        cluster.start(second)
        if unclean:
            until(lambda: cluster.leader("t") == second, "a leader that lacks records")
        else:
            until(lambda: cluster.partition("t")["leader_id"] == -1, "no leader, rather than one that lacks records")
        cluster.start(first)
        cluster.heal()
        lost = set(sender.delivered) - {value for _, _, value in read_all(cluster.bootstrap, "t", 1)}
        assert len(sender.delivered) == COUNT
        assert len(lost) == (COUNT if unclean else 0)


@pytest.mark.parametrize("when", ["auto", "after"])
def test_a_commit_before_the_work_loses_it_and_a_commit_after_the_work_does_not(
    new_cluster: NewCluster, when: str
) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("work")
        sender = Sender(cluster.bootstrap, "work", **{"enable.idempotence": True})
        sender.send_all()
        assert sender.left(SECONDS) == 0
        count = COUNT + 1
        with holder(cluster.bootstrap, "work", "workers", when) as process:
            assert process.stdout is not None
            held = 0
            while held < count:
                held = int(process.stdout.readline())
            if when == "auto":
                until(lambda: committed(cluster.bootstrap, "work", "workers") == count, "the timer has committed")
            process.kill()
        # Whoever takes over begins at the committed offset: what is before it counts as done, though nobody did it.
        begins = max(0, committed(cluster.bootstrap, "work", "workers"))
        assert begins == (count if when == "auto" else 0)


@contextmanager
def holder(bootstrap: str, topic: str, group: str, when: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, work_loop.__file__, bootstrap, topic, group, when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def committed(bootstrap: str, topic: str, group: str) -> int:
    """The committed offset, as soon as the group's coordinator tells."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})

    def told() -> list[int]:
        with suppress(KafkaException):
            return [found.offset for found in consumer.committed([TopicPartition(topic, 0)], 15.0)]
        return []

    try:
        return until(told, f"what group {group} has committed", SECONDS)[0]
    finally:
        consumer.close()
