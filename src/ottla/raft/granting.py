"""Giving votes: what a replica answers to Vote, whatever its role.

Owns: who gets a vote or a pre-vote. Never knows: how votes are asked for and counted (`raft.candidate`), what is in the
log beyond its end.
Invariants: one vote an epoch, saved before it is said; a vote only for a log that holds all of ours; who hears from its
leader gives no pre-vote.
"""

from ottla.base.errors import ErrorCode
from ottla.raft.core import Core
from ottla.raft.follower import FollowerRole
from ottla.raft.messages import Vote, Voted
from ottla.raft.roles import Role, RoleChanges
from ottla.raft.voters import NO_DIRECTORY


class VoteGranting:
    """Answers at once. A newer epoch is entered before it is judged who shall lead it."""

    def __init__(self, core: Core, changes: RoleChanges, follower: FollowerRole) -> None:
        self._core = core
        self._changes = changes
        self._follower = follower

    def receive(self, token: object, request: Vote, now: float) -> None:
        self._core.reply(token, self.judge(request, now))

    def judge(self, request: Vote, now: float) -> Voted:
        core = self._core
        if core.is_of_another_cluster(request.cluster_id):
            return Voted(ErrorCode.INCONSISTENT_CLUSTER_ID, core.believed)
        end = request.log_end
        newest = request.epoch if request.pre_vote else request.epoch - 1
        if end.offset < 0 or not 0 <= end.epoch <= newest:
            return Voted(ErrorCode.INVALID_REQUEST, core.believed)
        if request.epoch < core.epoch:
            return Voted(ErrorCode.FENCED_LEADER_EPOCH, core.believed)
        if request.epoch > core.epoch:
            self._changes.become_unattached(request.epoch, now)
        if not core.is_me(request.voter) or not core.identity.can_vote:
            return Voted(ErrorCode.INVALID_VOTER_KEY, core.believed)
        if not self._grants(request, now):
            return Voted(ErrorCode.NONE, core.believed)
        if not request.pre_vote and core.voted is None:
            self._changes.become_unattached(core.epoch, now)
            core.voted = request.candidate
            core.save()
        return Voted(ErrorCode.NONE, core.believed, granted=True)

    def _grants(self, request: Vote, now: float) -> bool:
        core = self._core
        if core.log.is_newer_than(request.log_end) or core.role is Role.LEADER:
            return False
        if request.pre_vote:
            return core.role is not Role.FOLLOWER or not self._follower.hears_leader(now)
        if core.voted is not None:
            # Where voters are fixed, the directory of the one voted for is not remembered over a restart.
            same = core.voted.directory_id in (NO_DIRECTORY, request.candidate.directory_id)
            return core.voted.node_id == request.candidate.node_id and same
        return core.leader_id < 0
