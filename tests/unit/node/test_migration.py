"""A stopped cluster's metadata, moved from ZooKeeper's tree to the quorum."""

import json
from pathlib import Path

import pytest

from kit.machines.clusters import applied, creation, new_topic, registration
from kit.machines.partition_states import place
from kit.worlds.zookeeper_nodes import MemoryCluster
from kit.worlds.zookeeper_tree import MemorySession, MemoryTree
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_text
from ottla.log.files import World
from ottla.log.properties import read_directory_properties
from ottla.metadata import brokers
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import METADATA_VERSION
from ottla.metadata.image import NO_LEADER, ClusterImage, ResourceType
from ottla.metadata.snapshot import facts_of
from ottla.node.formatting import Wishes, metadata_log_directory
from ottla.node.migration import MigrationPlan, move, require_voter, survey
from ottla.node.options import Options, StartFailure, resolve
from ottla.quorum.snapshots import Snapshots
from ottla.records.control import Voters
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

WORLD = World(RealDisk(), RealClock(), RealRandom())
CLUSTER = identity_text(b"c" * 16)


def classic_tree() -> MemoryTree:
    """As a broker of Kafka's, from before topics had ids, left it."""
    tree = MemoryTree()
    content: dict[str, object] = {
        "/cluster/id": {"version": "1", "id": CLUSTER},
        "/brokers/topics/orders": {"version": 1, "partitions": {"0": [1, 2], "1": [2, 1]}},
        "/brokers/topics/bills": {"version": 2, "partitions": {"0": [1]}, "adding_replicas": {}},
        "/brokers/topics/orders/partitions/0/state": {
            "controller_epoch": 7, "leader": 1, "version": 1, "leader_epoch": 5, "isr": [1],
        },
        "/brokers/topics/orders/partitions/1/state": {
            "controller_epoch": 7, "leader": -1, "version": 1, "leader_epoch": 3, "isr": [2],
        },
        "/brokers/topics/bills/partitions/0/state": {
            "controller_epoch": 7, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1],
        },
        "/config/topics/orders": {"version": 1, "config": {"retention.ms": "1000"}},
        "/config/users/somebody": {"version": 1, "config": {"producer_byte_rate": "1024"}},
        "/latest_producer_id_block": {"version": 1, "broker": 1, "block_start": "4000", "block_end": "4999"},
        "/admin/delete_topics/bills": {},
    }  # fmt: skip
    for path, each in content.items():
        if path in tree.nodes:  # made on the way to another
            tree.write(path, json.dumps(each).encode())
        else:
            tree.create(path, json.dumps(each).encode(), makepath=True)
    tree.create("/brokers/ids", b"")
    tree.create("/controller_epoch", b"7")
    return tree


def voter_values(path: Path, node_id: int = 1) -> BrokerValues:
    return resolve(Options(data=str(path), assignments=[f"node.id={node_id}"]))


async def test_a_tree_of_kafkas_is_moved_whole_and_told_what_is_not() -> None:
    plan = await survey(MemorySession(classic_tree()))
    orders = plan.image.topics["orders"]
    assert plan.image.cluster_id == CLUSTER
    assert [partition.replicas for partition in orders.partitions] == [(1, 2), (2, 1)]
    assert [partition.in_sync for partition in orders.partitions] == [(1,), (2,)]
    assert plan.image.config(ResourceType.TOPIC, "orders") == {"retention.ms": "1000"}
    assert plan.image.next_producer_id == 5000
    assert plan.image.features["metadata.version"] == METADATA_VERSION
    assert plan.position.epoch == 7
    assert plan.remarks == (
        "quotas and SCRAM credentials of users stay behind: 1 under /config/users",
        "topics that wait for their deletion are moved as they are: bills",
    )


