"""A cluster in the test's own process: nodes that die, stand still and lose each other."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla.testing
from kit.brokers.polling import wait_until
from ottla.testing.life import CountedThreads


class Sender:
    """Writes with acks=all and answers the offset."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "retry.backoff.ms": 20, "log_level": 0}
        self._producer = Producer(settings)

    def send(self, topic: str, value: str) -> int:
        outcomes: list[object] = []
        self._producer.produce(topic, value, callback=lambda error, message: outcomes.append(error or message.offset()))
        assert self._producer.flush(60) == 0
        (offset,) = outcomes
        assert isinstance(offset, int), offset
        return offset


@pytest.fixture(scope="module")
def shared() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: ottla.testing.Cluster) -> Iterator[ottla.testing.Cluster]:
    yield shared
    shared.recover()
    shared.wait_in_sync()


def test_topics_have_three_copies(cluster: ottla.testing.Cluster) -> None:
    cluster.create_topic("copies", partitions=6)
    cluster.wait_in_sync(["copies"])
    assert {cluster.leader("copies", partition) for partition in range(6)} == {1, 2, 3}
    assert Sender(cluster.bootstrap).send("copies", "one") == 0


def test_a_killed_leader_is_followed_by_another_and_comes_back(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("killed")
    sender = Sender(cluster.bootstrap)
    assert sender.send(topic, "one") == 0
    leader = cluster.leader(topic)
    cluster.kill(leader)
    assert sender.send(topic, "two") == 1
    wait_until(lambda: cluster.leader(topic) != leader)
    cluster.restart(leader)
    cluster.wait_in_sync([topic])
    assert sender.send(topic, "three") == 2


def test_a_stopped_leader_hands_over(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("stopped")
    leader = cluster.leader(topic)
    cluster.stop(leader)
    wait_until(lambda: cluster.leader(topic) not in (leader, -1))
    assert Sender(cluster.bootstrap).send(topic, "one") == 0


def test_a_paused_node_is_given_up_when_the_clock_is_moved(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("paused")
    sender = Sender(cluster.bootstrap)
    assert sender.send(topic, "one") == 0
    leader = cluster.leader(topic)
    cluster.pause(leader)
    cluster.advance(20)
    wait_until(lambda: cluster.leader(topic) != leader)
    cluster.resume(leader)
    cluster.wait_in_sync([topic])
    assert sender.send(topic, "two") == 1


def test_a_node_that_is_cut_off_loses_its_leaderships(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("cut")
    sender = Sender(cluster.bootstrap)
    assert sender.send(topic, "one") == 0
    leader = cluster.leader(topic)
    cluster.partition(leader)
    cluster.advance(20)
    wait_until(lambda: cluster.leader(topic) != leader and cluster.controller() != leader)
    assert cluster.create_topic("while-cut", replicas=2) == "while-cut"
    cluster.heal()
    cluster.wait_in_sync([topic])
    assert sender.send(topic, "two") == 1


def test_nodes_that_live_stay_leaders_while_time_flies(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("calm")
    before = (cluster.leader(topic), cluster.controller())
    cluster.advance(60)
    assert (cluster.leader(topic), cluster.controller()) == before
    cluster.wait_in_sync([topic])


def test_they_do_though_their_disks_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with much else to do."""
    quick = CountedThreads.submit

    def slow(threads: CountedThreads, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        def after_a_while() -> Any:
            time.sleep(0.02)
            return work(*arguments, **named)

        return quick(threads, after_a_while)

    monkeypatch.setattr(CountedThreads, "submit", slow)
    with ottla.testing.cluster(3) as cluster:
        topic = cluster.create_topic("calm")
        cluster.wait_in_sync([topic])
        before = (cluster.leader(topic), cluster.controller())
        cluster.advance(30)
        assert (cluster.leader(topic), cluster.controller()) == before


def test_a_fault_can_be_for_one_node_only(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("one-node")
    other = next(node for node in cluster.nodes if node != cluster.leader(topic))
    elsewhere = cluster.fail_next("Produce", 1, "REQUEST_TIMED_OUT", node=other)
    here = cluster.fail_next("Produce", 1, "REQUEST_TIMED_OUT", node=cluster.leader(topic))
    assert Sender(cluster.bootstrap).send(topic, "one") == 0
    assert (elsewhere.hits, here.hits) == (0, 1)


def test_a_node_that_does_not_exist_is_told(cluster: ottla.testing.Cluster) -> None:
    with pytest.raises(ValueError, match="no node 7"):
        cluster.kill(7)


def test_a_cluster_is_there_within_a_second() -> None:
    """In time of the processor: what else a machine has to do does not count. The bench has the time that passes."""
    needed = []
    for _ in range(3):
        began = time.process_time()
        with ottla.testing.cluster(3):
            needed.append(time.process_time() - began)
    assert min(needed) < 1.0, needed


async def test_a_cluster_of_one_and_the_async_form_leave_nothing_behind() -> None:
    before = {thread.name for thread in threading.enumerate()}
    for count in (1, 2):
        async with ottla.testing.cluster(count) as cluster:
            directory = cluster.directory
            cluster.create_topic("orders")
            assert Sender(cluster.bootstrap).send("orders", "one") == 0
        assert os.path.basename(directory) not in os.listdir(os.path.dirname(directory))
    assert {thread.name for thread in threading.enumerate()} <= before
