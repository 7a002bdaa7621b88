"""What every role of a replica shares: who it is, what it remembers, whom it believes in, and how it speaks.

Owns: the state, the primitives on it, and the effects that are not taken yet. Never knows: clocks, links, disks (time
comes as numbers, and what is to be done leaves as effects), what a role does, when roles change.
Invariants: the epoch never goes back; a vote is never taken back within its epoch; both are saved before anything that
rests on them is said; the high watermark never goes back.
"""

from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.raft.effects import Commit, Effect, LeaderKnown, Reply, SaveElection, Send
from ottla.raft.log_view import LogView
from ottla.raft.messages import Answer, Believed, Request
from ottla.raft.roles import Role
from ottla.raft.voters import NO_DIRECTORY, Election, ReplicaKey, VoterSet
from ottla.records.control import Endpoint

NEVER = float("inf")
NOTICE = 0.15
"""The longest pause, in seconds, before a replica that knows its leader to be gone asks for votes; drawn, so that not
all ask at once. It also paces the first elections of a cluster: pre-votes do no harm."""


class Timing(NamedTuple):
    """Seconds."""

    election_timeout: float = 1.0
    election_backoff_max: float = 1.0
    fetch_timeout: float = 2.0
    request_timeout: float = 2.0
    retry_backoff: float = 0.02
    fetch_wait: float = 0.5


class ReplicaIdentity(NamedTuple):
    """This replica, where it listens, and addresses to begin with when it does not know the voters."""

    cluster_id: str
    key: ReplicaKey
    can_vote: bool
    endpoints: tuple[Endpoint, ...] = ()
    bootstrap: tuple[Endpoint, ...] = ()
    auto_join: bool = False


class Core:
    """The state that outlives a role, and the primitives on it. Only `raft.transitions` sets the role."""

    def __init__(
        self, identity: ReplicaIdentity, timing: Timing, log: LogView, election: Election, random: Random
    ) -> None:
        self.identity = identity
        self.key = identity.key
        self.timing = timing
        self.log = log
        self._random = random
        self.epoch = max(election.epoch, log.last_epoch)
        self.voted = election.voted if election.epoch == self.epoch else None
        self.leader_id = -1
        self.leader_endpoint: Endpoint | None = None
        self.role = Role.UNATTACHED
        self.high_watermark = log.start_offset
        self.election_at = NEVER
        """When a voter asks for votes, or gives up waiting for them; when an observer looks for another leader."""
        self.failed_elections = 0
        """In a row: each brought no leader."""
        self._number = 0
        self._effects: list[Effect] = []

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        return self.log.voters

    @property
    def is_voter(self) -> bool:
        return self.identity.can_vote and self.log.voters.has(self.key)

    @property
    def is_sole_voter(self) -> bool:
        return self.is_voter and self.log.voters.only(self.key)

    @property
    def may_campaign(self) -> bool:
        """Voters may; and one whose removal may not be committed yet, as nobody else need hold so much of the log."""
        if self.is_voter:
            return True
        unsure = self.log.voters_offset >= self.high_watermark and self.log.voters_before.has(self.key)
        return self.identity.can_vote and unsure

    @property
    def believed(self) -> Believed:
        return Believed(self.leader_id, self.epoch, self.leader_endpoint)

    def is_me(self, voter: ReplicaKey) -> bool:
        """Whether a request that names its receiver means this replica; old versions name nobody."""
        return voter.node_id in (-1, self.key.node_id) and voter.directory_id in (NO_DIRECTORY, self.key.directory_id)

    def is_of_another_cluster(self, cluster_id: str | None) -> bool:
        return cluster_id is not None and cluster_id != self.identity.cluster_id

    def refuse_epoch(self, epoch: int) -> ErrorCode:
        """Why a request for the leader in this epoch is not for this replica; NONE when it is."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # --- effects -----------------------------------------------------------------------------------------------------

    def take(self) -> list[Effect]:
        """What is to be done, in order; the caller does it."""
        effects = self._effects
        self._effects = []
        return effects

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def save(self) -> None:
        """The epoch, the vote and the leader last before anything behind this is said."""
        effect = SaveElection(Election(self.epoch, self.leader_id, self.voted))
        if self._effects and isinstance(self._effects[-1], SaveElection):
            # Nothing was said in between: one write serves both.
            self._effects[-1] = effect
        else:
            self._effects.append(effect)

    def send(self, node_id: int, address: Endpoint, request: Request) -> int:
        """Answers the number by which the answer is known."""
        self._number += 1
        self.emit(Send(self._number, node_id, address, request, self.timing.request_timeout))
        return self._number

    def reply(self, token: object, answer: Answer) -> None:
        self.emit(Reply(token, answer))

    # --- changes -----------------------------------------------------------------------------------------------------

    def draw(self, longest: float) -> float:
        """A random pause of at most so many seconds."""
        return self._random.uniform(0.0, longest)

    def advance(self, high_watermark: int) -> bool:
        """Everything before this offset is committed; answers whether that is new."""
        if high_watermark <= self.high_watermark:
            return False
        assert high_watermark <= self.log.end_offset, (high_watermark, self.log.end_offset)
        self.high_watermark = high_watermark
        self.emit(Commit(high_watermark))
        return True

    def enter_epoch(self, epoch: int) -> bool:
        """Answers whether it is newer than the present one; then there is no vote in it yet."""
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        self.voted = None
        return True

    def set_leader(self, leader_id: int, endpoint: Endpoint | None) -> None:
        """Somebody leads, or nobody that is known: -1."""
        self.leader_endpoint = endpoint
        if leader_id < 0 and self.leader_id < 0:
            return
        self.leader_id = leader_id
        if leader_id >= 0:
            self.save()
        self.emit(LeaderKnown(leader_id, self.epoch))
