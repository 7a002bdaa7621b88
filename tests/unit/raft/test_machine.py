"""The quorum's machine, input by input: what it says, and what it wants durable before."""

from typing import TypeVar

import pytest

from ottla.base.errors import ErrorCode
from ottla.raft import effects
from ottla.raft.effects import Effect
from ottla.raft.log_view import Diverging, Entry, LogPosition, LogView
from ottla.raft.machine import Raft
from ottla.raft.messages import (
    AddVoter,
    Answer,
    Answered,
    BeginEpoch,
    Believed,
    EndEpoch,
    Fetch,
    Fetched,
    FetchedSnapshot,
    FetchSnapshot,
    RemoveVoter,
    Request,
    UpdateVoter,
    Vote,
    Voted,
)
from ottla.raft.state import NOTICE, Identity, Role, Timing
from ottla.raft.voters import Election, ReplicaKey, VoterSet
from ottla.records.control import Endpoint, KraftVersion, LeaderChange, Voter, Voters

T = TypeVar("T", bound=Effect)
A = TypeVar("A", bound=Answer)
TIMING = Timing()
NOBODY = Believed(-1, 0)
EMPTY = LogPosition(0, 0)


class HalfRandom:
    """Always the middle."""

    def identity(self) -> bytes:
        return bytes(16)

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


def endpoint(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", "host", 9000 + node_id)


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes(15) + bytes([node_id + 1]))


def voter(node_id: int, *, dynamic: bool = False) -> Voter:
    return Voter(node_id, key(node_id).directory_id if dynamic else bytes(16), (endpoint(node_id),), 0, 1)


class Replica:
    """A machine at work, with the clock in hand."""

    def __init__(
        self,
        node_id: int = 0,
        voters: int = 3,
        *,
        dynamic: bool = False,
        can_vote: bool = True,
        entries: tuple[Entry, ...] = (),
        election: Election | None = None,
    ) -> None:
        view = LogView(VoterSet.of(voter(each, dynamic=dynamic) for each in range(voters)), int(dynamic))
        view.append(entries)
        identity = Identity("cluster", key(node_id), can_vote, (endpoint(node_id),))
        self.raft = Raft(identity, TIMING, view, election or Election(), HalfRandom())
        self.now = 100.0
        self.raft.start(self.now)
        self.effects = self.raft.take()

    def ask(self, request: Request, answer: type[A]) -> A:
        """The answer, which must come at once."""
        self.raft.receive("token", request, self.now)
        self.effects = self.raft.take()
        replies = [reply.answer for reply in self.of(effects.Reply) if reply.token == "token"]
        assert len(replies) == 1
        assert isinstance(replies[0], answer)
        return replies[0]

    def answer(self, send: effects.Send, answer: Answer) -> None:
        self.raft.answered(send.number, send.node_id, send.request, answer, self.now)
        self.effects = self.raft.take()

    def fail(self, send: effects.Send, *, refused: bool = False) -> None:
        self.raft.unanswered(send.number, send.node_id, send.request, refused, self.now)
        self.effects = self.raft.take()

    def wait(self, seconds: float) -> None:
        """Time passes, with every tick that is due."""
        until = self.now + seconds
        self.effects = []
        while self.raft.deadline() <= until:
            self.now = max(self.raft.deadline(), self.now)
            self.raft.tick(self.now)
            self.effects += self.raft.take()
        self.now = until

    def of(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sends(self, kind: type[Request]) -> list[effects.Send]:
        return [send for send in self.of(effects.Send) if isinstance(send.request, kind)]

    def plays(self, role: Role) -> bool:
        return self.raft.role is role

    @property
    def believed(self) -> Believed:
        return self.raft.believed

    def follow(self, leader_id: int = 1, epoch: int = 1) -> effects.Send:
        """Have it follow; answers its first fetch."""
        told = BeginEpoch("cluster", self.raft.key, leader_id, epoch, (endpoint(leader_id),))
        assert self.ask(told, Answered).error == ErrorCode.NONE
        return self.sends(Fetch)[0]

    def lead(self) -> "Replica":
        """Have it lead three voters, with its first record agreed on."""
        self.wait(NOTICE)
        for pre_vote in (True, False):
            for send in self.sends(Vote):
                assert isinstance(send.request, Vote)
                if self.raft.role in (Role.PROSPECTIVE, Role.CANDIDATE) and send.request.pre_vote == pre_vote:
                    self.answer(send, Voted(ErrorCode.NONE, Believed(-1, send.request.epoch), granted=True))
                    break
        assert self.raft.role is Role.LEADER
        self.raft.stored(self.raft.log.end_offset, self.now)
        self.fetched_by(1)
        self.fetched_by(1)
        assert self.raft.leads
        return self

    def fetched_by(self, node_id: int, end: LogPosition | None = None, high_watermark: int = 1 << 62) -> list[Effect]:
        request = Fetch("cluster", key(node_id), self.raft.epoch, end or self.raft.log.end, high_watermark, 0.0)
        self.raft.receive("fetch", request, self.now)
        self.effects = self.raft.take()
        return self.effects


def vote(epoch: int, candidate: int = 1, end: LogPosition = EMPTY, *, pre_vote: bool = False, to: int = 0) -> Vote:
    return Vote("cluster", ReplicaKey(to), epoch, key(candidate), end, pre_vote)


def entries(*epochs: int) -> tuple[Entry, ...]:
    return tuple(Entry(offset, offset + 1, epoch, (), None) for offset, epoch in enumerate(epochs))


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


# --- leading ---------------------------------------------------------------------------------------------------------


def test_what_older_epochs_wrote_is_agreed_on_only_with_something_of_this_one() -> None:
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
    replica.raft.epoch = 3
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


def test_a_new_voter_counts_from_the_record_on_and_is_answered_when_it_is_agreed_on() -> None:
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


def test_a_leader_that_is_removed_resigns_once_it_is_agreed_on() -> None:
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
    replica = Replica(dynamic=True)
    replica.raft.identity = replica.raft.identity._replace(endpoints=(Endpoint("CONTROLLER", "moved", 1),))
    fetch = replica.follow()
    replica.answer(fetch, Fetched(ErrorCode.NONE, replica.believed, 0))

    (send,) = replica.sends(UpdateVoter)
    assert isinstance(send.request, UpdateVoter)
    assert send.request.voter.endpoints == (Endpoint("CONTROLLER", "moved", 1),)
