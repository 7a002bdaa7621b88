"""The machine of one replica: everything that happens to it comes in here.

Owns: which input goes to which role. Never knows: the world outside its inputs and effects, what a role does with an
input (`candidate`, `follower`, `leader`, `resigned`, `granting`), how roles change (`transitions`).
Invariants: after every input the host takes the effects and does them, in order; see the roles and `core` for theirs.
"""

from ottla.base.ports import Random
from ottla.raft.core import NOTICE, Core, ReplicaIdentity, Timing
from ottla.raft.effects import Effect
from ottla.raft.granting import VoteGranting
from ottla.raft.leader import QuorumDescription
from ottla.raft.log_view import LogPosition, LogView
from ottla.raft.messages import (
    Answer,
    Answered,
    BeginEpoch,
    Believed,
    EndEpoch,
    Fetch,
    Fetched,
    FetchedSnapshot,
    FetchSnapshot,
    Request,
    Vote,
    Voted,
)
from ottla.raft.roles import Role
from ottla.raft.transitions import Transitions
from ottla.raft.voters import Election, ReplicaKey, VoterSet
from ottla.records.control import Control, Endpoint


class Raft:
    """A core, the roles it may have, and who answers votes. Inputs are methods; properties say how it stands."""

    def __init__(
        self, identity: ReplicaIdentity, timing: Timing, log: LogView, election: Election, random: Random
    ) -> None:
        self._core = Core(identity, timing, log, election, random)
        self._transitions = Transitions(self._core)
        self._candidate = self._transitions.candidate
        self._follower = self._transitions.follower
        self._leader = self._transitions.leader
        self._resigned = self._transitions.resigned
        self._granting = VoteGranting(self._core, self._transitions, self._follower)

    # --- how it stands -----------------------------------------------------------------------------------------------

    @property
    def key(self) -> ReplicaKey:
        return self._core.key

    @property
    def role(self) -> Role:
        return self._core.role

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def voted(self) -> ReplicaKey | None:
        """For whom, in this epoch."""
        return self._core.voted

    @property
    def leader_id(self) -> int:
        return self._core.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._core.leader_endpoint

    @property
    def believed(self) -> Believed:
        return self._core.believed

    @property
    def leads(self) -> bool:
        """Whether decisions may be appended: everything before this epoch is committed and was told."""
        return self._leader.begun

    @property
    def log(self) -> LogView:
        return self._core.log

    @property
    def high_watermark(self) -> int:
        return self._core.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self._core.voters

    @property
    def is_voter(self) -> bool:
        return self._core.is_voter

    @property
    def is_sole_voter(self) -> bool:
        return self._core.is_sole_voter

    def describe(self, now: float) -> QuorumDescription | None:
        """None when another replica has to be asked."""
        return self._leader.describe(now) if self._core.role is Role.LEADER else None

    def take(self) -> list[Effect]:
        """What is to be done, in order; the caller does it."""
        return self._core.take()

    # --- time --------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin. A sole voter leads at once."""
        core = self._core
        if core.is_sole_voter:
            self._transitions.campaign(now)
        else:
            # Pre-votes do no harm to a leader there is, so there is no need to be patient.
            self._transitions.become_unattached(core.epoch, now, core.draw(NOTICE))

    def deadline(self) -> float:
        """When `tick` is due."""
        role = self._core.role
        if role is Role.LEADER:
            return self._leader.deadline()
        if role is Role.RESIGNED:
            return self._resigned.deadline()
        if role in (Role.PROSPECTIVE, Role.CANDIDATE):
            return self._candidate.deadline()
        return min(self._core.election_at, self._follower.deadline())

    def tick(self, now: float) -> None:
        """Time has passed."""
        role = self._core.role
        if role is Role.LEADER:
            self._leader.tick(now)
        elif now >= self._core.election_at:
            self._time_out(now)
        elif role is Role.RESIGNED:
            self._resigned.tick(now)
        elif role in (Role.PROSPECTIVE, Role.CANDIDATE):
            self._candidate.tick(now)
        self._follower.tick(now)

    def _time_out(self, now: float) -> None:
        core = self._core
        if core.role is Role.RESIGNED:
            self._transitions.become_unattached(core.epoch, now)
        elif core.role in (Role.PROSPECTIVE, Role.CANDIDATE):
            self._candidate.lose(now)
        elif self._follower.installing:
            core.election_at = now + NOTICE
        elif core.may_campaign:
            self._transitions.campaign(now)
        else:
            # An observer only looks for a leader; who has none is not in a hurry.
            self._transitions.become_unattached(core.epoch, now)

    # --- messages ----------------------------------------------------------------------------------------------------

    def receive(self, token: object, request: Request, now: float) -> None:
        """A request of another replica, or of an operator; `Reply` with this token will answer it."""
        if isinstance(request, Fetch):
            self._leader.receive_fetch(token, request, now)
        elif isinstance(request, Vote):
            self._granting.receive(token, request, now)
        elif isinstance(request, BeginEpoch):
            self._follower.receive_begin_epoch(token, request, now)
        elif isinstance(request, EndEpoch):
            self._follower.receive_end_epoch(token, request, now)
        elif isinstance(request, FetchSnapshot):
            self._leader.receive_fetch_snapshot(token, request, now)
        else:
            self._leader.receive_voter_change(token, request, now)

    def answered(self, number: int, node_id: int, request: Request, answer: Answer, now: float) -> None:
        """The answer to a `Send`."""
        if isinstance(request, Fetch):
            assert isinstance(answer, Fetched)
            self._follower.fetch_answered(number, request, answer, now)
        elif isinstance(request, Vote):
            assert isinstance(answer, Voted)
            self._candidate.vote_answered(number, node_id, request, answer, now)
        elif isinstance(request, FetchSnapshot):
            assert isinstance(answer, FetchedSnapshot)
            self._follower.portion_answered(number, request, answer, now)
        else:
            assert isinstance(answer, Answered)
            if isinstance(request, EndEpoch):
                self._resigned.end_answered(node_id, answer, now)
            else:
                self._follower.membership.settled(number)
                self._transitions.learn(answer.believed, now)

    def unanswered(self, number: int, node_id: int, request: Request, refused: bool, now: float) -> None:
        """No answer to a `Send` came; `refused`: nobody listens there."""
        if isinstance(request, Fetch | FetchSnapshot):
            self._follower.fetch_unanswered(number, refused, now)
        elif isinstance(request, Vote):
            self._candidate.vote_unanswered(number, node_id, request, refused, now)
        elif isinstance(request, BeginEpoch):
            self._leader.begin_unanswered(node_id, request, refused, now)
        elif isinstance(request, EndEpoch):
            self._resigned.end_unanswered(node_id, refused, now)
        else:
            self._follower.membership.settled(number)

    # --- what the host has done --------------------------------------------------------------------------------------

    def appended(self, end_offset: int, now: float) -> None:
        """The host has written a batch of this epoch behind the log's end."""
        self._leader.appended(end_offset, now)

    def stored(self, end_offset: int, now: float) -> None:
        """Everything before this offset lasts."""
        self._leader.stored(end_offset, now)

    def installed(self, snapshot: LogPosition, controls: tuple[Control, ...], now: float) -> None:
        """The snapshot has taken the log's place; these are the control records in it."""
        self._follower.installed(snapshot, controls, now)

    def install_failed(self, now: float) -> None:
        """The snapshot was damaged on its way, or could not be stored; begin again."""
        self._follower.install_failed(now)

    def resign(self, now: float) -> None:
        """Lead no longer; the voters are told, those first that may follow soonest."""
        self._transitions.resign(now)
