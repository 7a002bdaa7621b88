"""The roles of a replica, and the changes between them that a role may ask for.

Owns: the names. The changes are made in `raft.transitions`. Never knows: what any role does.
"""

from enum import Enum
from typing import Protocol

from ottla.raft.messages import Believed
from ottla.records.control import Endpoint


class Role(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    FOLLOWER = "follower"
    LEADER = "leader"
    RESIGNED = "resigned"


class RoleChanges(Protocol):
    """What a role asks for when the replica has to go on as something else; the role it had is left in good order."""

    def become_unattached(self, epoch: int, now: float, patience: float | None = None) -> None:
        """Nobody is known to lead the epoch; after `patience` a voter asks for votes."""

    def become_candidate(self, now: float) -> None:
        """A majority would vote for this replica: it votes for itself in the next epoch, and asks for their votes."""

    def become_leader(self, granting: frozenset[int], now: float) -> None:
        """These voters are a majority."""

    def become_follower(self, leader_id: int, epoch: int, endpoint: Endpoint, now: float) -> None: ...

    def return_to_leader(self, now: float, pause: float) -> None:
        """Nobody wants an election: a prospective follows the leader it has, which may be gone, a while longer."""

    def resign(self, now: float) -> None:
        """Lead no longer; the voters are told, those first that may follow soonest."""

    def learn(self, believed: Believed, now: float) -> bool:
        """Somebody else's belief about the leader; answers whether it changed ours."""
