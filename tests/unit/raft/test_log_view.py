"""What the machine knows of its log."""

import pytest

from ottla.raft.log_view import Diverging, Entry, LogPosition, LogView
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.records.control import KraftVersion, Voter, Voters


def view(*epochs: int) -> LogView:
    log = LogView(VoterSet(), 0)
    log.append(Entry(offset, offset + 1, epoch, (), None) for offset, epoch in enumerate(epochs))
    return log


def voters(*ids: int) -> Voters:
    return Voters(tuple(Voter(node_id, bytes(16), (), 0, 1) for node_id in ids))


@pytest.mark.parametrize(
    ("offset", "epoch", "found"),
    [
        (0, 0, None),
        (2, 1, None),
        (1, 1, None),
        (3, 1, Diverging(1, 2)),
        (3, 2, Diverging(1, 2)),
        (4, 3, None),
        (9, 3, Diverging(3, 4)),
        (9, 8, Diverging(3, 4)),
    ],
)
def test_where_another_log_parts_from_ours(offset: int, epoch: int, found: Diverging | None) -> None:
    assert view(1, 1, 3, 3).compare(offset, epoch) == found


@pytest.mark.parametrize(
    ("offset", "epoch", "needed"), [(1, 1, True), (2, 1, True), (2, 2, False), (3, 1, True), (3, 2, False)]
)
def test_a_log_that_cannot_be_compared_needs_the_snapshot(offset: int, epoch: int, needed: bool) -> None:
    log = view(1, 2, 2, 3)
    log.took_snapshot(LogPosition(2, 2), 2)

    assert log.compare(offset, epoch) == (LogPosition(2, 2) if needed else None)


def test_an_empty_log_behind_a_snapshot_ends_in_its_epoch() -> None:
    log = view(1, 1)
    log.restart_behind(LogPosition(9, 4), (KraftVersion(1), voters(3)))

    assert log.end == LogPosition(9, 4)
    assert log.voters.ids == (3,)
    assert log.kraft_version == 1
    assert log.compare(9, 4) is None


def test_a_snapshot_from_before_the_first_record_names_the_first_voters() -> None:
    log = LogView(VoterSet(), 0)
    log.restart_behind(LogPosition(0, 0), (KraftVersion(1), voters(1, 2)))

    assert log.voters.ids == (1, 2)
    assert log.voters_offset < 0


def test_voters_go_with_the_record_that_named_them() -> None:
    log = view(1)
    log.append([Entry(1, 2, 1, (voters(1),), None), Entry(2, 3, 1, (voters(1, 2),), None)])
    assert log.voters.ids == (1, 2)
    assert log.voters_at(1)[0].ids == (1,)

    log.truncate(2)
    assert log.voters == VoterSet(voters(1).voters)


def test_a_voter_is_known_by_its_directory_where_that_is_named() -> None:
    fixed = VoterSet((Voter(1, bytes(16), (), 0, 1),))
    named = VoterSet((Voter(1, b"1" * 16, (), 0, 1),))

    assert fixed.has(ReplicaKey(1, b"?" * 16))
    assert not named.has(ReplicaKey(1, b"?" * 16))
    assert named.has(ReplicaKey(1, b"1" * 16))
    assert named.without(ReplicaKey(1, b"1" * 16)) is None
