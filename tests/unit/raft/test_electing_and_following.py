"""The quorum's machine, input by input: elections and following."""

import pytest

from kit.machines.raft_replicas import NOBODY, TIMING, Replica, endpoint, entries, key, vote
from ottla.base.errors import ErrorCode
from ottla.raft import effects
from ottla.raft.core import NOTICE
from ottla.raft.log_view import Diverging, LogPosition
from ottla.raft.messages import (
    Answered,
    BeginEpoch,
    Believed,
    EndEpoch,
    Fetch,
    Fetched,
    FetchedSnapshot,
    FetchSnapshot,
    Vote,
    Voted,
)
from ottla.raft.roles import Role
from ottla.raft.voters import Election, ReplicaKey
from ottla.records.control import KraftVersion, LeaderChange, Voters

# --- elections -------------------------------------------------------------------------------------------------------


def test_a_sole_voter_leads_at_once_with_one_save() -> None:
    replica = Replica(voters=1)

    assert replica.plays(Role.LEADER)
    assert replica.of(effects.SaveElection) == [effects.SaveElection(Election(1, 0, key(0)))]
    (written,) = replica.of(effects.WriteControls)
    assert isinstance(written.controls[0], LeaderChange)
    assert not replica.of(effects.BeginLeading)
    replica.raft.stored(1, replica.now)
    replica.effects = replica.raft.take()
    assert replica.effects == [effects.Commit(1), effects.BeginLeading(1)]


def test_the_first_voters_of_a_set_that_can_change_are_written_behind_the_first_election() -> None:
    replica = Replica(voters=1, dynamic=True)

    (written,) = replica.of(effects.WriteControls)
    assert [type(control) for control in written.controls] == [LeaderChange, KraftVersion, Voters]
    assert isinstance(written.controls[0], LeaderChange)
    assert written.controls[0].version == 0, "Kafka reads no other"
    assert replica.raft.log.voters_offset == 2


def test_before_an_election_a_majority_is_asked_whether_it_is_worth_it() -> None:
    replica = Replica()
    replica.wait(NOTICE)

    asked = [send.request for send in replica.sends(Vote)]
    assert asked == [vote(0, 0, pre_vote=True, to=1), vote(0, 0, pre_vote=True, to=2)]
    assert not replica.of(effects.SaveElection)
    assert replica.raft.epoch == 0


def test_a_candidate_saves_its_vote_before_it_asks() -> None:
    replica = Replica()
    replica.wait(NOTICE)
    replica.answer(replica.sends(Vote)[0], Voted(ErrorCode.NONE, NOBODY, granted=True))

    assert replica.effects[0] == effects.SaveElection(Election(1, -1, key(0)))
    assert all(isinstance(effect, effects.Send) for effect in replica.effects[1:])
    assert replica.plays(Role.CANDIDATE)


def test_a_candidate_that_a_majority_refuses_tries_again_later_in_the_next_epoch() -> None:
    replica = Replica()
    replica.wait(NOTICE)
    replica.answer(replica.sends(Vote)[0], Voted(ErrorCode.NONE, NOBODY, granted=True))
    for send in replica.sends(Vote):
        replica.answer(send, Voted(ErrorCode.NONE, Believed(-1, 1)))

    assert replica.plays(Role.UNATTACHED)
    replica.wait(1.0)
    assert replica.plays(Role.PROSPECTIVE)
    assert replica.raft.epoch == 1


def test_a_vote_is_saved_before_it_is_said() -> None:
    replica = Replica()

    assert replica.ask(vote(1), Voted).granted
    kinds = [type(effect) for effect in replica.effects]
    assert kinds.index(effects.SaveElection) < kinds.index(effects.Reply)
    assert replica.of(effects.SaveElection)[-1].election == Election(1, -1, key(1))


def test_one_vote_an_epoch() -> None:
    replica = Replica()
    assert replica.ask(vote(1, 1), Voted).granted

    assert not replica.ask(vote(1, 2), Voted).granted
    assert replica.ask(vote(1, 1), Voted).granted