async def test_reading_and_writing_tell_how_far_they_are(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    plan = await survey(MemorySession(classic_tree()), lambda read, known: seen.append((read, known)))
    assert [read for read, _ in seen] == list(range(1, len(seen) + 1))
    known = [each for _, each in seen]
    assert known == sorted(known), "the tree tells bit by bit how much there is"
    assert seen[-1] == (known[-1], known[-1])
    written: list[int] = []
    move(WORLD, voter_values(tmp_path), plan, Wishes(), written.append)
    assert sum(written) == plan.facts > 0


async def test_nobody_leads_at_first_and_each_leader_before_is_of_an_older_epoch() -> None:
    orders = (await survey(MemorySession(classic_tree()))).image.topics["orders"]
    assert [partition.leader for partition in orders.partitions] == [NO_LEADER, NO_LEADER]
    assert [partition.leader_epoch for partition in orders.partitions] == [6, 3]


async def test_who_was_in_sync_leads_when_it_comes_back_though_only_the_tree_knows_it() -> None:
    """A tree of Kafka's has no registrations that a clean stop could be told by."""
    plan = await survey(MemorySession(classic_tree()))
    image = applied(facts_of(plan.image), ClusterImage(CLUSTER))
    for number in (1, 2):
        request = registration(number)
        request.cluster_id = CLUSTER
        image = applied(brokers.register(request, place(image), number, brokers.RegisteredProcess.GONE).facts, image)
        beat = BrokerHeartbeatRequest(number, number, 1000, want_fence=False)
        image = applied(brokers.heartbeat(beat, place(image), brokers.HeartbeatState(None, 1 << 60)).facts, image)
    assert [each.leader for each in image.topics["orders"].partitions] == [1, 2]
    assert [each.leader for each in image.topics["bills"].partitions] == [1]
    assert not any(each.recovering for topic in image.topics.values() for each in topic.partitions)


async def test_voters_on_several_machines_begin_with_the_same_ids() -> None:
    one, other = await survey(MemorySession(classic_tree())), await survey(MemorySession(classic_tree()))
    assert one.image == other.image
    assert len({topic.topic_id for topic in one.image.topics.values()}) == 2


@pytest.mark.parametrize("path", ["/brokers/ids/1", "/controller"])
async def test_a_cluster_that_runs_is_looked_at_and_not_moved(path: str, tmp_path: Path) -> None:
    tree = classic_tree()
    tree.create(path, b"{}", owner=1)
    plan = await survey(MemorySession(tree))
    assert sorted(plan.image.topics) == ["bills", "orders"]
    with pytest.raises(StartFailure, match=r"the cluster runs: .* Stop every node first"):
        move(WORLD, voter_values(tmp_path), plan, Wishes())
    assert RealDisk().list(str(tmp_path)) == []


async def test_brokers_that_run_are_named() -> None:
    tree = classic_tree()
    for number in (1, 2):
        tree.create(f"/brokers/ids/{number}", b"{}", owner=number)
    plan = await survey(MemorySession(tree))
    assert plan.obstacle is not None
    assert "brokers 1, 2 are registered" in plan.obstacle


async def test_a_tree_without_a_cluster_is_refused() -> None:
    with pytest.raises(StartFailure, match="no cluster in this tree"):
        await survey(MemorySession(MemoryTree()))


async def test_looking_writes_nothing() -> None:
    tree = classic_tree()
    before = tree.znodes()
    await survey(MemorySession(tree))
    assert tree.znodes() == before


async def test_the_first_snapshot_of_a_voter_is_what_was_planned(tmp_path: Path) -> None:
    plan = await survey(MemorySession(classic_tree()))
    values = voter_values(tmp_path)
    move(WORLD, values, plan, Wishes())
    own = read_directory_properties(RealDisk(), str(tmp_path))
    assert own is not None
    assert (own.cluster_id, own.node_id) == (CLUSTER, 1)
    snapshots = Snapshots(WORLD, metadata_log_directory(values))
    assert snapshots.found() == [plan.position]
    delta = ClusterDelta(ClusterImage(CLUSTER))
    delta.replay_all(snapshots.facts(plan.position))
    image = delta.apply(plan.image.offset, plan.image.epoch)
    assert image.topics == plan.image.topics
    assert image.configs == plan.image.configs
    assert image.next_producer_id == plan.image.next_producer_id


@pytest.mark.parametrize("formatted", [True, False])
async def test_voters_that_can_change_begin_with_the_ids_of_their_directories(tmp_path: Path, formatted: bool) -> None:
    """Directories of Kafka's brokers have none at first; those of new machines are not there at all."""
    text = f"version=0\ncluster.id={CLUSTER}\nbroker.id=1\n"
    named = identity_text(b"d" * 16)
    for name, wishes in (
        ("alone", Wishes(standalone=True)),
        ("named", Wishes(initial_controllers=f"1@127.0.0.1:9093:{named}")),
    ):
        folder = tmp_path / name
        if formatted:
            folder.mkdir()
            (folder / "meta.properties").write_text(text)
        listeners = "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
        values = resolve(Options(data=str(folder), assignments=["node.id=1", listeners]))
        plan = await survey(MemorySession(classic_tree()))
        move(WORLD, values, plan, wishes)
        own = read_directory_properties(RealDisk(), str(folder))
        assert own is not None
        controls = Snapshots(WORLD, metadata_log_directory(values)).controls(plan.position)
        (voter,) = next(each.voters for each in controls if isinstance(each, Voters))
        assert (voter.voter_id, voter.directory_id) == (1, own.directory_id)
        assert len(own.directory_id) == 16
        assert name == "alone" or identity_text(own.directory_id) == named


async def test_metadata_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    plan = await survey(MemorySession(classic_tree()))
    values = voter_values(tmp_path)
    move(WORLD, values, plan, Wishes())
    with pytest.raises(StartFailure, match="holds metadata of a quorum already"):
        move(WORLD, values, plan, Wishes())


async def test_directories_of_another_cluster_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    other = identity_text(b"o" * 16)
    (tmp_path / "meta.properties").write_text(f"version=0\ncluster.id={other}\nbroker.id=1\n")
    plan = await survey(MemorySession(classic_tree()))
    with pytest.raises(StartFailure, match=f"holds data of cluster {other}"):
        move(WORLD, voter_values(tmp_path), plan, Wishes())
    assert RealDisk().list(str(tmp_path)) == ["meta.properties"]


def test_a_node_that_does_not_vote_by_its_settings_is_refused(tmp_path: Path) -> None:
    by_zookeeper = resolve(Options(data=str(tmp_path), assignments=["zookeeper.connect=localhost:2181"]))
    with pytest.raises(StartFailure, match=r"node 1 is no voter by these settings: take zookeeper\.connect out"):
        require_voter(WORLD, by_zookeeper)


async def test_the_log_goes_on_behind_every_epoch_that_a_broker_has() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        await leader.register(leader.controller)
        await leader.controller.create_topics(creation(new_topic("orders", 2, 1)))
        await cluster.agreed()
        tree, image = cluster.tree, leader.loader.image
    for path in [f"/brokers/ids/{name}" for name in tree.children("/brokers/ids")]:
        tree.end_session(tree.nodes[path].owner)
    tree.create("/cluster/id", json.dumps({"version": "1", "id": CLUSTER}).encode(), makepath=True)
    plan: MigrationPlan = await survey(MemorySession(tree))
    assert plan.image.topics["orders"].topic_id == image.topics["orders"].topic_id
    assert list(plan.image.brokers) == list(image.brokers)
    for broker in plan.image.brokers.values():
        assert broker.fenced
        assert broker.epoch < plan.position.offset
