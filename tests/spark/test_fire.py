"""Exactly-once under fire: drivers, executors and brokers are killed, and each result is there once.

One story, since a driver takes seconds to start: the same driver runs a stream on a cluster of three ottla nodes, one
on a real Kafka and one that delivers at least once; it is killed at one step of a batch after another and started again
from its checkpoints. At least once shows duplicates, so the story can fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import ottla
from kit.brokers.cluster_processes import ClusterProcesses
from kit.brokers.processes import until
from kit.others.committed import committed_values
from kit.others.spark_programs import Plan, Query, driver

PARTITIONS = 2
A_BATCH = 20
BATCHES = 7
RECORDS = A_BATCH * BATCHES
RESULTS = sorted(f"result {number}" for number in range(RECORDS))
SOURCE, TARGET, TARGET_OF_PLAIN = "fire-source", "fire-target", "fire-target-plain"
VISIBLE_SECONDS = 60.0

Clusters = Mapping[str, ClusterProcesses]


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Clusters]:
    """Three nodes of ottla, and one of Kafka, each with records to read."""
    with ExitStack() as stack:
        running = {
            kind: stack.enter_context(ClusterProcesses(tmp_path / kind, nodes, kind=kind))
            for kind, nodes in (("ottla", 3), ("kafka", 1))
        }
        for cluster in running.values():
            for topic in (SOURCE, TARGET, TARGET_OF_PLAIN):
                cluster.create_topic(topic, PARTITIONS, len(cluster.nodes))
            with ottla.blocking.Producer(bootstrap_servers=cluster.bootstrap) as producer:
                for number in range(RECORDS):
                    producer.send(SOURCE, str(number).encode(), partition=number % PARTITIONS)
                producer.flush()
        yield running


class Story:
    """The queries of the story, and where they are stopped in each run."""

    def __init__(self, clusters: Clusters, folder: Path) -> None:
        self._clusters = clusters
        self.folder = folder

    def plan(self, places: Mapping[int, str], plain: Mapping[int, str]) -> Plan:
        exact = [self._query(kind, kind, TARGET, "exactly-once", places) for kind in self._clusters]
        return Plan(self.folder, [*exact, self._query("plain", "ottla", TARGET_OF_PLAIN, "at-least-once", plain)])

    def _query(self, name: str, kind: str, target: str, delivery: str, places: Mapping[int, str]) -> Query:
        servers = self._clusters[kind].bootstrap
        checkpoint = str(self.folder / f"checkpoint-{name}")
        return Query(name, servers, SOURCE, target, checkpoint, delivery, A_BATCH, places)

    def reached(self, batch: int, place: str, *names: str) -> list[Path]:
        return [self.folder / f"{name}.{batch}.{place}" for name in names or self._clusters]

    def let_go(self) -> None:
        for name in self._clusters:
            (self.folder / f"{name}.go").touch()


def values(clusters: Clusters, kind: str, topic: str) -> list[str]:
    return committed_values(clusters[kind].bootstrap, topic)


def complete(clusters: Clusters, kind: str) -> bool:
    """An end is answered before its markers are in every log: what must be there may come a little later."""
    return len(values(clusters, kind, TARGET)) >= RECORDS


@pytest.mark.timeout(900)
def test_each_result_is_there_once_whatever_is_killed(clusters: Clusters, tmp_path: Path) -> None:
    story = Story(clusters, tmp_path)

    with driver(story.plan({1: "before-decision"}, {1: "before-decision"}), tmp_path / "first.json") as run:
        run.reach(*story.reached(1, "before-decision", "ottla", "kafka", "plain"))
        for kind in clusters:
            assert len(values(clusters, kind, TARGET)) <= A_BATCH, "what is not decided is not to be seen"
        run.kill()

    for name, batch, place in (("second", 2, "after-decision"), ("third", 3, "between-ends")):
        with driver(story.plan({batch: place}, {}), tmp_path / f"{name}.json") as run:
            run.reach(*story.reached(batch, place))
            run.kill()

    with driver(story.plan({4: "worker", 5: "hold"}, {}), tmp_path / "fourth.json") as run:
        run.reach(*story.reached(4, "worker"), *story.reached(5, "hold"))
        clusters["ottla"].kill(clusters["ottla"].leader(TARGET))
        clusters["kafka"].kill(1)
        clusters["kafka"].start(1)
        story.let_go()
        run.finish()

    for kind in clusters:
        until(partial(complete, clusters, kind), f"results on {kind}", VISIBLE_SECONDS)
        assert values(clusters, kind, TARGET) == RESULTS
    plain = values(clusters, "ottla", TARGET_OF_PLAIN)
    assert sorted(set(plain)) == RESULTS
    # As many times as its driver was killed: this query runs beside the others and is stopped wherever it is.
    assert len(plain) >= RECORDS + A_BATCH, "at least once: the batch whose driver was killed is there twice"
