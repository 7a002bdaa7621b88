"""What every role of a replica shares: who it is, what it remembers, whom it believes in, and how it speaks.

Owns: the state, the primitives on it, and the two changes that any role may undergo (a newer epoch, a known leader).
Never knows: clocks, links, disks; time comes as numbers, and what is to be done leaves as effects.
Invariants: the epoch never goes back; a vote is never taken back within its epoch; both are saved before anything that
rests on them is said; the high watermark never goes back.
"""

from abc import ABC, abstractmethod
from enum import Enum
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.raft.effects import Commit, Effect, LeaderKnown, Reply, SaveElection, Send
from ottla.raft.log_view import LogView
from ottla.raft.messages import Answer, Believed, Request
from ottla.raft.voters import NO_DIRECTORY, Election, ReplicaKey, VoterSet
from ottla.records.control import Endpoint

NEVER = float("inf")
NOTICE = 0.15
"""The longest pause, in seconds, before a replica that knows its leader to be gone asks for votes; drawn, so that not
all ask at once. It also paces the first elections of a cluster: pre-votes do no harm."""


class Role(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    FOLLOWER = "follower"
    LEADER = "leader"
    RESIGNED = "resigned"


class Timing(NamedTuple):
    """Seconds."""

    election_timeout: float = 1.0
    election_backoff_max: float = 1.0
    fetch_timeout: float = 2.0
    request_timeout: float = 2.0
    retry_backoff: float = 0.02
    fetch_wait: float = 0.5


class Identity(NamedTuple):
    """This replica, where it listens, and addresses to begin with when it does not know the voters."""

    cluster_id: str
    key: ReplicaKey
    can_vote: bool
    endpoints: tuple[Endpoint, ...] = ()
    bootstrap: tuple[Endpoint, ...] = ()
    auto_join: bool = False


class State(ABC):
    """See the module."""

    def __init__(self, identity: Identity, timing: Timing, log: LogView, election: Election, random: Random) -> None:
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
        self._election_at = NEVER
        """When a voter asks for votes, or gives up waiting for them; when an observer looks for another leader."""
        self._suspected = False
        """The leader is said to be gone, by its machine or by itself."""
        self._heard_at = -NEVER
        """When it last answered a fetch in this epoch."""
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
    def may_campaign(self) -> bool:
        """Voters may; and one whose removal may not be agreed on yet, as nobody else need hold so much of the log."""
        if self.is_voter:
            return True
        unsure = self.log.voters_offset >= self.high_watermark and self.log.voters_before.has(self.key)
        return self.identity.can_vote and unsure

    @property
    def believed(self) -> Believed:
        return Believed(self.leader_id, self.epoch, self.leader_endpoint)

    def take(self) -> list[Effect]:
        """What is to be done, in order; the caller does it."""
        effects = self._effects
        self._effects = []
        return effects

    # --- primitives --------------------------------------------------------------------------------------------------

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _save(self) -> None:
        effect = SaveElection(Election(self.epoch, self.leader_id, self.voted))
        if self._effects and isinstance(self._effects[-1], SaveElection):
            # Nothing was said in between: one write serves both.
            self._effects[-1] = effect
        else:
            self._effects.append(effect)

    def _send(self, node_id: int, address: Endpoint, request: Request, timeout: float = 0.0) -> int:
        self._number += 1
        self._emit(Send(self._number, node_id, address, request, timeout or self.timing.request_timeout))
        return self._number

    def _reply(self, token: object, answer: Answer) -> None:
        self._emit(Reply(token, answer))

    def _drawn(self, longest: float) -> float:
        return self._random.uniform(0.0, longest)

    def _advance(self, high_watermark: int) -> bool:
        if high_watermark <= self.high_watermark:
            return False
        assert high_watermark <= self.log.end_offset, (high_watermark, self.log.end_offset)
        self.high_watermark = high_watermark
        self._emit(Commit(high_watermark))
        return True

    def _wrong_cluster(self, cluster_id: str | None) -> bool:
        return cluster_id is not None and cluster_id != self.identity.cluster_id

    def _is_me(self, voter: ReplicaKey) -> bool:
        """Whether a request that names its receiver means this replica; old versions name nobody."""
        return voter.node_id in (-1, self.key.node_id) and voter.directory_id in (NO_DIRECTORY, self.key.directory_id)

    # --- changes that any role may undergo ---------------------------------------------------------------------------

    def _become_unattached(self, epoch: int, now: float, patience: float | None = None) -> None:
        """Nobody is known to lead the epoch; after `patience` a voter asks for votes."""
        self._leave_role(now)
        if epoch > self.epoch:
            self.epoch = epoch
            self.voted = None
            self._set_leader(-1, None)
            self._save()
        self.role = Role.UNATTACHED
        self._set_leader(-1, None)
        if patience is None:
            patience = self.timing.election_timeout + self._drawn(self.timing.election_timeout)
        self._election_at = now + patience
        self._discover_at(now)

    def _become_follower(self, leader_id: int, epoch: int, endpoint: Endpoint, now: float) -> None:
        self._leave_role(now)
        if epoch > self.epoch:
            self.epoch = epoch
            self.voted = None
        self.role = Role.FOLLOWER
        self._suspected = False
        self._heard_at = -NEVER
        self._set_leader(leader_id, endpoint)
        self._expect_leader(now)
        self._begin_fetching(now)

    def _set_leader(self, leader_id: int, endpoint: Endpoint | None) -> None:
        self.leader_endpoint = endpoint
        if leader_id < 0 and self.leader_id < 0:
            return
        self.leader_id = leader_id
        if leader_id >= 0:
            self._save()
        self._emit(LeaderKnown(leader_id, self.epoch))

    def _expect_leader(self, now: float) -> None:
        """The leader is well; it has this long to answer again."""
        self._suspected = False
        self._election_at = now + self.timing.fetch_timeout + self._drawn(NOTICE)

    def _suspect_leader(self, now: float, pause: float) -> None:
        self._suspected = True
        self._election_at = min(self._election_at, now + pause)

    def _learn(self, believed: Believed, now: float) -> bool:
        """Somebody else's belief about the leader; answers whether it changed ours."""
        if believed.epoch < self.epoch:
            return False
        if believed.leader_id == self.leader_id and believed.epoch == self.epoch:
            return False
        endpoint = believed.endpoint or self.voters.endpoint(believed.leader_id)
        if believed.leader_id in (-1, self.key.node_id) or endpoint is None:
            if believed.epoch > self.epoch:
                self._become_unattached(believed.epoch, now)
                return True
            return False
        if believed.epoch == self.epoch and (self.leader_id >= 0 or self.role is Role.RESIGNED):
            return False
        self._become_follower(believed.leader_id, believed.epoch, endpoint, now)
        return True

    def _refuse_epoch(self, epoch: int) -> ErrorCode:
        """Why a request for the leader in this epoch is not for this replica; NONE when it is."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # --- what the roles add ------------------------------------------------------------------------------------------

    @abstractmethod
    def _leave_role(self, now: float) -> None:
        """Whoever waits for what the present role promised is told."""

    @abstractmethod
    def _discover_at(self, when: float) -> None:
        """Ask around for a leader from then on."""

    @abstractmethod
    def _begin_fetching(self, now: float) -> None: ...

    @abstractmethod
    def _become_leader(self, granting: frozenset[int], now: float) -> None: ...
