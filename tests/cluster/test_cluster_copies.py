"""Consume, transform, produce over a cluster: nodes and copiers are killed, the copy has each input exactly once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from cluster import copying
from cluster.copiers import Copier
from cluster.traffic import PATIENCE, read_all
from kit.brokers.cluster_processes import ClusterProcesses, NewCluster
from kit.brokers.history import History
from kit.brokers.processes import until

PARTITIONS = 3
RECORDS = 1_500  # in each partition
BLOWS = 8
SECONDS = 240.0
STILL_SECONDS = 20.0
# Sessions and heartbeats short enough that a killed member is soon missed.
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "100",
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_copy_over_a_cluster_has_each_input_exactly_once_whoever_is_killed(
    new_cluster: NewCluster, protocol: str
) -> None:
    seed = int(os.environ.get("OTTLA_COPY_SEED", random.randrange(2**32)))
    print(f"OTTLA_COPY_SEED={seed}")
    chance = random.Random(seed)
    with new_cluster(settings=SETTINGS) as cluster:
        for topic in ("source", "target"):
            cluster.create_topic(topic, PARTITIONS)
        fill(cluster.bootstrap)
        with (
            Copier(cluster.bootstrap, protocol, "copier-1") as first,
            Copier(cluster.bootstrap, protocol, "copier-2") as second,
        ):
            copiers = [first, second]
            for blow in range(BLOWS):
                wanted = sum(copier.copied for copier in copiers) + chance.randrange(1, 300)
                come(copiers, min(wanted, PARTITIONS * RECORDS * 4 // 5), f"progress before blow {blow + 1}")
                strike(cluster, chance, copiers)
            finish(cluster.bootstrap, copiers)
        assert judged(cluster.bootstrap) == []


def fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True, **PATIENCE})
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce("source", b"%d-%d" % (partition, number), partition=partition)
    assert producer.flush(SECONDS) == 0


def come(copiers: list[Copier], wanted: int, what: str) -> None:
    """Wait until so many records are copied in all."""
    patiently(copiers, lambda: sum(copier.copied for copier in copiers) >= wanted, what)


def finish(bootstrap: str, copiers: list[Copier]) -> None:
    patiently(
        copiers, lambda: len(read_all(bootstrap, "target", PARTITIONS)) >= PARTITIONS * RECORDS, "the rest is copied"
    )


def patiently(copiers: list[Copier], condition: Callable[[], bool], what: str) -> None:
    """`condition` in time; copiers that stand still are killed on the way.

    librdkafka removes a broker that has left the metadata, but goes on sending a group's offsets through the removed
    one where that was the group's coordinator: such a copier waits for ever, in a call whose time is long over.
    """
    copied, since = -1, time.monotonic()

    def come_about() -> bool:
        nonlocal copied, since
        now, before = sum(copier.copied for copier in copiers), copied
        if now > before:
            copied, since = now, time.monotonic()
        elif time.monotonic() > since + STILL_SECONDS:
            since = time.monotonic()
            for copier in copiers:
                copier.kill()
        return condition()

    try:
        until(come_about, what, SECONDS)
    except AssertionError as failure:
        said = [error for copier in copiers for error in copier.errors]
        raise AssertionError(f"{failure} (copiers said {said[-5:]})") from None


def strike(cluster: ClusterProcesses, chance: random.Random, copiers: list[Copier]) -> None:
    """Kill a copier, or one or two nodes, which come back."""
    if chance.random() < 0.3:
        chance.choice(copiers).kill()
        return
    dead = chance.sample(list(cluster.nodes), chance.choice((1, 1, 2)))
    cluster.kill(*dead)
    cluster.start(*dead)


def judged(bootstrap: str) -> list[object]:
    """What a reader of the copy would complain about: an input counts as sent and acknowledged by its copier."""
    history = History()
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            value = copying.transformed(b"%d-%d" % (partition, number))
            history.sent("copiers", partition, value)
            history.acknowledged(value, -1)
    reader = history.reader("final")
    for partition, offset, value in read_all(bootstrap, "target", PARTITIONS):
        reader.polled(partition, offset, value)
    return list(history.judge("final"))
