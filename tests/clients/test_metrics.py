"""Metrics, health and readiness of real nodes, as Prometheus and those who start nodes see them."""

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

import ottla.testing
from kit.brokers.polling import wait_until
from kit.brokers.processes import OttlaProcess, free_port, until
from ottla.node.metrics.families import GROUPED
from ottla.node.metrics.scrape import Scrape


class Page(NamedTuple):
    """What a node told, by name and labels."""

    text: str
    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    @classmethod
    def of(cls, text: str) -> "Page":
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
        assert len(values) == len(samples), "a series is told twice"
        return cls(text, values)

    def get(self, name: str, **labels: object) -> float | None:
        return self.values.get((name, frozenset((key, str(value)) for key, value in labels.items())))


class Watched(NamedTuple):
    """A node that is watched."""

    node: OttlaProcess
    port: int

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    def ask(self, path: str) -> tuple[int, str]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://localhost:{self.port}{path}", timeout=60) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def page(self) -> Page:
        status, text = self.ask("/metrics")
        assert status == 200
        return Page.of(text)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_port()
    settings = {"ottla.metrics.port": str(port), "ottla.slow.request.ms": "0"}
    with OttlaProcess(tmp_path_factory.mktemp("watched") / "data", settings) as broker:
        yield Watched(broker, port)


def produce(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, f"value {number:06}", partition=partition)
    assert producer.flush(60) == 0


