"""The quorum's machine, input by input: leading, and changes of voters."""

import pytest

from kit.machines.raft_replicas import TIMING, Replica, endpoint, entries, key, vote, voter
from ottla.base.errors import ErrorCode
from ottla.raft import effects
from ottla.raft.core import NOTICE
from ottla.raft.log_view import Diverging, LogPosition
from ottla.raft.messages import (
    AddVoter,
    Answered,
    Believed,
    EndEpoch,
    Fetch,
    Fetched,
    RemoveVoter,
    UpdateVoter,
    Vote,
    Voted,
)
from ottla.raft.roles import Role
from ottla.raft.voters import ReplicaKey
from ottla.records.control import Endpoint

# --- leading ---------------------------------------------------------------------------------------------------------


def test_what_older_epochs_wrote_is_committed_only_with_something_of_this_one() -> None:
    replica = Replica(entries=entries(1, 1))
    replica.wait(NOTICE)
    replica.answer(replica.sends(Vote)[0], Voted(ErrorCode.NONE, Believed(-1, 1), granted=True))
    replica.answer(replica.sends(Vote)[0], Voted(ErrorCode.NONE, Believed(-1, 2), granted=True))
    assert replica.plays(Role.LEADER)
    replica.raft.stored(3, replica.now)

    replica.fetched_by(1, LogPosition(2, 1))
    assert not replica.of(effects.Commit)
    replica.fetched_by(1, LogPosition(3, 2))
    assert replica.of(effects.Commit) == [effects.Commit(3)]
    assert replica.of(effects.BeginLeading) == [effects.BeginLeading(2)]


def test_the_leader_counts_itself_once_it_has_stored() -> None:
    replica = Replica().lead()
    end = replica.raft.log.end_offset
    replica.raft.appended(end + 1, replica.now)
    replica.raft.take()
    replica.fetched_by(1, LogPosition(end + 1, 1))
    assert not replica.of(effects.Commit)

    replica.raft.stored(end + 1, replica.now)
    assert effects.Commit(end + 1) in replica.raft.take()


def test_two_followers_are_a_majority_without_the_leaders_disk() -> None:
    replica = Replica().lead()
    end = replica.raft.log.end_offset
    replica.raft.appended(end + 1, replica.now)
    replica.fetched_by(1)
    replica.fetched_by(2)

    assert replica.of(effects.Commit) == [effects.Commit(end + 1)]


def test_an_observer_does_not_count() -> None:
    replica = Replica().lead()
    end = replica.raft.log.end_offset
    replica.raft.appended(end + 1, replica.now)
    replica.raft.stored(end + 1, replica.now)
    replica.fetched_by(7)

    assert not replica.of(effects.Commit)


def test_a_fetch_waits_until_there_is_something_to_send() -> None:
    replica = Replica().lead()
    end = replica.raft.log.end
    request = Fetch("cluster", key(2), 1, end, replica.raft.high_watermark, 0.5)
    replica.raft.receive("parked", request, replica.now)
    assert not [effect for effect in replica.raft.take() if isinstance(effect, effects.Reply)]

    replica.raft.appended(end.offset + 1, replica.now)
    (reply,) = [effect for effect in replica.raft.take() if isinstance(effect, effects.Reply)]
    assert isinstance(reply.answer, Fetched)
    assert reply.answer.read_from == end.offset


def test_a_fetch_that_waited_long_enough_is_answered_empty() -> None:
    replica = Replica().lead()
    request = Fetch("cluster", key(2), 1, replica.raft.log.end, replica.raft.high_watermark, 0.5)
    replica.raft.receive("parked", request, replica.now)
    replica.raft.take()
    replica.wait(0.5)

    (reply,) = replica.of(effects.Reply)
    assert isinstance(reply.answer, Fetched)
    assert reply.answer.read_from is None


