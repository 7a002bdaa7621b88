"""The log of real nodes: every change of state is one line, where it happens."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

import ottla.testing
from kit.brokers.polling import wait_until
from kit.brokers.processes import OttlaProcess, until

SESSION_SECONDS = 20


class Lines:
    """What the nodes of this process have logged so far."""

    def __init__(self, captured: pytest.LogCaptureFixture) -> None:
        self._captured = captured

    def matching(self, pattern: str) -> list[str]:
        return [record.message for record in tuple(self._captured.records) if re.fullmatch(pattern, record.message)]

    def wait(self, pattern: str, count: int = 1) -> list[str]:
        wait_until(lambda: len(self.matching(pattern)) >= count, 60)
        return self.matching(pattern)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.set_level(logging.INFO, "ottla")
    return Lines(caplog)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(3) as made:
        yield made


def test_topics_and_their_leaders(cluster: ottla.testing.Cluster, lines: Lines) -> None:
    topic = cluster.create_topic("told", partitions=2)
    lines.wait(f"topic {topic} is created: 2 partitions of 3 replicas")
    lines.wait(rf"{topic}-\d is led by this broker from epoch 0 on \(in sync: .*\)", 2)
    lines.wait(rf"{topic}-\d follows broker \d from epoch 0 on", 4)
    cluster.delete_topic(topic)
    assert len(lines.wait(f"topic {topic} is deleted")) == 1, "the controller tells it, and nobody else"


def test_a_broker_that_dies_and_comes_back(cluster: ottla.testing.Cluster, lines: Lines) -> None:
    topic = cluster.create_topic("orphan")
    cluster.wait_in_sync([topic])
    leader = cluster.leader(topic)
    cluster.kill(leader)
    lines.wait(rf"broker {leader} is fenced: .*")
    after = f"after broker {leader}"
    lines.wait(rf"{topic}-0 is led by this broker from epoch \d+ on, {after} \(in sync: .*\)")
    lines.wait(rf"{topic}-0 follows broker \d from epoch \d+ on, {after}")
    cluster.restart(leader)
    cluster.wait_in_sync([topic])
    lines.wait(rf"broker {leader} is registered at 127\.0\.0\.1:\d+ with epoch \d+")
    lines.wait(rf"broker {leader} is unfenced: it serves")
    lines.wait(rf"{topic}-0: {leader} joined the in-sync set, which is .* now")


def test_the_leader_of_the_quorum_changes(cluster: ottla.testing.Cluster, lines: Lines) -> None:
    controller = cluster.controller()
    cluster.stop(controller)
    lines.wait(r"this node is no longer the controller of epoch \d+")
    lines.wait(r"this node is the controller in epoch \d+")
    lines.wait(rf"the quorum's leader of epoch \d+ is [^{controller}]", 2)
    lines.wait(rf"broker {controller} is (leaving: others take over what it leads|fenced: it has left)")
    cluster.restart(controller)
    cluster.wait_in_sync()


def test_a_follower_that_stands_still_leaves_the_in_sync_set(cluster: ottla.testing.Cluster, lines: Lines) -> None:
    topic = cluster.create_topic("slow")
    cluster.wait_in_sync([topic])
    follower = next(node for node in cluster.nodes if node not in (cluster.leader(topic), cluster.controller()))
    cluster.pause(follower)
    cluster.advance(SESSION_SECONDS)
    lines.wait(rf"{topic}-0: {follower} left the in-sync set, which is .* now")
    cluster.resume(follower)
    cluster.wait_in_sync([topic])


# --- groups and transactions ---


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.broker() as made:
        yield made


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_generations_of_a_group(broker: ottla.testing.Broker, lines: Lines, protocol: str) -> None:
    topic = broker.create_topic(f"shared-{protocol}", partitions=2)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": f"g-{protocol}", "group.protocol": protocol}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    line = rf"group g-{protocol}: generation \d+ with 1 member \((?P<id>.+)\): member (?P=id) joined"
    wait_until(lambda: consumer.poll(0.1) is None and bool(lines.matching(line)), 60)
    consumer.close()
    gone = rf"group g-{protocol}: generation \d+ without members: member .+ (left|is gone).*"
    lines.wait(gone)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_consumer_groups([f"g-{protocol}"])[f"g-{protocol}"].result(60)
    assert len(lines.wait(f"group g-{protocol} is deleted")) == 1


def test_a_transaction_that_times_out(broker: ottla.testing.Broker, lines: Lines) -> None:
    topic = broker.create_topic("paid")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "till"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "one")
    assert producer.flush(60) == 0
    broker.advance(3600)
    lines.wait(r"transaction till of producer \d+ is aborted in 1 partition: it took longer than the 60000 ms it may")
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)


def test_a_transaction_that_its_producer_aborts(broker: ottla.testing.Broker, lines: Lines) -> None:
    topic = broker.create_topic("unpaid")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "till-2"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "one")
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    lines.wait(r"transaction till-2 of producer \d+ is aborted in 1 partition: its producer asked for that")


# --- a process ---


def test_lines_of_a_node_are_json_where_its_settings_want_it(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data", {"ottla.log.format": "json"}) as node:
        until(lambda: "the controller counts on this broker" in node.log, "the first lines")
        told = [json.loads(line) for line in node.log.splitlines(keepends=True) if line.endswith("\n")]
    assert {"time", "level", "room", "message"} == set(told[0])
    assert {entry["room"] for entry in told} >= {"quorum", "controller", "broker"}
