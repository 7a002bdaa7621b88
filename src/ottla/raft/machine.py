"""The machine of one replica: everything that happens to it comes in here.

Owns: which input goes to which role, changes of voters while it leads, and time. Never knows: the world outside its
inputs and effects. After every input the host takes the effects and does them, in order.
Invariants: one change of voters at a time, and only once this epoch has agreed on something; see the roles for theirs.
"""

from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.raft.core import NOTICE, Identity, Role, Timing
from ottla.raft.leader import CHECK_FACTOR, Leading
from ottla.raft.log_view import LogView
from ottla.raft.messages import (
    AddVoter,
    Answer,
    Answered,
    BeginEpoch,
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
from ottla.raft.progress import Seen
from ottla.raft.voters import Election, ReplicaKey, VoterSet
from ottla.records.control import Voters


class _Change(NamedTuple):
    """A change of voters that is written and not agreed on; the token is None once it was answered."""

    offset: int
    token: object | None
    deadline: float


class Description(NamedTuple):
    """The quorum as its leader sees it."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: list[Seen]
    observers: list[Seen]


class Raft(Leading):
    """See the module."""

    def __init__(self, identity: Identity, timing: Timing, log: LogView, election: Election, random: Random) -> None:
        super().__init__(identity, timing, log, election, random)
        self._change: _Change | None = None

    # --- time --------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin. A sole voter leads at once."""
        if self.is_voter and self.voters.only(self.key):
            self._campaign(now)
        else:
            # Pre-votes do no harm to a leader there is, so there is no need to be patient.
            self._become_unattached(self.epoch, now, self._drawn(NOTICE))

    def deadline(self) -> float:
        """When `tick` is due."""
        due = min(self._election_deadline(), self._fetch_deadline(), self._leading_deadline())
        if self._change is not None and self._change.token is not None:
            due = min(due, self._change.deadline)
        return due

    def tick(self, now: float) -> None:
        """Time has passed."""
        role = self.role
        if role is Role.LEADER:
            self._tick_leader(now)
        elif role is Role.RESIGNED and now < self._election_at:
            self._tick_goodbyes(now)
        elif now >= self._election_at:
            self._time_out(now)
        elif role in (Role.PROSPECTIVE, Role.CANDIDATE):
            self._tick_questions(now)
        if now >= self._fetch_deadline():
            self._fetch(now)

    def _tick_leader(self, now: float) -> None:
        if now >= self._check_deadline():
            self.resign(now)
            return
        self._tick_begins(now)
        self._serve_parked(now)
        change = self._change
        if change is not None and change.token is not None and now >= change.deadline:
            self._reply(change.token, Answered(ErrorCode.REQUEST_TIMED_OUT, self.believed))
            self._change = change._replace(token=None)

    def _time_out(self, now: float) -> None:
        if self.role is Role.RESIGNED:
            self._become_unattached(self.epoch, now)
        elif self.role in (Role.PROSPECTIVE, Role.CANDIDATE):
            self._lose(now)
        elif self._installing:
            self._election_at = now + NOTICE
        elif self.may_campaign:
            self._campaign(now)
        else:
            # An observer only looks for a leader; who has none is not in a hurry.
            self._become_unattached(self.epoch, now)

    # --- messages ----------------------------------------------------------------------------------------------------

    def receive(self, token: object, request: Request, now: float) -> None:
        """A request of another replica, or of an operator; `Reply` with this token will answer it."""
        if isinstance(request, Fetch):
            self._receive_fetch(token, request, now)
        elif isinstance(request, Vote):
            self._receive_vote(token, request, now)
        elif isinstance(request, BeginEpoch):
            self._receive_begin(token, request, now)
        elif isinstance(request, EndEpoch):
            self._receive_end(token, request, now)
        elif isinstance(request, FetchSnapshot):
            self._receive_fetch_snapshot(token, request, now)
        else:
            self._receive_change(token, request, now)

    def answered(self, number: int, node_id: int, request: Request, answer: Answer, now: float) -> None:
        """The answer to a `Send`."""
        if isinstance(request, Fetch):
            assert isinstance(answer, Fetched)
            self._fetch_answered(number, request, answer, now)
        elif isinstance(request, Vote):
            assert isinstance(answer, Voted)
            self._vote_answered(number, node_id, request, answer, now)
        elif isinstance(request, FetchSnapshot):
            assert isinstance(answer, FetchedSnapshot)
            self._portion_answered(number, request, answer, now)
        else:
            assert isinstance(answer, Answered)
            if isinstance(request, EndEpoch):
                self._end_answered(node_id, answer, now)
            else:
                self._settled(number)
                self._learn(answer.believed, now)

    def unanswered(self, number: int, node_id: int, request: Request, refused: bool, now: float) -> None:
        """No answer to a `Send` came; `refused`: nobody listens there."""
        if isinstance(request, Fetch | FetchSnapshot):
            self._fetch_unanswered(number, refused, now)
        elif isinstance(request, Vote):
            self._vote_unanswered(number, node_id, request, refused, now)
        elif isinstance(request, BeginEpoch):
            self._begin_unanswered(node_id, request, refused, now)
        elif isinstance(request, EndEpoch):
            self._end_unanswered(node_id, refused, now)
        else:
            self._settled(number)

    # --- changes of voters -------------------------------------------------------------------------------------------

    def _receive_change(self, token: object, request: AddVoter | RemoveVoter | UpdateVoter, now: float) -> None:
        error, message = self._refuse_change(request)
        voters = self.voters
        if error == ErrorCode.NONE:
            error, message, voters = self._changed_voters(request, now)
        if error != ErrorCode.NONE or voters == self.voters:
            self._reply(token, Answered(error, self.believed, message))
            return
        offset = self._write((Voters(voters.voters),))
        waits = not isinstance(request, AddVoter) or request.when_committed
        if not waits:
            self._reply(token, Answered(ErrorCode.NONE, self.believed))
        timeout = request.timeout if isinstance(request, AddVoter) else self.timing.request_timeout
        self._change = _Change(offset, token if waits else None, now + timeout)
        self._serve_parked(now)
        # Fewer voters may be a majority already.
        self._agree(now)

    def _refuse_change(self, request: AddVoter | RemoveVoter | UpdateVoter) -> tuple[ErrorCode, str | None]:
        if self._wrong_cluster(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, None
        error = self._refuse_epoch(request.epoch if isinstance(request, UpdateVoter) else self.epoch)
        if error != ErrorCode.NONE:
            return error, None
        if self.log.kraft_version < 1:
            return ErrorCode.UNSUPPORTED_VERSION, "The voters of this cluster are fixed (kraft.version 0)."
        if not self._begun:
            return ErrorCode.REQUEST_TIMED_OUT, "The leader has not yet agreed on anything with the voters."
        if self._change is not None:
            return ErrorCode.REQUEST_TIMED_OUT, "Another change of voters is under way."
        return ErrorCode.NONE, None

    def _changed_voters(
        self, request: AddVoter | RemoveVoter | UpdateVoter, now: float
    ) -> tuple[ErrorCode, str | None, VoterSet]:
        voters = self.voters
        if isinstance(request, RemoveVoter):
            rest = voters.without(request.voter)
            if rest is None:
                return ErrorCode.VOTER_NOT_FOUND, f"{request.voter.node_id} cannot be removed: {_names(voters)}", voters
            return ErrorCode.NONE, None, rest
        key = ReplicaKey(request.voter.voter_id, request.voter.directory_id)
        if not request.voter.endpoints:
            return ErrorCode.INVALID_REQUEST, "A voter needs an address.", voters
        if isinstance(request, UpdateVoter):
            if key not in voters.keys:
                return ErrorCode.VOTER_NOT_FOUND, None, voters
            return ErrorCode.NONE, None, voters.with_voter(request.voter)
        if voters.find(key.node_id) is not None:
            return ErrorCode.DUPLICATE_VOTER, f"{key.node_id} votes already: {_names(voters)}", voters
        progress = self._replicas.known(key)
        recently = now - CHECK_FACTOR * self.timing.fetch_timeout
        if progress is None or progress.caught_up_at is None or progress.caught_up_at < recently:
            return ErrorCode.REQUEST_TIMED_OUT, f"{key.node_id} has not caught up with the log.", voters
        return ErrorCode.NONE, None, voters.with_voter(request.voter)

    def _change_agreed(self, now: float) -> None:
        change = self._change
        if change is not None and self.high_watermark > change.offset:
            self._change = None
            if change.token is not None:
                self._reply(change.token, Answered(ErrorCode.NONE, self.believed))
        if not self.is_voter and self.high_watermark > self.log.voters_offset:
            self.resign(now)

    def _leave_role(self, now: float) -> None:
        change, self._change = self._change, None
        super()._leave_role(now)
        if change is not None and change.token is not None:
            self._reply(change.token, Answered(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.believed))

    # --- looking -----------------------------------------------------------------------------------------------------

    def describe(self, now: float) -> Description | None:
        """None when another replica has to be asked."""
        if self.role is not Role.LEADER:
            return None
        return Description(
            self.key.node_id,
            self.epoch,
            self.high_watermark if self._begun else -1,
            self._replicas.describe_voters(self.voters, self.log.end_offset, now),
            self._replicas.describe_observers(self.voters, now),
        )


def _names(voters: VoterSet) -> str:
    return "the voters are " + ", ".join(map(str, voters.ids))
