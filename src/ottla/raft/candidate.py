"""Asking for votes: the roles prospective and candidate.

Owns: whom it has asked, who has granted and who has refused. Never knows: what is in the log beyond its end, how votes
are given (`raft.granting`).
Invariants: no real election before a majority has said, in a pre-vote that changes nothing, that it would vote; an
answer counts only in the election in which it was asked for.
"""

from ottla.base.errors import ErrorCode
from ottla.raft.core import NOTICE, Core
from ottla.raft.messages import Vote, Voted
from ottla.raft.roles import Role, RoleChanges


class CandidateRole:
    """One election after the other; a prospective's are pre-votes (KIP-996)."""

    def __init__(self, core: Core, changes: RoleChanges) -> None:
        self._core = core
        self._changes = changes
        self._granted: set[int] = set()
        self._rejected: set[int] = set()
        self._asked: dict[int, int] = {}
        """The number of the question to each voter that has not answered."""
        self._ask_again: dict[int, float] = {}

    def ask_for_votes(self, now: float) -> None:
        core = self._core
        self._granted = {core.key.node_id}
        self._rejected = set()
        self._asked = {}
        self._ask_again = {node_id: now for node_id in core.voters.ids if node_id != core.key.node_id}
        core.election_at = now + core.timing.election_timeout + core.draw(core.timing.election_timeout)
        self.tick(now)

    def deadline(self) -> float:
        return min([self._core.election_at, *self._ask_again.values()])

    def tick(self, now: float) -> None:
        """Ask those whose turn it is."""
        core = self._core
        for node_id, due in list(self._ask_again.items()):
            if due > now:
                continue
            del self._ask_again[node_id]
            voter = core.voters.find(node_id)
            if voter is None or not voter.endpoints:
                continue
            request = Vote(
                core.identity.cluster_id,
                core.voters.keys[core.voters.ids.index(node_id)],
                core.epoch,
                core.key,
                core.log.end,
                core.role is Role.PROSPECTIVE,
            )
            self._asked[node_id] = core.send(node_id, voter.endpoints[0], request)

    def vote_answered(self, number: int, node_id: int, request: Vote, answer: Voted, now: float) -> None:
        if self._changes.learn(answer.believed, now):
            return
        if not self._is_open(number, node_id, request):
            return
        del self._asked[node_id]
        if answer.error == ErrorCode.NONE and answer.granted:
            self._granted.add(node_id)
        elif answer.error in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.FENCED_LEADER_EPOCH):
            self._rejected.add(node_id)
        else:
            self._ask_again[node_id] = now + self._core.timing.retry_backoff
        self.count(now)

    def vote_unanswered(self, number: int, node_id: int, request: Vote, refused: bool, now: float) -> None:
        if self._is_open(number, node_id, request):
            del self._asked[node_id]
            # Nobody listens there: not worth a flood.
            self._ask_again[node_id] = now + (self._core.timing.retry_backoff if not refused else NOTICE / 3)

    def _is_open(self, number: int, node_id: int, request: Vote) -> bool:
        """Whether the question is one of the present election."""
        return (
            self._core.role is (Role.PROSPECTIVE if request.pre_vote else Role.CANDIDATE)
            and request.epoch == self._core.epoch
            and self._asked.get(node_id) == number
        )

    def count(self, now: float) -> None:
        voters = self._core.voters
        ids = set(voters.ids)
        if len(self._granted & ids) >= voters.majority:
            if self._core.role is Role.PROSPECTIVE:
                self._changes.become_candidate(now)
            else:
                self._changes.become_leader(frozenset(self._granted & ids), now)
        elif len(ids) - len(self._rejected & ids) < voters.majority:
            self.lose(now)

    def lose(self, now: float) -> None:
        """A majority does not want us, or the time is over."""
        core = self._core
        core.failed_elections = min(core.failed_elections + 1, 10)
        longest = min(NOTICE * 2 ** (core.failed_elections - 1), core.timing.election_backoff_max)
        pause = NOTICE / 3 + core.draw(longest)
        if core.role is Role.PROSPECTIVE and core.leader_id >= 0:
            self._changes.return_to_leader(now, pause)
        else:
            self._changes.become_unattached(core.epoch, now, pause)
