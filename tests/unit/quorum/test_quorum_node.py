"""Quorum nodes on real files, several in one loop."""

import asyncio
import errno
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kit.disks.faulty_disk import FaultyDisk
from kit.worlds.quorum_nodes import QUICK, Quorum, topic
from ottla.base.errors import ErrorCode
from ottla.base.ports import File
from ottla.log.batches import StoredBatch, read_batches
from ottla.log.files import StorageFailure
from ottla.metadata.quorum_events import NotLeader
from ottla.quorum import snapshots
from ottla.quorum.node import QuorumNode
from ottla.quorum.state_file import BadQuorumState, read_quorum_state
from ottla.raft.voters import Election, ReplicaKey
from ottla.runtime.disk import RealDisk
from ottla.wire.messages import vote
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


async def test_a_sole_voter_leads_before_its_start_returns(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 1)
    node = quorum.start(0)

    assert node.leads
    assert node.leader == (0, 1)
    offset = quorum.decide(0, "a", "b")
    await quorum.all_know("a", "b")
    assert node.high_watermark == offset + 1
    await quorum.stop_all()


async def test_a_sole_voter_tells_after_a_restart_what_it_told_before(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 1)
    quorum.start(0)
    quorum.decide(0, "a")
    quorum.decide(0, "b")
    await quorum.all_know("a", "b")
    await quorum.stop(0)

    quorum.start(0)
    assert quorum.heard[0].names == ["a", "b"]
    assert quorum.nodes[0].epoch == 2
    await quorum.stop_all()


