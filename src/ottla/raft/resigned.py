"""Resigned: a leader that gave up and has not heard of another one.

Owns: telling the voters (EndQuorumEpoch), and for how long it waits for one of them to lead. Never knows: why it gave
up. Invariant: it does not lead or follow in the epoch that it has ended.
"""

from ottla.raft.core import NEVER, NOTICE, Core
from ottla.raft.messages import Answered, EndEpoch
from ottla.raft.roles import Role, RoleChanges
from ottla.raft.voters import ReplicaKey


class ResignedRole:
    """Ends with a newer epoch, or with the time-out."""

    def __init__(self, core: Core, changes: RoleChanges) -> None:
        self._core = core
        self._changes = changes
        self._untold: dict[int, float] = {}
        """Voters that have not yet heard of it, and when to tell them again."""
        self._successors: tuple[ReplicaKey, ...] = ()

    def begin(self, successors: tuple[ReplicaKey, ...], now: float) -> None:
        core = self._core
        self._successors = successors
        self._untold = {key.node_id: now for key in successors}
        core.election_at = now + core.timing.election_timeout + core.draw(core.timing.election_timeout)
        self.tick(now)

    def deadline(self) -> float:
        return min([self._core.election_at, *self._untold.values()])

    def tick(self, now: float) -> None:
        core = self._core
        for node_id, due in list(self._untold.items()):
            endpoint = core.voters.endpoint(node_id)
            if due > now or endpoint is None:
                continue
            self._untold[node_id] = NEVER
            identity = core.identity
            request = EndEpoch(identity.cluster_id, core.key.node_id, core.epoch, self._successors, identity.endpoints)
            core.send(node_id, endpoint, request)

    def end_answered(self, node_id: int, answer: Answered, now: float) -> None:
        self._untold.pop(node_id, None)
        if not self._changes.learn(answer.believed, now) and self._core.role is Role.RESIGNED and not self._untold:
            # All know; it is time to look for the next leader.
            self._core.election_at = min(self._core.election_at, now + NOTICE)

    def end_unanswered(self, node_id: int, refused: bool, now: float) -> None:
        if node_id in self._untold:
            if refused:
                del self._untold[node_id]
            else:
                self._untold[node_id] = now + NOTICE / 3
