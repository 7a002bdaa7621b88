"""Who votes: identities of replicas and sets of voters.

Owns: which replica counts as which voter, majorities, and the sets that one change leads to. Never knows: elections,
the log. Invariants: a set is a value; two sets that differ by one change share a majority.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.records.control import ElectionVoter, Endpoint, Voter

NO_DIRECTORY = bytes(16)


class ReplicaKey(NamedTuple):
    """A node and the directory its copy lies in; a directory of zeros is one that nobody named."""

    node_id: int
    directory_id: bytes = NO_DIRECTORY


class VoterSet(NamedTuple):
    """The voters, ordered by node id."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        return cls(tuple(sorted(voters, key=lambda voter: voter.voter_id)))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.voter_id for voter in self.voters)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(ReplicaKey(voter.voter_id, voter.directory_id) for voter in self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def find(self, node_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.voter_id == node_id:
                return voter
        return None

    def has(self, key: ReplicaKey) -> bool:
        """Whether this replica votes: where the set names a directory, it has to be that one."""
        voter = self.find(key.node_id)
        return voter is not None and voter.directory_id in (NO_DIRECTORY, key.directory_id)

    def only(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.has(key)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """With this one added, or in the place of the one with its id."""
        return VoterSet.of([*(other for other in self.voters if other.voter_id != voter.voter_id), voter])

    def without(self, key: ReplicaKey) -> "VoterSet | None":
        """Without this one; None when it is not there, or nobody would be left."""
        rest = tuple(voter for voter in self.voters if (voter.voter_id, voter.directory_id) != key)
        return VoterSet(rest) if 0 < len(rest) < len(self.voters) else None

    def endpoint(self, node_id: int) -> Endpoint | None:
        """Where a voter is spoken to."""
        voter = self.find(node_id)
        return voter.endpoints[0] if voter is not None and voter.endpoints else None

    def named(self, ids: Iterable[int]) -> tuple[ElectionVoter, ...]:
        """Some of them, as the record of an election names them."""
        chosen = set(ids)
        return tuple(
            ElectionVoter(voter.voter_id, voter.directory_id) for voter in self.voters if voter.voter_id in chosen
        )


class Election(NamedTuple):
    """What of elections must never be forgotten; -1 is nobody."""

    epoch: int = 0
    leader_id: int = -1
    voted: ReplicaKey | None = None
