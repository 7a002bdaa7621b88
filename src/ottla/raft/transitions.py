"""The roles of a replica, and every change from one to another.

Owns: which role it has, and in which order one is left and the next begun. Never knows: what a role does meanwhile, and
when it asks for a change.
Invariants: the role is set here and nowhere else; what a leader promised is taken back before anything of the next role
is said; a new epoch is entered before its leader is named.
"""

from ottla.raft.candidate import CandidateRole
from ottla.raft.core import Core
from ottla.raft.effects import Sync
from ottla.raft.follower import FollowerRole
from ottla.raft.leader import LeaderRole
from ottla.raft.messages import Believed
from ottla.raft.resigned import ResignedRole
from ottla.raft.roles import Role, RoleChanges
from ottla.records.control import Endpoint


class Transitions(RoleChanges):
    """All roles of one replica, which has one of them at a time. A prospective is a candidate that changes nothing
    yet; who is unattached looks for a leader as a follower does."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.candidate = CandidateRole(core, self)
        self.follower = FollowerRole(core, self)
        self.leader = LeaderRole(core, self)
        self.resigned = ResignedRole(core, self)

    # --- towards a leader --------------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int, now: float, patience: float | None = None) -> None:
        core = self._core
        self._leave_leadership(now)
        newer = core.enter_epoch(epoch)
        core.set_leader(-1, None)
        if newer:
            core.save()
        core.role = Role.UNATTACHED
        if patience is None:
            patience = core.timing.election_timeout + core.draw(core.timing.election_timeout)
        core.election_at = now + patience
        self.follower.discover(now)

    def become_follower(self, leader_id: int, epoch: int, endpoint: Endpoint, now: float) -> None:
        core = self._core
        self._leave_leadership(now)
        core.enter_epoch(epoch)
        core.role = Role.FOLLOWER
        core.set_leader(leader_id, endpoint)
        self.follower.begin(now)

    def return_to_leader(self, now: float, pause: float) -> None:
        assert self._core.role is Role.PROSPECTIVE
        self._core.role = Role.FOLLOWER
        self.follower.go_on(now, pause)

    def learn(self, believed: Believed, now: float) -> bool:
        core = self._core
        if believed.epoch < core.epoch:
            return False
        if believed.leader_id == core.leader_id and believed.epoch == core.epoch:
            return False
        endpoint = believed.endpoint or core.voters.endpoint(believed.leader_id)
        if believed.leader_id in (-1, core.key.node_id) or endpoint is None:
            if believed.epoch > core.epoch:
                self.become_unattached(believed.epoch, now)
                return True
            return False
        if believed.epoch == core.epoch and (core.leader_id >= 0 or core.role is Role.RESIGNED):
            return False
        self.become_follower(believed.leader_id, believed.epoch, endpoint, now)
        return True

    # --- towards leading ---------------------------------------------------------------------------------------------

    def campaign(self, now: float) -> None:
        """Nobody leads, or the leader does not answer: ask whether an election is worth it."""
        core = self._core
        assert core.may_campaign
        if core.voters.only(core.key):
            self.become_candidate(now)
            return
        core.role = Role.PROSPECTIVE
        self.follower.stop_fetching()
        self.candidate.ask_for_votes(now)

    def become_candidate(self, now: float) -> None:
        core = self._core
        core.enter_epoch(core.epoch + 1)
        core.voted = core.key
        core.role = Role.CANDIDATE
        core.set_leader(-1, None)
        core.save()
        self.candidate.ask_for_votes(now)
        # A sole voter has its majority already.
        self.candidate.count(now)

    def become_leader(self, granting: frozenset[int], now: float) -> None:
        core = self._core
        core.role = Role.LEADER
        core.failed_elections = 0
        self.follower.stop_fetching()
        endpoints = core.identity.endpoints
        core.set_leader(core.key.node_id, endpoints[0] if endpoints else core.voters.endpoint(core.key.node_id))
        self.leader.begin(granting, now)

    # --- from leading ------------------------------------------------------------------------------------------------

    def resign(self, now: float) -> None:
        core = self._core
        if core.role is not Role.LEADER:
            return
        successors = self.leader.successors()
        self._leave_leadership(now)
        core.role = Role.RESIGNED
        self.resigned.begin(successors, now)

    def _leave_leadership(self, now: float) -> None:
        """Whoever waits for what a leader promised is told."""
        core = self._core
        if core.role is not Role.LEADER:
            return
        core.role = Role.UNATTACHED
        # What it wrote last may not be stored yet, and its next fetch or vote will say that it is.
        core.emit(Sync())
        core.set_leader(-1, None)
        self.leader.end(now)
