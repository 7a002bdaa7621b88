"""Clusters for the stories of this folder: each is told on both ways of coordination, the quorum and ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kit.brokers.cluster_processes import ClusterProcesses, NewCluster, under_test
from kit.brokers.patience import allow
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.brokers.zookeeper_clusters import ONLY_THE_STORYS_TOPICS, ZooKeeperCluster

# Kafka 4 has no other way than the quorum.
COORDINATION = ["quorum"] if under_test() == "kafka" else ["quorum", "zookeeper"]


STORY_SECONDS = 600
"""Stories of processes take half a minute, and a few times that where the machine has other things to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow(items, Path(__file__).parent, STORY_SECONDS)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """One server for all stories; each cluster has its own place in the tree."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper"), 1) as running:
        yield running


@pytest.fixture(params=COORDINATION)
def new_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> NewCluster:
    def of_quorum(
        nodes: int = 3, settings: Mapping[str, str] | None = None, *, links: bool = False
    ) -> ClusterProcesses:
        return ClusterProcesses(tmp_path, nodes, {**ONLY_THE_STORYS_TOPICS, **(settings or {})}, links=links)

    if request.param == "quorum":
        return of_quorum
    ensemble: ZooKeeperEnsemble = request.getfixturevalue("zookeeper")

    def of_zookeeper(
        nodes: int = 3, settings: Mapping[str, str] | None = None, *, links: bool = False
    ) -> ClusterProcesses:
        own = {**ONLY_THE_STORYS_TOPICS, **(settings or {})}
        return ZooKeeperCluster(tmp_path, ensemble, nodes, own, links=links, chroot=f"/{tmp_path.name}")

    return of_zookeeper