def test_a_vote_is_remembered_over_a_restart() -> None:
    replica = Replica(election=Election(3, -1, key(1)))

    assert not replica.ask(vote(3, 2), Voted).granted
    assert replica.ask(vote(3, 1), Voted).granted


@pytest.mark.parametrize(
    ("end", "granted"),
    [
        (LogPosition(2, 1), False),
        (LogPosition(3, 1), False),
        (LogPosition(2, 2), False),
        (LogPosition(3, 2), True),
        (LogPosition(1, 3), True),
    ],
)
def test_only_a_log_that_holds_all_of_ours_gets_the_vote(end: LogPosition, granted: bool) -> None:
    replica = Replica(entries=entries(1, 1, 2))

    assert replica.ask(vote(4, 1, end), Voted).granted is granted
    assert replica.ask(vote(4, 2, end, pre_vote=True), Voted).granted is granted


def test_a_pre_vote_changes_nothing() -> None:
    replica = Replica()

    assert replica.ask(vote(0, pre_vote=True), Voted).granted
    assert not replica.of(effects.SaveElection)
    assert replica.raft.voted is None


def test_a_follower_that_hears_from_its_leader_gives_no_pre_vote() -> None:
    replica = Replica()
    fetch = replica.follow()
    assert replica.ask(vote(1, 2, pre_vote=True), Voted).granted
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 0))

    refused = replica.ask(vote(1, 2, pre_vote=True), Voted)
    assert not refused.granted
    assert refused.believed == Believed(1, 1, endpoint(1))


def test_a_vote_of_an_older_epoch_is_refused_with_the_newer_one() -> None:
    replica = Replica(election=Election(5))

    refused = replica.ask(vote(4), Voted)
    assert refused.error == ErrorCode.FENCED_LEADER_EPOCH
    assert refused.believed.epoch == 5


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote(1)._replace(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (vote(1, end=LogPosition(-1, 0)), ErrorCode.INVALID_REQUEST),
        (vote(1, end=LogPosition(5, 1)), ErrorCode.INVALID_REQUEST),
        (vote(1)._replace(voter=ReplicaKey(7)), ErrorCode.INVALID_VOTER_KEY),
        (vote(1)._replace(voter=ReplicaKey(0, b"?" * 16)), ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_a_vote_that_makes_no_sense_is_refused(request_: Vote, error: ErrorCode) -> None:
    answer = Replica().ask(request_, Voted)

    assert answer.error == error
    assert not answer.granted


def test_a_node_that_never_votes_never_asks_for_votes() -> None:
    replica = Replica(3, can_vote=False)
    replica.wait(30.0)

    assert not replica.sends(Vote)
    assert replica.sends(Fetch)


# --- following -------------------------------------------------------------------------------------------------------


def test_what_was_fetched_is_synced_before_the_next_fetch_says_that_it_is_stored() -> None:
    replica = Replica()
    fetch = replica.follow()
    new = entries(1, 1)
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 1, new))

    assert [type(effect) for effect in replica.effects] == [
        effects.WriteEntries,
        effects.Commit,
        effects.Sync,
        effects.Send,
    ]
    (send,) = replica.sends(Fetch)
    assert isinstance(send.request, Fetch)
    assert send.request.log_end == LogPosition(2, 1)
    assert replica.of(effects.Commit) == [effects.Commit(1)]


def test_a_tail_that_the_leader_does_not_have_is_cut_off() -> None:
    replica = Replica(entries=entries(1, 1, 2, 2))
    fetch = replica.follow(epoch=3)
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 4, diverging=Diverging(1, 2)))

    assert replica.of(effects.Truncate) == [effects.Truncate(2)]
    assert not replica.of(effects.Commit)
    (send,) = replica.sends(Fetch)
    assert isinstance(send.request, Fetch)
    assert send.request.log_end == LogPosition(2, 1)


