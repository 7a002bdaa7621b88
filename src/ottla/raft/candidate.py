"""Elections: asking for votes and giving them.

Owns: the roles prospective and candidate, and the answers to Vote. Never knows: what is in the log beyond its end.
Invariants: one vote an epoch, saved before it is said; a vote only for a log that holds all of ours; no real election
before a majority has said, in a pre-vote that changes nothing, that it would vote.
"""

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.raft.core import NEVER, NOTICE, Identity, Role, State, Timing
from ottla.raft.log_view import LogView
from ottla.raft.messages import Vote, Voted
from ottla.raft.voters import NO_DIRECTORY, Election


class Elections(State):
    """See the module."""

    def __init__(self, identity: Identity, timing: Timing, log: LogView, election: Election, random: Random) -> None:
        super().__init__(identity, timing, log, election, random)
        self._granted: set[int] = set()
        self._rejected: set[int] = set()
        self._asked: dict[int, int] = {}
        """The number of the question to each voter that has not answered."""
        self._ask_again: dict[int, float] = {}
        self._failures = 0
        """Elections in a row that brought no leader."""

    # --- asking ------------------------------------------------------------------------------------------------------

    def _campaign(self, now: float) -> None:
        """Nobody leads, or the leader is silent: ask whether an election is worth it."""
        assert self.may_campaign
        if self.voters.only(self.key):
            self._become_candidate(now)
            return
        self.role = Role.PROSPECTIVE
        self._begin_fetching(now)
        self._ask_for_votes(now)

    def _become_candidate(self, now: float) -> None:
        self.epoch += 1
        self.voted = self.key
        self.role = Role.CANDIDATE
        self._set_leader(-1, None)
        self._save()
        self._ask_for_votes(now)
        self._count(now)

    def _ask_for_votes(self, now: float) -> None:
        self._granted = {self.key.node_id}
        self._rejected = set()
        self._asked = {}
        self._ask_again = {node_id: now for node_id in self.voters.ids if node_id != self.key.node_id}
        self._election_at = now + self.timing.election_timeout + self._drawn(self.timing.election_timeout)
        self._tick_questions(now)

    def _tick_questions(self, now: float) -> None:
        for node_id, due in list(self._ask_again.items()):
            if due > now:
                continue
            del self._ask_again[node_id]
            voter = self.voters.find(node_id)
            if voter is None or not voter.endpoints:
                continue
            request = Vote(
                self.identity.cluster_id,
                self.voters.keys[self.voters.ids.index(node_id)],
                self.epoch,
                self.key,
                self.log.end,
                self.role is Role.PROSPECTIVE,
            )
            self._asked[node_id] = self._send(node_id, voter.endpoints[0], request)

    def _vote_answered(self, number: int, node_id: int, request: Vote, answer: Voted, now: float) -> None:
        if self._learn(answer.believed, now):
            return
        if not self._is_open(number, node_id, request):
            return
        del self._asked[node_id]
        if answer.error == ErrorCode.NONE and answer.granted:
            self._granted.add(node_id)
        elif answer.error in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.FENCED_LEADER_EPOCH):
            self._rejected.add(node_id)
        else:
            self._ask_again[node_id] = now + self.timing.retry_backoff
        self._count(now)

    def _vote_unanswered(self, number: int, node_id: int, request: Vote, refused: bool, now: float) -> None:
        if self._is_open(number, node_id, request):
            del self._asked[node_id]
            # Nobody listens there: not worth a flood.
            self._ask_again[node_id] = now + (self.timing.retry_backoff if not refused else NOTICE / 3)

    def _is_open(self, number: int, node_id: int, request: Vote) -> bool:
        """Whether the question is one of the present election."""
        return (
            self.role is (Role.PROSPECTIVE if request.pre_vote else Role.CANDIDATE)
            and request.epoch == self.epoch
            and self._asked.get(node_id) == number
        )

    def _count(self, now: float) -> None:
        ids = set(self.voters.ids)
        if len(self._granted & ids) >= self.voters.majority:
            if self.role is Role.PROSPECTIVE:
                self._become_candidate(now)
            else:
                self._failures = 0
                self._become_leader(frozenset(self._granted & ids), now)
        elif len(ids) - len(self._rejected & ids) < self.voters.majority:
            self._lose(now)

    def _lose(self, now: float) -> None:
        """A majority does not want us, or the time is over."""
        self._failures = min(self._failures + 1, 10)
        pause = NOTICE / 3 + self._drawn(min(NOTICE * 2 ** (self._failures - 1), self.timing.election_backoff_max))
        if self.role is Role.PROSPECTIVE and self.leader_id >= 0:
            self.role = Role.FOLLOWER
            if self._suspected:
                self._election_at = now + pause
            else:
                self._expect_leader(now)
            self._begin_fetching(now)
        else:
            self._become_unattached(self.epoch, now, pause)

    def _election_deadline(self) -> float:
        if self.role in (Role.PROSPECTIVE, Role.CANDIDATE):
            return min([self._election_at, *self._ask_again.values()])
        return self._election_at if self.role is not Role.LEADER else NEVER

    # --- giving ------------------------------------------------------------------------------------------------------

    def _receive_vote(self, token: object, request: Vote, now: float) -> None:
        self._reply(token, self._judge(request, now))

    def _judge(self, request: Vote, now: float) -> Voted:
        if self._wrong_cluster(request.cluster_id):
            return Voted(ErrorCode.INCONSISTENT_CLUSTER_ID, self.believed)
        end = request.log_end
        newest = request.epoch if request.pre_vote else request.epoch - 1
        if end.offset < 0 or not 0 <= end.epoch <= newest:
            return Voted(ErrorCode.INVALID_REQUEST, self.believed)
        if request.epoch < self.epoch:
            return Voted(ErrorCode.FENCED_LEADER_EPOCH, self.believed)
        if request.epoch > self.epoch:
            self._become_unattached(request.epoch, now)
        if not self._is_me(request.voter) or not self.identity.can_vote:
            return Voted(ErrorCode.INVALID_VOTER_KEY, self.believed)
        if not self._grants(request, now):
            return Voted(ErrorCode.NONE, self.believed)
        if not request.pre_vote and self.voted is None:
            self._become_unattached(self.epoch, now)
            self.voted = request.candidate
            self._save()
        return Voted(ErrorCode.NONE, self.believed, granted=True)

    def _grants(self, request: Vote, now: float) -> bool:
        if self.log.is_newer_than(request.log_end) or self.role is Role.LEADER:
            return False
        if request.pre_vote:
            well = now - self._heard_at < self.timing.fetch_timeout and not self._suspected
            return self.role is not Role.FOLLOWER or not well
        if self.voted is not None:
            # Where voters are fixed, the directory of the one voted for is not remembered over a restart.
            same = self.voted.directory_id in (NO_DIRECTORY, request.candidate.directory_id)
            return self.voted.node_id == request.candidate.node_id and same
        return self.leader_id < 0
