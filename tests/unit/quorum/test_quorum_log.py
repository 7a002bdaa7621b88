"""This node's copy of the metadata log, and its snapshots."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.worlds.quorum_nodes import topic
from ottla.log.files import World
from ottla.metadata.facts import Fact
from ottla.metadata.quorum_events import UnreadableMetadata
from ottla.quorum.log import QuorumLog, read_entries
from ottla.quorum.settings import QuorumSettings
from ottla.quorum.snapshots import Snapshots, SnapshotState, name_of, position_of
from ottla.raft.log_view import LogPosition
from ottla.raft.voters import VoterSet
from ottla.records.control import Endpoint, KraftVersion, LeaderChange, SnapshotFooter, SnapshotHeader, Voter, Voters
from ottla.records.header import CorruptBatch
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom
from ottla.wire.stored.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
)

WORLD = World(RealDisk(), RealClock(), RealRandom())
ONE = VoterSet((Voter(1, b"1" * 16, (Endpoint("CONTROLLER", "here", 1),), 0, 1),))


@pytest.fixture
def log(tmp_path: Path) -> QuorumLog:
    return opened(tmp_path)


def opened(path: Path) -> QuorumLog:
    return QuorumLog(WORLD, str(path), QuorumSettings())


def told(log: QuorumLog, high_watermark: int) -> list[tuple[list[str], int]]:
    return [(names(batch.facts), batch.offset) for batches in log.tell(high_watermark) for batch in batches]


def names(facts: list[Fact]) -> list[str]:
    return [fact.name for fact in facts if isinstance(fact, TopicRecord)]


def test_what_is_committed_is_told_once_and_in_order(log: QuorumLog) -> None:
    log.append([topic("a"), topic("b")], 1)
    log.append([topic("c")], 1)

    assert told(log, 2) == [(["a", "b"], 1)]
    assert told(log, 3) == [(["c"], 2)]
    assert told(log, 3) == []


def test_a_decision_is_told_whole_or_not_yet(log: QuorumLog) -> None:
    log.append([topic("a"), topic("b")], 1)

    assert told(log, 1) == []
    assert told(log, 2) == [(["a", "b"], 1)]


def test_what_an_earlier_process_wrote_is_read_from_the_disk(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([topic("a")], 1)
    log.close()
    log = opened(tmp_path)
    log.append([topic("b")], 2)

    assert told(log, 2) == [(["a"], 0), (["b"], 1)]


def test_a_follower_writes_what_the_leader_has(tmp_path: Path) -> None:
    leader, follower = opened(tmp_path / "leader"), opened(tmp_path / "follower")
    leader.write_controls(0, 1, (LeaderChange(1, (), ()),))
    leader.append([topic("a")], 1)
    entries = read_entries(leader.read_bytes(0, 1 << 20))
    follower.write_entries(entries)

    assert isinstance(entries[0].controls[0], LeaderChange)
    assert follower.read_bytes(0, 1 << 20) == leader.read_bytes(0, 1 << 20)
    assert told(follower, 2) == [([], 0), (["a"], 1)]


def test_bytes_that_were_damaged_on_their_way_are_refused(log: QuorumLog) -> None:
    log.append([topic("a")], 1)
    data = bytearray(log.read_bytes(0, 1 << 20))
    data[-1] ^= 1

    with pytest.raises(CorruptBatch):
        read_entries(data)


def test_a_partial_batch_at_the_end_is_left(log: QuorumLog) -> None:
    log.append([topic("a")], 1)
    log.append([topic("b")], 1)

    assert [entry.base_offset for entry in read_entries(log.read_bytes(0, 1 << 20)[:-1])] == [0]


def test_what_is_cut_off_is_not_told(log: QuorumLog) -> None:
    log.append([topic("a")], 1)
    log.append([topic("b")], 1)
    log.truncate(1)
    log.append([topic("c")], 2)

    assert told(log, 2) == [(["a"], 0), (["c"], 1)]


def test_facts_of_a_transaction_are_told_when_it_ends(log: QuorumLog) -> None:
    log.append([BeginTransactionRecord(name="many"), topic("a")], 1)
    log.append([topic("b")], 1)
    log.append([EndTransactionRecord(), topic("c")], 1)
    assert told(log, 3) == [([], 1), ([], 2)]
    assert log.interrupted

    assert told(log, 5) == [(["a", "b", "c"], 4)]
    assert not log.interrupted


def test_facts_of_a_transaction_that_is_aborted_never_were(log: QuorumLog) -> None:
    log.append([BeginTransactionRecord(name="many"), topic("a")], 1)
    log.append([AbortTransactionRecord(reason="why not"), topic("b")], 1)

    assert told(log, 4) == [([], 1), (["b"], 3)]


def test_the_view_knows_epochs_and_voters_after_a_restart(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write_controls(0, 1, (LeaderChange(1, (), ()), KraftVersion(1), Voters(ONE.voters)))
    log.append([topic("a")], 1)
    log.write_controls(4, 3, (LeaderChange(1, (), ()),))
    log.close()

    view = opened(tmp_path).view(VoterSet(), 0)
    assert view.end == LogPosition(5, 3)
    assert (view.voters, view.kraft_version, view.voters_offset) == (ONE, 1, 2)
    assert view.end_of_epoch(2) == (1, 4)


def test_a_repair_leaves_what_lasted(log: QuorumLog) -> None:
    log.append([topic("a")], 1)
    log.sync()
    log.append([topic("b")], 1)
    log.repair(1, exact=True)

    assert log.end_offset == 1
    assert told(log, 1) == [(["a"], 0)]


def state(offset: int, epoch: int = 2) -> SnapshotState:
    return SnapshotState(LogPosition(offset, epoch), 1, ONE)


def test_a_snapshot_has_kafkas_name_and_begins_and_ends_as_kafkas() -> None:
    assert name_of(LogPosition(12, 3)) == "00000000000000000012-0000000003.checkpoint"
    assert position_of("00000000000000000012-0000000003.checkpoint") == (12, 3)
    for other in ("00000000000000000012.log", "12-3.checkpoint", name_of(LogPosition(1, 1)) + ".part", "x.checkpoint"):
        assert position_of(other) is None


def test_a_snapshot_reads_back(tmp_path: Path) -> None:
    snapshots = Snapshots(WORLD, str(tmp_path))
    facts = [topic(str(number)) for number in range(2500)]
    snapshots.write(state(9), iter(facts))

    assert snapshots.found() == [LogPosition(9, 2)]
    assert list(snapshots.facts(LogPosition(9, 2))) == facts
    header, version, voters, footer = snapshots.controls(LogPosition(9, 2))
    assert isinstance(header, SnapshotHeader)
    assert (version, voters, footer) == (KraftVersion(1), Voters(ONE.voters), SnapshotFooter())


def test_a_snapshot_without_an_end_is_not_taken_for_one(tmp_path: Path) -> None:
    snapshots = Snapshots(WORLD, str(tmp_path))
    snapshots.write(state(9), [topic("a")])
    path = tmp_path / name_of(LogPosition(9, 2))
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(UnreadableMetadata, match="has no end"):
        snapshots.controls(LogPosition(9, 2))


def test_what_was_left_half_done_is_removed(tmp_path: Path) -> None:
    (tmp_path / (name_of(LogPosition(9, 2)) + ".part")).write_bytes(b"half")

    snapshots = Snapshots(WORLD, str(tmp_path))
    snapshots.drop_leftovers()
    assert snapshots.found() == []
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_arrives_in_portions_and_takes_the_logs_place(tmp_path: Path) -> None:
    source = Snapshots(WORLD, str(tmp_path))
    source.write(state(9), [topic("a"), topic("b")])
    log = opened(tmp_path / "log")
    log.append([topic("old")], 1)
    position = LogPosition(9, 2)
    at = 0
    while (portion := source.read_portion(position, at, 50)) is not None and portion[1]:
        log.snapshots.keep_portion(position, at, portion[1])
        at += len(portion[1])
    controls, facts = log.snapshots.finish_portions(position)
    log.install(position)
    log.told_snapshot(position)

    assert controls[-1] == SnapshotFooter()
    assert log.end_offset == 9
    assert [fact.name for fact in facts if isinstance(fact, TopicRecord)] == ["a", "b"]
    log.append([topic("new")], 3)
    assert told(log, 10) == [(["new"], 9)]
    log.close()
    again = opened(tmp_path / "log")
    assert again.view(VoterSet(), 0).end == LogPosition(10, 3)


def test_a_damaged_snapshot_from_another_node_is_thrown_away(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([topic("old")], 1)
    log.snapshots.keep_portion(LogPosition(9, 2), 0, b"no snapshot at all" * 10)

    with pytest.raises(UnreadableMetadata):
        log.snapshots.finish_portions(LogPosition(9, 2))
    assert log.end_offset == 1
    assert not [path for path in tmp_path.iterdir() if ".checkpoint" in path.name]


def test_old_log_and_old_snapshots_go_when_there_is_too_much_of_them(tmp_path: Path) -> None:
    log = QuorumLog(WORLD, str(tmp_path), QuorumSettings(segment_bytes=300, retention_bytes=1))
    for number in range(20):
        log.append([topic(f"topic-{number}")], 1)
    told(log, 20)
    for offset in (5, 15):
        log.snapshots.write(state(offset, 1), [])
        log.took_snapshot(LogPosition(offset, 1))
        for removal in log.trim():
            removal.run()

    assert log.snapshots.found() == [LogPosition(15, 1)]
    assert 0 < log.view(VoterSet(), 0).start_offset <= 15
    log.close()
    again = QuorumLog(WORLD, str(tmp_path), QuorumSettings(segment_bytes=300))
    assert again.view(VoterSet(), 0).start_offset == 15
    assert again.view(VoterSet(), 0).start_epoch == 1


def test_a_log_whose_beginning_is_gone_without_a_snapshot_is_not_used(tmp_path: Path) -> None:
    log = QuorumLog(WORLD, str(tmp_path), QuorumSettings(segment_bytes=300, retention_bytes=1))
    for number in range(20):
        log.append([topic(f"topic-{number}")], 1)
    told(log, 20)
    for offset in (5, 15):
        log.snapshots.write(state(offset, 1), [])
        log.took_snapshot(LogPosition(offset, 1))
        for removal in log.trim():
            removal.run()
    log.close()
    (tmp_path / name_of(LogPosition(15, 1))).unlink()

    with pytest.raises(UnreadableMetadata, match="no snapshot"):
        opened(tmp_path).view(VoterSet(), 0)


def test_a_log_that_parted_from_a_snapshot_gives_way_to_it_however_long_it_is(tmp_path: Path) -> None:
    """A node that died between the arrival of a snapshot and the end of the log that it replaces."""
    log = opened(tmp_path)
    for name in ("agreed", "agreed too"):
        log.append([topic(name)], 1)
    for number in range(8):
        log.append([topic(f"overruled {number}")], 3)
    log.close()
    Snapshots(WORLD, str(tmp_path)).write(state(5, 7), [topic("agreed")])

    again = opened(tmp_path)
    assert again.view(VoterSet(), 0).end == LogPosition(5, 7)
    again.close()
    assert opened(tmp_path).end_offset == 5


def test_the_rest_of_a_replaced_log_is_not_taken_for_what_came_behind_the_snapshot(tmp_path: Path) -> None:
    log = QuorumLog(WORLD, str(tmp_path), QuorumSettings(segment_bytes=120))
    for number in range(6):
        log.append([topic(f"overruled {number}")], 3)
    log.close()
    Snapshots(WORLD, str(tmp_path)).write(state(3, 7), [topic("agreed")])
    segments = sorted(tmp_path.glob("*.log"))
    assert [int(path.stem) for path in segments] == list(range(6))
    for path in segments[:3]:
        path.unlink()

    assert opened(tmp_path).view(VoterSet(), 0).end == LogPosition(3, 7)


def test_a_snapshot_of_ones_own_is_what_the_log_goes_on_from(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number, epoch in enumerate((1, 1, 2, 2, 5)):
        log.append([topic(str(number))], epoch)
    log.close()
    Snapshots(WORLD, str(tmp_path)).write(state(3, 2), [])

    assert opened(tmp_path).view(VoterSet(), 0).end == LogPosition(5, 5)


def test_a_snapshot_that_is_being_written_and_one_that_arrives_do_not_disturb_each_other(tmp_path: Path) -> None:
    source = Snapshots(WORLD, str(tmp_path / "source"))
    source._disk.make_directory(source.directory)
    position = LogPosition(9, 2)
    source.write(state(9), [topic("a"), topic("b")])
    portion = source.read_portion(position, 0, 10_000)
    assert portion is not None
    log = opened(tmp_path / "log")

    def facts() -> Iterator[Fact]:
        yield topic("a")
        # In the middle of it the same snapshot comes from another node and is installed.
        log.snapshots.keep_portion(position, 0, portion[1])
        log.snapshots.finish_portions(position)
        log.install(position)
        yield topic("b")

    log.snapshots.write(state(9), facts())

    assert [fact.name for fact in log.snapshots.facts(position) if isinstance(fact, TopicRecord)] == ["a", "b"]
    assert log.end_offset == 9


def test_what_an_earlier_process_left_is_in_new_files_before_it_is_counted_on(tmp_path: Path) -> None:
    log = QuorumLog(WORLD, str(tmp_path), QuorumSettings(segment_bytes=120))
    for number in range(4):
        log.append([topic(f"topic {number}")], 1)
    log.sync()
    log.snapshots.write(state(2, 1), [])
    log.close()
    before = {path.name: path.stat().st_ino for path in tmp_path.glob("*.log")}

    QuorumLog(WORLD, str(tmp_path), QuorumSettings()).close()
    after = {path.name: path.stat().st_ino for path in tmp_path.glob("*.log")}
    unchanged = [name for name in before if before[name] == after[name]]
    assert [int(name.removesuffix(".log")) for name in sorted(unchanged)] == [0, 1]
    QuorumLog(WORLD, str(tmp_path), QuorumSettings(), counted_on=False).close()
    assert after == {path.name: path.stat().st_ino for path in tmp_path.glob("*.log")}


def test_segments_that_a_power_cut_brought_back_are_not_the_logs_again(tmp_path: Path) -> None:
    """A leader had overruled them, and their removal was not on the disk yet."""
    one_each = QuorumSettings(segment_bytes=120)
    overruled = QuorumLog(WORLD, str(tmp_path / "overruled"), one_each)
    for number in range(6):
        overruled.append([topic(f"topic {number}")], 1)
    overruled.close()
    log = QuorumLog(WORLD, str(tmp_path / "log"), one_each)
    for number, epoch in enumerate((1, 1, 2)):
        log.append([topic(f"topic {number}")], epoch)
    log.close()
    for path in sorted((tmp_path / "overruled").glob("*.log"))[3:]:
        (tmp_path / "log" / path.name).write_bytes(path.read_bytes())

    assert opened(tmp_path / "log").view(VoterSet(), 0).end == LogPosition(3, 2)