def commit(bootstrap: str, group: str, topic: str, partition: int, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def read(bootstrap: str, group: str, topic: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = 0
    while found < count:
        messages = consumer.consume(count, timeout=60)
        assert messages, "nothing came"
        found += len(messages)
    consumer.commit(asynchronous=False)
    consumer.close()


def test_a_node_tells_what_went_in_and_out_and_how_far_its_groups_are(watched: Watched) -> None:
    produce(watched.bootstrap, "orders", 100)
    read(watched.bootstrap, "billing", "orders", 100)
    produce(watched.bootstrap, "orders", 20)
    page = watched.page()
    counted = "kafka_server_brokertopicmetrics_"
    size = page.get("kafka_log_log_size", topic="orders", partition=0)
    assert page.get(f"{counted}messagesin_total", topic="orders") == 120
    assert page.get(f"{counted}bytesin_total", topic="orders") == size
    assert size is not None
    # Clients may read something twice, and messages are estimated.
    assert (page.get(f"{counted}bytesout_total", topic="orders") or 0) > size / 2
    assert (page.get("ottla_topic_messagesout_total", topic="orders") or 0) >= 80
    assert page.get(f"{counted}failedproducerequests_total", topic="orders") == 0
    everything = page.get(f"{counted}messagesin_total")
    assert everything is not None
    assert everything > 120, "what the coordinator of the group wrote is in the sum"
    place = {"consumergroup": "billing", "topic": "orders", "partition": 0}
    assert page.get("kafka_consumergroup_current_offset", **place) == 100
    assert page.get("kafka_consumergroup_lag", **place) == 20
    assert page.get("kafka_consumergroup_lag_sum", consumergroup="billing", topic="orders") == 20
    assert page.get("kafka_topic_partition_current_offset", topic="orders", partition=0) == 120
    produced = page.get("kafka_network_requestmetrics_requests_total", request="Produce")
    assert produced == page.get("kafka_network_requestmetrics_totaltimems_count", request="Produce")
    assert produced is not None
    assert produced >= 2
    assert page.get("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert page.get("kafka_server_replicamanager_underreplicatedpartitions") == 0


def test_a_node_of_both_roles_tells_every_metric_that_is_declared(watched: Watched) -> None:
    lines = watched.page().text.splitlines()
    announced = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert sorted(announced) == sorted(family.name for group in GROUPED.values() for family in group)


def test_a_node_tells_what_it_refused_by_request_and_error(watched: Watched) -> None:
    def refused(request: str, error: str) -> float:
        return watched.page().get("kafka_network_requestmetrics_errors_total", request=request, error=error) or 0

    produce(watched.bootstrap, "small", 1)
    producer = Producer({"bootstrap.servers": watched.bootstrap, "message.max.bytes": 3_000_000})
    before = refused("Produce", "MESSAGE_TOO_LARGE")
    producer.produce("small", b"x" * 2_000_000)
    assert producer.flush(60) == 0
    assert refused("Produce", "MESSAGE_TOO_LARGE") > before
    with ottla.blocking.Admin(bootstrap_servers=watched.bootstrap) as admin:
        outcomes = [admin.delete_topics(["nowhere"]) for _ in range(2)]
    assert len(outcomes) == 2
    assert refused("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION") >= 2
    consumer = Consumer({"bootstrap.servers": watched.bootstrap, "group.id": "lost", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("small", 0, 1_000)])
    wait_until(lambda: consumer.poll(0.1) is not None and refused("Fetch", "OFFSET_OUT_OF_RANGE") > 0, 60)
    consumer.close()


def test_a_slow_request_is_one_line_of_the_log(watched: Watched) -> None:
    produce(watched.bootstrap, "slow", 1)
    until(lambda: "slow request: Produce of client rdkafka at 127.0.0.1 took" in watched.node.log, "the slow line")


def test_a_node_is_alive_and_ready_and_says_what_else_it_could_be_asked(watched: Watched) -> None:
    assert watched.ask("/healthz") == (200, "alive\n")
    assert watched.ask("/readyz") == (200, "ready\n")
    assert watched.ask("/") == (404, "there are /metrics, /healthz, /readyz\n")


def test_a_port_that_is_taken_ends_the_start_with_a_sentence(watched: Watched, tmp_path: Path) -> None:
    other = OttlaProcess(tmp_path / "data", {"ottla.metrics.port": str(watched.port)})
    answer = subprocess.run(other.command(), capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1
    assert f"metrics cannot be served on localhost:{watched.port}" in answer.stderr
    assert "choose another port with --metrics-port" in answer.stderr
    assert "Traceback" not in answer.stderr


# --- a cluster ---


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(3) as made:
        yield made


class Pages:
    """What the nodes of a cluster tell."""

    def __init__(self, cluster: ottla.testing.Cluster) -> None:
        self._cluster = cluster
        self._scrapes: dict[object, Scrape] = {}

    def of(self, number: int) -> Page:
        life = self._cluster._node(number).life
        assert life is not None
        scrape = self._scrapes.setdefault(life, Scrape(life.assembly, self._cluster._around.time))
        return Page.of(life.do(scrape.page()).result(60).decode())

    def sum(self, name: str, **labels: object) -> float:
        """Over all nodes that run."""
        numbers = [number for number in self._cluster.nodes if self._cluster._node(number).running]
        return sum(self.of(number).get(name, **labels) or 0 for number in numbers)

    def told_by(self, name: str, **labels: object) -> list[int]:
        return [number for number in self._cluster.nodes if self.of(number).get(name, **labels) is not None]


def test_sums_over_all_nodes_are_those_of_the_cluster(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("summed", partitions=4)
    cluster.wait_in_sync([topic])
    pages = Pages(cluster)
    controller = "kafka_controller_kafkacontroller_"
    wait_until(lambda: pages.sum(f"{controller}activecontrollercount") == 1)
    wait_until(lambda: pages.sum("kafka_brokers") == pages.sum(f"{controller}activebrokercount") == 3)
    wait_until(lambda: pages.sum("kafka_topic_partitions", topic=topic) == 4)
    partitions = f"{controller}globalpartitioncount"
    wait_until(lambda: pages.sum("kafka_server_replicamanager_leadercount") == pages.sum(partitions))
    wait_until(lambda: len(pages.told_by("kafka_log_log_size", topic=topic, partition=0)) == 3)
    wait_until(lambda: len(pages.told_by("kafka_topic_partition_replicas", topic=topic, partition=0)) == 1)


def test_the_leader_of_the_quorum_tells_how_far_the_others_are(cluster: ottla.testing.Cluster) -> None:
    pages = Pages(cluster)

    def is_told() -> bool:
        leader = cluster.controller()
        return pages.told_by("kafka_server_raftmetrics_current_state", current_state="leader") == [leader] and all(
            pages.told_by("ottla_quorum_lag", replica=number, role="voter") == [leader]
            and pages.of(leader).get("ottla_quorum_lag", replica=number, role="voter") == 0
            and pages.of(number).get("kafka_server_raftmetrics_current_leader") == leader
            for number in cluster.nodes
        )

    wait_until(is_told)


def test_the_lag_of_a_group_is_told_where_its_topic_lies_elsewhere(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("elsewhere", partitions=3, replicas=1)
    for partition in range(3):
        produce(cluster.bootstrap, topic, 10, partition)
        commit(cluster.bootstrap, "readers", topic, partition, 4)
    pages = Pages(cluster)
    for partition in range(3):
        place = {"consumergroup": "readers", "topic": topic, "partition": partition}
        wait_until(lambda place=place: pages.sum("kafka_consumergroup_lag", **place) == 6)  # type: ignore[misc]
        assert len(pages.told_by("kafka_consumergroup_lag", **place)) == 1
    wait_until(lambda: pages.sum("kafka_consumergroup_lag_sum", consumergroup="readers", topic=topic) == 18)


def test_a_lost_broker_is_seen_in_the_numbers_of_the_others(cluster: ottla.testing.Cluster) -> None:
    topic = cluster.create_topic("lost")
    cluster.wait_in_sync([topic])
    pages = Pages(cluster)
    lost = cluster.leader(topic)
    cluster.kill(lost)
    missing = {"topic": topic, "partition": 0}
    wait_until(lambda: pages.sum("kafka_cluster_partition_underreplicated", **missing) == 1)
    wait_until(lambda: pages.sum("kafka_controller_kafkacontroller_fencedbrokercount") == 1)
    wait_until(lambda: pages.sum("kafka_server_replicamanager_underreplicatedpartitions") >= 1)
    cluster.restart(lost)
    cluster.wait_in_sync([topic])
    wait_until(lambda: pages.sum("kafka_server_replicamanager_underreplicatedpartitions") == 0)
    assert pages.sum("kafka_server_replicamanager_isrexpands_total") >= 1
    wait_until(lambda: pages.sum("ottla_replica_lag", **missing, replica=lost) == 0)