async def test_three_voters_and_an_observer_agree(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    for node_id in range(4):
        quorum.start(node_id)
    leader = await quorum.leader()

    quorum.decide(leader, "a")
    quorum.decide(leader, "b", "c")
    await quorum.all_know("a", "b", "c")
    assert {node.leader for node in quorum.nodes.values()} == {(leader, quorum.nodes[leader].epoch)}
    assert {node.leader_address for node in quorum.nodes.values()} == {("here", leader)}
    assert sum(("began", node.epoch) in quorum.heard[i].events for i, node in quorum.nodes.items()) == 1
    await quorum.stop_all()


async def test_only_the_leader_takes_decisions(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    for node_id in range(3):
        quorum.start(node_id)
    leader = await quorum.leader()

    with pytest.raises(NotLeader, match="does not lead"):
        quorum.decide((leader + 1) % 3, "a")
    await quorum.stop_all()


async def test_when_the_leader_is_killed_another_takes_over_and_nothing_committed_is_lost(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    for node_id in range(3):
        quorum.start(node_id)
    first = await quorum.leader()
    quorum.decide(first, "a")
    await quorum.all_know("a")

    await quorum.kill(first)
    second = await quorum.leader()
    quorum.decide(second, "b")
    await quorum.all_know("a", "b")
    quorum.start(first)
    await quorum.all_know("a", "b")
    assert quorum.nodes[second].epoch > 1
    await quorum.stop_all()


async def test_a_killed_leader_is_replaced_long_before_the_fetch_time_out(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    quorum.settings = quorum.settings._replace(fetch_timeout=600.0, election_timeout=5.0, request_timeout=600.0)
    for node_id in range(3):
        quorum.start(node_id)
    first = await quorum.leader()
    quorum.decide(first, "a")
    await quorum.all_know("a")

    await quorum.kill(first)
    await quorum.leader()
    await quorum.stop_all()


async def test_a_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    quorum.settings = quorum.settings._replace(fetch_timeout=30.0, election_timeout=5.0, request_timeout=30.0)
    for node_id in range(3):
        quorum.start(node_id)
    first = await quorum.leader()
    epoch = quorum.nodes[first].epoch

    await quorum.stop(first)
    assert ("stopped", epoch) in quorum.heard[first].events
    second = await quorum.leader()
    quorum.decide(second, "a")
    await quorum.all_know("a")
    await quorum.stop_all()


async def test_a_leader_cut_off_gives_up_and_its_lonely_decision_is_replaced(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    for node_id in range(3):
        quorum.start(node_id)
    first = await quorum.leader()
    quorum.decide(first, "a")
    await quorum.all_know("a")

    quorum.isolate(first)
    quorum.decide(first, "lonely")
    others = [node_id for node_id in range(3) if node_id != first]
    second = await quorum.leader(others)
    quorum.decide(second, "b")
    await quorum.all_know("a", "b", among=others)
    await quorum.until(lambda: not quorum.nodes[first].leads)
    assert quorum.heard[first].names == ["a"]
    quorum.cuts.clear()
    await quorum.all_know("a", "b")
    await quorum.stop_all()


async def two_that_have_trimmed(tmp_path: Path) -> tuple[Quorum, int, list[str]]:
    """Two of three voters whose logs no longer hold what their snapshots tell, who leads them, and what was decided."""
    quorum = Quorum(tmp_path, 3)
    quorum.settings = quorum.settings._replace(
        snapshot_max_bytes=100, segment_bytes=400, retention_bytes=0, retention_ms=0
    )
    quorum.start(0)
    quorum.start(1)
    leader = await quorum.leader()
    names = [f"topic-{number}" for number in range(40)]
    for name in names:
        quorum.decide(leader, name)
    await quorum.all_know(*names)
    for node_id in (0, 1):
        node = quorum.nodes[node_id]
        node.take_snapshot([topic(name) for name in names[:10]], quorum.heard[node_id].offsets[10], node.epoch)
        await quorum.until(partial(has_snapshot, node, 10))
        node.take_snapshot([topic(name) for name in names], node.high_watermark - 1, node.epoch)
        await quorum.until(partial(has_snapshot, node, 40))
        assert node.log.start_offset > 0
    return quorum, leader, names


async def test_a_node_far_behind_gets_a_snapshot_in_portions(tmp_path: Path) -> None:
    quorum, leader, names = await two_that_have_trimmed(tmp_path)

    quorum.start(2)
    await quorum.all_know(*names)
    assert any(kind == "snapshot" for kind, _ in quorum.heard[2].events)
    quorum.decide(leader, "later")
    await quorum.all_know(*names, "later")
    await quorum.stop(2)
    quorum.start(2)
    await quorum.all_know(*names, "later")
    await quorum.stop_all()


async def test_a_snapshot_of_another_node_is_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quorum, _, names = await two_that_have_trimmed(tmp_path)
    read_in: list[int] = []

    def watched(file: File) -> Iterator[StoredBatch]:
        read_in.append(threading.get_ident())
        return read_batches(file)

    monkeypatch.setattr(snapshots, "read_batches", watched)
    quorum.start(2)
    await quorum.all_know(*names)
    await quorum.stop_all()

    assert read_in
    assert threading.get_ident() not in read_in


def has_caught_up(quorum: Quorum, node_id: int) -> bool:
    described = quorum.nodes[0].raft.describe(asyncio.get_running_loop().time())
    assert described is not None
    return any(seen.key.node_id == node_id and seen.since_caught_up is not None for seen in described.observers)


def has_snapshot(node: QuorumNode, least: int) -> bool:
    return node.snapshot is not None and node.snapshot.offset >= least


async def test_a_restart_begins_with_the_snapshot_and_goes_on_with_the_log(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 1)
    node = quorum.start(0)
    quorum.decide(0, "a")
    await quorum.all_know("a")
    node.take_snapshot([topic("a")], node.high_watermark - 1, node.epoch)
    await quorum.until(lambda: node.snapshot is not None)
    quorum.decide(0, "b")
    await quorum.all_know("a", "b")
    await quorum.stop(0)

    quorum.start(0)
    assert quorum.heard[0].names == ["a", "b"]
    assert quorum.heard[0].events[0] == ("snapshot", 1)
    assert (tmp_path / "node-0" / "00000000000000000002-0000000001.checkpoint").exists()
    await quorum.stop_all()


async def test_snapshots_are_written_one_at_a_time(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 1)
    node = quorum.start(0)
    offsets = [quorum.decide(0, name) for name in "ab"]
    await quorum.all_know("a", "b")
    node.take_snapshot([topic("a")], offsets[0], node.epoch)
    node.take_snapshot([topic("a"), topic("b")], offsets[1], node.epoch)
    await quorum.until(partial(has_snapshot, node, offsets[0] + 1))

    assert node.log.snapshots.found() == [(offsets[0] + 1, node.epoch)]
    node.take_snapshot([topic("a"), topic("b")], offsets[1], node.epoch)
    await quorum.until(partial(has_snapshot, node, offsets[1] + 1))
    await quorum.stop_all()


async def test_voters_come_and_go_while_it_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.quorum")
    quorum = Quorum(tmp_path, 1, dynamic=True)
    for node_id in range(3):
        quorum.start(node_id)
    quorum.decide(0, "a")
    await quorum.all_know("a")

    for joining in (1, 2):
        await quorum.until(partial(has_caught_up, quorum, joining))
        request = AddRaftVoterRequest(
            "test", 2000, joining, quorum.directory_id(joining), [Listener("CONTROLLER", "here", joining)]
        )
        answer = await quorum.nodes[0].handle(request, 0)
        assert isinstance(answer, AddRaftVoterResponse)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
    assert [voter.voter_id for voter in quorum.nodes[0].voters] == [0, 1, 2]

    leaving = RemoveRaftVoterRequest("test", 0, quorum.directory_id(0))
    gone = await quorum.nodes[0].handle(leaving, 0)
    assert isinstance(gone, RemoveRaftVoterResponse)
    assert gone.error_code == ErrorCode.NONE, gone.error_message
    leader = await quorum.leader([1, 2])
    quorum.decide(leader, "b")
    await quorum.all_know("a", "b")
    assert [voter.voter_id for voter in quorum.nodes[0].voters] == [1, 2]
    told = {record.message for record in caplog.records if record.message.startswith("the voters")}
    assert told >= {f"the voters of the quorum are {now}" for now in ("0, 1 now, 0 before", "0, 1, 2 now, 0, 1 before")}
    assert "the voters of the quorum are 1, 2 now, 0, 1, 2 before" in told
    state = json.loads((tmp_path / "node-1" / "quorum-state").read_text())
    assert state["data_version"] == 1
    await quorum.stop_all()


async def test_a_new_controller_joins_by_itself_where_it_is_told_to(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 1, dynamic=True)
    quorum.settings = quorum.settings._replace(auto_join=True)
    quorum.start(0)
    quorum.start(1)

    await quorum.until(lambda: len(quorum.nodes[0].voters) == 2)
    quorum.decide(0, "a")
    await quorum.all_know("a")
    await quorum.stop_all()


async def test_fixed_voters_cannot_be_changed(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 1)
    quorum.start(0)

    answer = await quorum.nodes[0].handle(RemoveRaftVoterRequest("test", 0, quorum.directory_id(0)), 0)
    assert isinstance(answer, RemoveRaftVoterResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    await quorum.stop_all()


async def test_the_leader_describes_the_quorum_with_its_observers(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    for node_id in range(4):
        quorum.start(node_id)
    leader = await quorum.leader()
    quorum.decide(leader, "a")
    await quorum.all_know("a")
    request = DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])])

    answer = await quorum.nodes[leader].handle(request, 2)
    assert isinstance(answer, DescribeQuorumResponse)
    described = answer.topics[0].partitions[0]
    assert described.leader_id == leader
    assert described.high_watermark == quorum.nodes[leader].high_watermark
    assert [replica.replica_id for replica in described.current_voters] == [0, 1, 2]
    assert [replica.replica_id for replica in described.observers] == [3]
    assert all(replica.last_fetch_timestamp > 0 for replica in (*described.current_voters, *described.observers))
    assert [node.node_id for node in answer.nodes] == [0, 1, 2]

    refused = await quorum.nodes[(leader + 1) % 3].handle(request, 2)
    assert isinstance(refused, DescribeQuorumResponse)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await quorum.stop_all()


async def test_a_fetch_of_anything_else_is_refused(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 1)
    quorum.start(0)

    answer = await quorum.nodes[0].handle(FetchRequest("test"), 17)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    await quorum.stop_all()


async def test_what_could_not_be_synced_is_not_found_after_a_restart(tmp_path: Path) -> None:
    disk = FaultyDisk(RealDisk())
    quorum = Quorum(tmp_path, 1, disk=disk)
    quorum.start(0)
    quorum.decide(0, "a")
    await quorum.all_know("a")

    disk.sync_errno = errno.EIO
    quorum.decide(0, "refused")
    await quorum.until(lambda: not quorum.nodes[0].leads)
    assert quorum.heard[0].leader == -1
    with pytest.raises(StorageFailure):
        quorum.decide(0, "also refused")
    disk.sync_errno = 0
    await quorum.until(lambda: quorum.nodes[0].leads)
    quorum.decide(0, "b")
    await quorum.all_know("a", "b")
    await quorum.stop(0)
    quorum.start(0)
    assert quorum.heard[0].names == ["a", "b"]
    await quorum.stop_all()


async def test_a_leader_whose_disk_fails_is_replaced_and_comes_back(tmp_path: Path) -> None:
    disks = FaultyDisk(RealDisk())
    quorum = Quorum(tmp_path, 3)
    for node_id in range(3):
        quorum.start(node_id)
    first = await quorum.leader()
    quorum.decide(first, "a")
    await quorum.all_know("a")
    await quorum.stop(first)
    quorum._disk = disks
    quorum.start(first)
    second = await quorum.leader()
    await quorum.all_know("a")

    disks.sync_errno = errno.EIO
    quorum.decide(second, "b")
    others = [node_id for node_id in range(3) if node_id != first]
    await quorum.all_know("a", "b", among=others)
    disks.sync_errno = 0
    await quorum.all_know("a", "b")
    await quorum.stop_all()


class HeldDisk(RealDisk):
    """Holds every vote between its writing and its coming into force."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self.may_go_on = threading.Event()

    def rename(self, old: str, new: str) -> None:
        if new.endswith("quorum-state"):
            self.held.set()
            assert self.may_go_on.wait(20)
        super().rename(old, new)


async def ask_for_a_vote(node: QuorumNode, candidate: int, epoch: int) -> bool:
    asked = vote.PartitionData(0, epoch, candidate, last_offset_epoch=1, last_offset=100)
    request = vote.VoteRequest("test", 0, [vote.TopicData("__cluster_metadata", [asked])])
    answer = await node.handle(request, 2)
    assert isinstance(answer, vote.VoteResponse)
    return answer.topics[0].partitions[0].vote_granted


async def test_a_vote_that_a_thread_still_writes_is_not_forgotten_when_the_disk_fails(tmp_path: Path) -> None:
    disk = HeldDisk()
    quorum = Quorum(tmp_path, 3, disk=disk)
    quorum.settings = QUICK._replace(election_timeout=60.0)
    node = quorum.start(0)
    first = asyncio.ensure_future(ask_for_a_vote(node, 1, 7))
    await quorum.until(disk.held.is_set)

    node._driver.break_down(StorageFailure("log", errno.EIO, "it broke"))
    with pytest.raises(StorageFailure):
        await first
    with pytest.raises(StorageFailure):
        # Which votes there are is not known yet.
        await ask_for_a_vote(node, 2, 7)
    disk.may_go_on.set()
    await quorum.until(lambda: node.damaged is None)
    assert not await ask_for_a_vote(node, 2, 7)
    assert await ask_for_a_vote(node, 1, 7)
    await quorum.stop_all()
    assert read_quorum_state(disk, str(tmp_path / "node-0")).election == Election(7, -1, ReplicaKey(1))


async def test_a_node_whose_vote_is_lost_does_not_start_among_several_voters(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, 3)
    for node_id in range(3):
        quorum.start(node_id)
    leader = await quorum.leader()
    quorum.decide(leader, "a")
    await quorum.all_know("a")
    lost = (leader + 1) % 3
    await quorum.stop(lost)
    (tmp_path / f"node-{lost}" / "quorum-state").unlink()

    with pytest.raises(BadQuorumState, match="is missing"):
        quorum.start(lost)
    await quorum.stop_all()
