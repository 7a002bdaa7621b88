"""What a cluster does with its tree in a real ZooKeeper: orders of operators, brokers that come and go, refusals."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kit.brokers.processes import OttlaProcess, free_port, until
from kit.brokers.zookeeper import ZooKeeperEnsemble
from kit.brokers.zookeeper_clusters import ZooKeeperCluster
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage
from ottla.wire.stored.metadata import FeatureLevelRecord
from ottla.zookeeper import layout
from ottla.zookeeper.leadership import Leadership, Term
from ottla.zookeeper.session import SessionSettings, ZooKeeperSession
from ottla.zookeeper.translation import TreeWriter, Write


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeperEnsemble) -> Iterator[ZooKeeperCluster]:
    settings = {"zookeeper.session.timeout.ms": "15000"}
    directory = tmp_path_factory.mktemp("cluster")
    with ZooKeeperCluster(directory, zookeeper, settings=settings, chroot="/some/where") as running:
        yield running


def test_what_operators_place_in_the_tree_is_done(cluster: ZooKeeperCluster) -> None:
    cluster.create_topic("going")
    cluster.create_topic("moving", copies=2)
    replicas = cluster.partition("moving")["replica_nodes"]
    third = next(number for number in cluster.nodes if number not in replicas)
    wanted = [third, replicas[0]]
    cluster.tree.create("/admin/delete_topics/going")
    request = {"version": 1, "partitions": [{"topic": "moving", "partition": 0, "replicas": wanted}]}
    cluster.tree.create("/admin/reassign_partitions", json.dumps(request).encode())
    until(lambda: not cluster.tree.exists("/brokers/topics/going"), "the topic is gone", 60.0)
    until(lambda: not cluster.tree.exists("/admin/reassign_partitions"), "all that was asked for has moved", 60.0)
    moved = cluster.znode("/brokers/topics/moving")
    assert (moved["partitions"], moved["adding_replicas"], moved["removing_replicas"]) == ({"0": wanted}, {}, {})
    until(lambda: cluster.partition("moving")["replica_nodes"] == wanted, "every node knows", 60.0)
    election = {"version": 1, "partitions": [{"topic": "moving", "partition": 0}]}
    until(lambda: len(cluster.partition("moving")["isr_nodes"]) == 2, "both are in sync", 60.0)
    cluster.tree.create("/admin/preferred_replica_election", json.dumps(election).encode())
    until(lambda: cluster.partition("moving")["leader_id"] == third, "the first replica leads", 60.0)
    until(lambda: not cluster.tree.exists("/admin/preferred_replica_election"), "the request is gone", 60.0)
    assert cluster.znode("/brokers/topics/moving/partitions/0/state")["leader"] == third


def test_a_broker_that_stops_leaves_the_tree_at_once_and_one_that_starts_is_in_it(cluster: ZooKeeperCluster) -> None:
    number = next(each for each in cluster.nodes if each != cluster.controller())
    cluster.stop(number)
    assert not cluster.tree.exists(f"/brokers/ids/{number}")
    cluster.start(number)
    assert cluster.tree.exists(f"/brokers/ids/{number}")
    cluster.heal()


def test_an_operator_who_removes_the_controller_gets_another_epoch(cluster: ZooKeeperCluster) -> None:
    before = int(cluster.tree.get("/controller_epoch")[0])
    asked = cluster.metadata(1)
    assert asked is not None
    assert asked["controller_id"] == cluster.controller(), "clients are told who it is"
    cluster.tree.delete("/controller")
    until(lambda: int(cluster.tree.get("/controller_epoch")[0]) > before, "another epoch", 60.0)
    cluster.create_topic("after-the-election")


def complaint(data: Path, **settings: str) -> str:
    """What a node says before it ends with code 1."""
    command = [str(Path(sys.executable).with_name("ottla")), "serve", "--port", "0", "--data", str(data)]
    for name, value in settings.items():
        command += ["--set", f"{name.replace('_', '.')}={value}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1, f"code {answer.returncode}:\n{answer.stdout}{answer.stderr}"
    assert len(answer.stderr.strip().splitlines()) == 1, f"one sentence:\n{answer.stderr}"
    return answer.stderr


def test_a_node_that_cannot_join_says_why_in_one_sentence(
    tmp_path: Path, cluster: ZooKeeperCluster, zookeeper: ZooKeeperEnsemble
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    said = complaint(tmp_path / "alone", zookeeper_connect=nobody, zookeeper_connection_timeout_ms="1000")
    assert f"no ZooKeeper server of {nobody} answered within 1 s" in said
    of_another = tmp_path / "of-another"
    of_another.mkdir()
    (of_another / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n")
    said = complaint(of_another, zookeeper_connect=f"{zookeeper.connect}/some/where")
    assert "holds data of cluster AAAAAAAAAAAAAAAAAAAAAA" in said
    said = complaint(tmp_path / "both", zookeeper_connect=zookeeper.connect, process_roles="broker,controller")
    assert "process.roles" in said


def test_brokers_without_a_number_get_one_from_zookeeper_and_keep_it(
    tmp_path: Path, zookeeper: ZooKeeperEnsemble
) -> None:
    place = f"{zookeeper.connect}/numbers"
    settings = {"zookeeper.connect": place, "zookeeper.connection.timeout.ms": "20000"}
    with (
        OttlaProcess(tmp_path / "first", settings) as first,
        OttlaProcess(tmp_path / "second", {**settings, "broker.id": "-1", "reserved.broker.max.id": "5000"}) as second,
        closing(zookeeper.client("/numbers")) as tree,
    ):
        assert "(node 1001, " in first.announcement
        assert "(node 5002, " in second.announcement
        assert sorted(tree.get_children("/brokers/ids")) == ["1001", "5002"]
        first.restart()
        assert "(node 1001, " in first.announcement
        assert sorted(tree.get_children("/brokers/ids")) == ["1001", "5002"]
        assert tree.get("/brokers/seqid")[1].version == 2
        tree.stop()
    assert "node.id=1001\n" in (tmp_path / "first" / "meta.properties").read_text()
    said = complaint(tmp_path / "high", zookeeper_connect=place, broker_id="1001")
    assert "broker.id=1001 is above reserved.broker.max.id=1000" in said
    said = complaint(tmp_path / "none", zookeeper_connect=place, broker_id_generation_enable="false")
    assert "set broker.id" in said


async def test_a_deposed_controllers_write_is_refused_by_the_ensemble(
    zookeeper: ZooKeeperEnsemble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ottla.zookeeper")
    loop = asyncio.get_running_loop()
    session = ZooKeeperSession(loop, SessionSettings(f"{zookeeper.connect}/fence", session=10.0, connect=30.0))
    await loop.run_in_executor(None, session.open)
    try:
        await session.create(layout.CONTROLLER_EPOCH, b"1")
        await session.create(layout.LAST_OFFSET, b"0")
        told: asyncio.Queue[int] = asyncio.Queue()
        failed: asyncio.Future[str] = loop.create_future()
        office = Leadership(
            session,
            Term(1, 0, 0),
            ClusterImage("cluster", 0),
            TreeWriter([], 1),
            lambda stored, image: told.put_nowait(stored.offset),
            failed.set_result,
        )
        fact: Fact = FeatureLevelRecord(name="group.version", feature_level=1)
        office.append([fact])
        async with asyncio.timeout(30):
            assert await told.get() == 1
        # Another is elected, as Kafka's controllers are: with one more in /controller_epoch.
        await session.commit([Write(layout.CONTROLLER_EPOCH, b"2", 0)])
        office.append([FeatureLevelRecord(name="group.version", feature_level=2)])
        office.append([FeatureLevelRecord(name="group.version", feature_level=3)])
        async with asyncio.timeout(30):
            why = await failed
        assert why == "a write of the controller of epoch 1 was refused: BadVersion at /controller_epoch"
        assert told.empty()
        found = await session.get(layout.FEATURE)
        assert found is not None
        assert layout.read_features(found.data) == {"group.version": 1}
    finally:
        await loop.run_in_executor(None, session.close)