def test_a_high_watermark_that_comes_with_a_snapshot_counts_nothing() -> None:
    replica = Replica(entries=entries(1, 1))
    fetch = replica.follow(epoch=3)
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 9, snapshot=LogPosition(5, 2)))

    assert not replica.of(effects.Commit)
    assert replica.sends(FetchSnapshot)


def test_a_snapshot_comes_in_portions_and_then_takes_the_logs_place() -> None:
    replica = Replica(entries=entries(1, 1))
    position = LogPosition(5, 2)
    fetch = replica.follow(epoch=3)
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 9, snapshot=position))
    (first,) = replica.sends(FetchSnapshot)
    replica.answer(first, FetchedSnapshot(ErrorCode.NONE, replica.believed, position, 0, 5, b"abc"))
    (second,) = replica.sends(FetchSnapshot)
    assert isinstance(second.request, FetchSnapshot)
    assert second.request.position == 3
    replica.answer(second, FetchedSnapshot(ErrorCode.NONE, replica.believed, position, 3, 5, b"de"))

    assert replica.of(effects.InstallSnapshot) == [effects.InstallSnapshot(position)]
    assert not replica.sends(Fetch)
    replica.raft.installed(position, (), replica.now)
    replica.effects = replica.raft.take()
    (send,) = replica.sends(Fetch)
    assert isinstance(send.request, Fetch)
    assert send.request.log_end == position


def test_a_leader_whose_port_refuses_is_replaced_without_waiting_for_the_time_out() -> None:
    replica = Replica()
    replica.fail(replica.follow(), refused=True)
    replica.wait(NOTICE)

    assert replica.plays(Role.PROSPECTIVE)


def test_a_leader_that_is_merely_slow_has_its_time() -> None:
    replica = Replica()
    replica.fail(replica.follow())
    replica.wait(TIMING.fetch_timeout - 0.01)
    assert replica.plays(Role.FOLLOWER)

    replica.wait(NOTICE)
    assert replica.plays(Role.PROSPECTIVE)


def test_a_prospective_whom_nobody_wants_goes_back_to_its_leader() -> None:
    replica = Replica()
    replica.fail(replica.follow())
    replica.wait(TIMING.fetch_timeout + NOTICE)
    for send in replica.sends(Vote):
        replica.answer(send, Voted(ErrorCode.NONE, Believed(1, 1)))

    assert replica.plays(Role.FOLLOWER)
    assert replica.raft.leader_id == 1
    assert replica.raft.epoch == 1


def test_an_answer_of_a_newer_epoch_is_followed() -> None:
    replica = Replica()
    fetch = replica.follow()
    replica.answer(fetch, Fetched(ErrorCode.FENCED_LEADER_EPOCH, Believed(2, 4, endpoint(2))))

    assert replica.plays(Role.FOLLOWER)
    assert replica.of(effects.LeaderKnown) == [effects.LeaderKnown(2, 4)]
    assert replica.sends(Fetch)[0].node_id == 2


def test_the_first_successor_of_a_leader_that_resigns_asks_at_once() -> None:
    first, second = Replica(0), Replica(2)
    goodbye = EndEpoch("cluster", 1, 1, (key(0), key(2)), ())
    for replica in (first, second):
        replica.follow()
        assert replica.ask(goodbye, Answered).error == ErrorCode.NONE
        replica.wait(0.0)

    assert first.plays(Role.PROSPECTIVE)
    assert second.plays(Role.FOLLOWER)
    assert second.ask(vote(1, 0, pre_vote=True, to=2), Voted).granted


def test_a_second_leader_of_an_epoch_is_refused() -> None:
    replica = Replica()
    replica.follow(1, 1)

    told = BeginEpoch("cluster", replica.raft.key, 2, 1, (endpoint(2),))
    assert replica.ask(told, Answered).error == ErrorCode.INVALID_REQUEST
