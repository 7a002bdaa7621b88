"""Reads from the nearest replica: a task in a follower's rack is served by that follower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ottla.blocking
from kit.brokers.cluster_processes import ClusterProcesses
from kit.brokers.processes import until
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster
from ottla.spark.batch_reader import BatchReader, RangePartition
from ottla.spark.options import parse_source
from ottla.spark.stream_reader import StreamReader
from ottla.wire.messages.fetch import FetchResponse

TOPIC = "numbers"
RECORDS = 3000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    settings = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        # a follower that a busy machine lets wait for a while is still one to read from
        "replica.lag.time.max.ms": "60000",
        "broker.session.timeout.ms": "60000",
    }
    cluster = ClusterProcesses(tmp_path_factory.mktemp("racks"), settings=settings)
    for number, node in cluster.nodes.items():
        with node.folder.joinpath("server.properties").open("a") as file:
            file.write(f"broker.rack=rack-{number}\n")
    with cluster:
        cluster.create_topic(TOPIC, 1, 3)
        with ottla.blocking.Producer(bootstrap_servers=cluster.bootstrap, batch_size=2000) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, b"%050d" % number)
        until(lambda: cluster.in_sync(TOPIC), "all replicas have the records")
        yield cluster


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which nodes answered fetches with records, one after another."""
    nodes: list[int] = []
    ask = Cluster.ask_node

    async def listening(self: Cluster, node: int, *arguments: Any, **options: Any) -> Any:
        answer = await ask(self, node, *arguments, **options)
        if isinstance(answer, FetchResponse) and any(
            part.records for topic in answer.responses for part in topic.partitions
        ):
            nodes.append(node)
        return answer

    monkeypatch.setattr(Cluster, "ask_node", listening)
    return nodes


def options(cluster: ClusterProcesses, near: int) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "client.rack": f"rack-{near}",
        "max.partition.fetch.bytes": "4000",
    }


def follower(cluster: ClusterProcesses) -> int:
    leader = cluster.leader(TOPIC)
    return next(number for number in cluster.nodes if number != leader)


def offsets(reader: BatchReader | StreamReader, part: object) -> list[int]:
    assert isinstance(part, RangePartition)
    assert part.wanted.partition == TopicPartition(TOPIC, 0)
    return [offset for batch in reader.read(part) for offset in batch.column("offset").to_pylist()]


def test_a_batch_is_read_from_the_follower_in_its_rack(cluster: ClusterProcesses, served: list[int]) -> None:
    near = follower(cluster)
    reader = BatchReader(parse_source(options(cluster, near), streaming=False))
    (part,) = reader.partitions()
    assert offsets(reader, part) == list(range(RECORDS))
    assert set(served) == {near}
    assert len(served) > 10


def test_a_stream_is_read_from_the_follower_in_its_rack(cluster: ClusterProcesses, served: list[int]) -> None:
    near = follower(cluster)
    reader = StreamReader(parse_source(options(cluster, near), streaming=True))
    (part,) = reader.partitions({TOPIC: {"0": 0}}, {TOPIC: {"0": 1000}})
    assert offsets(reader, part) == list(range(1000))
    assert set(served) == {near}


def test_a_reader_whose_follower_dies_goes_on_at_another(cluster: ClusterProcesses, served: list[int]) -> None:
    near = follower(cluster)
    reader = BatchReader(parse_source(options(cluster, near) | {"maxRecordsPerPartition": "1500"}, streaming=False))
    first, second = reader.partitions()
    assert offsets(reader, first) == list(range(1500))
    cluster.kill(near)
    served.clear()
    assert offsets(reader, second) == list(range(1500, RECORDS))
    assert near not in served