@pytest.mark.parametrize(("epoch", "error"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_fetch_of_another_epoch_is_refused(epoch: int, error: ErrorCode) -> None:
    replica = Replica().lead()

    fetched = replica.ask(Fetch("cluster", key(1), epoch, LogPosition(0, 0), 0, 0.0), Fetched)
    assert fetched.error == error
    assert fetched.believed.leader_id == 0


def test_who_does_not_lead_says_who_does() -> None:
    replica = Replica()
    replica.follow(2, 1)

    fetched = replica.ask(Fetch("cluster", key(1), 1, LogPosition(0, 0), 0, 0.0), Fetched)
    assert fetched.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched.believed == Believed(2, 1, endpoint(2))


def test_a_log_that_parts_from_the_leaders_is_told_where() -> None:
    replica = Replica(entries=entries(1, 1, 3))
    replica.lead()

    fetched = replica.ask(Fetch("cluster", key(1), replica.raft.epoch, LogPosition(4, 2), 0, 0.0), Fetched)
    assert fetched.diverging == Diverging(1, 2)


def test_a_log_that_ends_before_the_leaders_begins_is_told_of_the_snapshot() -> None:
    replica = Replica(entries=entries(1, 1, 1))
    replica.lead()
    replica.raft.log.took_snapshot(LogPosition(2, 1), 2)

    fetched = replica.ask(Fetch("cluster", key(1), replica.raft.epoch, LogPosition(1, 1), 0, 0.0), Fetched)
    assert fetched.snapshot == LogPosition(2, 1)


def test_a_leader_that_no_majority_fetches_from_gives_up() -> None:
    replica = Replica().lead()
    replica.wait(1.5 * TIMING.fetch_timeout - 0.01)
    assert replica.plays(Role.LEADER)

    replica.wait(0.02)
    assert replica.plays(Role.RESIGNED)
    assert replica.of(effects.StopLeading) == [effects.StopLeading(1)]


def test_a_leader_that_hears_of_a_newer_epoch_stops_and_syncs_what_it_wrote() -> None:
    replica = Replica().lead()
    assert replica.ask(vote(5, 2, LogPosition(9, 1)), Voted).granted

    assert replica.plays(Role.UNATTACHED)
    kinds = [type(effect) for effect in replica.effects]
    assert kinds.index(effects.Sync) < kinds.index(effects.Reply)
    assert effects.StopLeading in kinds


def test_a_leader_that_resigns_tells_those_first_who_hold_most() -> None:
    replica = Replica().lead()
    end = replica.raft.log.end_offset
    replica.raft.appended(end + 1, replica.now)
    replica.fetched_by(2)
    replica.raft.resign(replica.now)
    replica.effects = replica.raft.take()

    goodbyes = [send.request for send in replica.sends(EndEpoch)]
    assert len(goodbyes) == 2
    assert isinstance(goodbyes[0], EndEpoch)
    assert [successor.node_id for successor in goodbyes[0].successors] == [2, 1]


def test_the_leader_describes_what_it_sees() -> None:
    replica = Replica().lead()
    replica.fetched_by(7)
    replica.now += 1.0

    described = replica.raft.describe(replica.now)
    assert described is not None
    assert [seen.key.node_id for seen in described.voters] == [0, 1, 2]
    assert [(seen.key, seen.since_fetch) for seen in described.observers] == [(key(7), 1.0)]
    assert described.voters[2].since_fetch is None


# --- changes of voters -----------------------------------------------------------------------------------------------


def grown() -> Replica:
    """A leader of three voters that can change, with an observer that has caught up."""
    replica = Replica(dynamic=True).lead()
    replica.fetched_by(3)
    return replica


def adding(node_id: int) -> AddVoter:
    return AddVoter("cluster", voter(node_id, dynamic=True), 1.0, when_committed=True)


def test_a_new_voter_counts_from_the_record_on_and_is_answered_when_it_is_committed() -> None:
    replica = grown()
    replica.raft.receive("change", adding(3), replica.now)
    replica.effects = replica.raft.take()
    assert replica.raft.voters.ids == (0, 1, 2, 3)
    assert not replica.of(effects.Reply)

    replica.raft.stored(replica.raft.log.end_offset, replica.now)
    replica.fetched_by(1)
    assert not replica.of(effects.Commit)
    replica.fetched_by(3)
    (reply,) = [reply for reply in replica.of(effects.Reply) if reply.token == "change"]
    assert isinstance(reply.answer, Answered)
    assert reply.answer.error == ErrorCode.NONE


def test_one_change_of_voters_at_a_time() -> None:
    replica = grown()
    replica.raft.receive("change", adding(3), replica.now)
    replica.raft.take()

    refused = replica.ask(RemoveVoter("cluster", key(2)), Answered)
    assert refused.error == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (adding(2), ErrorCode.DUPLICATE_VOTER),
        (adding(9), ErrorCode.REQUEST_TIMED_OUT),
        (adding(3)._replace(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (adding(3)._replace(voter=voter(3, dynamic=True)._replace(endpoints=())), ErrorCode.INVALID_REQUEST),
        (RemoveVoter("cluster", key(5)), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoter("cluster", ReplicaKey(1, b"?" * 16)), ErrorCode.VOTER_NOT_FOUND),
        (UpdateVoter("cluster", 1, voter(5, dynamic=True)), ErrorCode.VOTER_NOT_FOUND),
        (UpdateVoter("cluster", 0, voter(1, dynamic=True)), ErrorCode.FENCED_LEADER_EPOCH),
        (UpdateVoter("cluster", 1, voter(1, dynamic=True)), ErrorCode.NONE),
    ],
)
def test_a_change_of_voters_that_cannot_be_is_refused(
    change: AddVoter | RemoveVoter | UpdateVoter, error: ErrorCode
) -> None:
    replica = grown()
    before = replica.raft.voters

    assert replica.ask(change, Answered).error == error
    assert replica.raft.voters == before


def test_a_change_that_takes_too_long_is_answered_so_and_still_under_way() -> None:
    replica = grown()
    replica.raft.receive("change", adding(3), replica.now)
    replica.raft.take()
    replica.wait(1.0)

    (reply,) = replica.of(effects.Reply)
    assert isinstance(reply.answer, Answered)
    assert reply.answer.error == ErrorCode.REQUEST_TIMED_OUT
    assert replica.ask(RemoveVoter("cluster", key(2)), Answered).error == ErrorCode.REQUEST_TIMED_OUT


def test_a_leader_that_is_removed_resigns_once_that_is_committed() -> None:
    replica = grown()
    replica.raft.receive("change", RemoveVoter("cluster", key(0)), replica.now)
    replica.raft.take()
    replica.fetched_by(1)
    assert replica.plays(Role.LEADER)

    replica.fetched_by(2)
    assert replica.plays(Role.RESIGNED)
    assert replica.raft.voters.ids == (1, 2)


def test_a_leader_that_was_removed_soon_looks_for_the_next() -> None:
    replica = grown()
    replica.raft.receive("change", RemoveVoter("cluster", key(0)), replica.now)
    replica.raft.take()
    replica.fetched_by(1)
    replica.fetched_by(2)
    for send in replica.sends(EndEpoch):
        replica.answer(send, Answered(ErrorCode.NONE, Believed(-1, 1)))
    replica.wait(NOTICE)

    assert replica.plays(Role.UNATTACHED)
    assert replica.sends(Fetch)


def test_a_change_that_is_cut_off_never_was() -> None:
    replica = grown()
    replica.raft.receive("change", adding(3), replica.now)
    replica.raft.take()
    end = replica.raft.log.end_offset
    fetch = replica.follow(2, 2)
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 0, diverging=Diverging(1, end - 1)))

    assert replica.raft.voters.ids == (0, 1, 2)


def test_a_voter_whose_address_has_changed_tells_the_leader() -> None:
    replica = Replica(dynamic=True, address=Endpoint("CONTROLLER", "moved", 1))
    fetch = replica.follow()
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 0))

    (send,) = replica.sends(UpdateVoter)
    assert isinstance(send.request, UpdateVoter)
    assert send.request.voter.endpoints == (Endpoint("CONTROLLER", "moved", 1),)
