"""How far the other replicas are, as their leader sees it.

Owns: what each has stored and when it was heard of, and what follows: the offset a majority holds, whether a majority
is still there. Never knows: messages. Invariant: an offset counts only when its replica is one of the voters.
"""

from typing import NamedTuple

from ottla.raft.voters import NO_DIRECTORY, ReplicaKey, VoterSet
from ottla.records.control import Voter

OBSERVER_SECONDS = 300.0
"""An observer that has not fetched for this long is no longer spoken of."""


class ReplicaProgress:
    """Of one replica; times are None before the first fetch."""

    __slots__ = ("begin_at", "caught_up_at", "end_offset", "fetched_at", "leader_end_then")

    def __init__(self, now: float) -> None:
        self.end_offset = -1
        self.fetched_at: float | None = None
        self.caught_up_at: float | None = None
        self.leader_end_then = -1
        self.begin_at = now
        """When to tell a voter again who leads."""

    def fetched(self, offset: int, leader_end: int, now: float) -> None:
        if offset >= leader_end:
            self.caught_up_at = now
        elif self.fetched_at is not None and offset >= self.leader_end_then >= 0:
            # It has by now what there was when it asked before.
            self.caught_up_at = self.fetched_at
        self.end_offset = offset
        self.fetched_at = now
        self.leader_end_then = leader_end


class ReplicaDescription(NamedTuple):
    """One replica in a description of the quorum; how long ago it fetched, in seconds, None for never."""

    key: ReplicaKey
    end_offset: int
    since_fetch: float | None
    since_caught_up: float | None


class Replicas:
    """All of them but the leader itself."""

    def __init__(self, key: ReplicaKey, began_at: float) -> None:
        self._key = key
        self._began_at = began_at
        self._known: dict[ReplicaKey, ReplicaProgress] = {}

    def of(self, key: ReplicaKey) -> ReplicaProgress:
        progress = self._known.get(key)
        if progress is None:
            progress = self._known[key] = ReplicaProgress(self._began_at)
        return progress

    def known(self, key: ReplicaKey) -> ReplicaProgress | None:
        return self._known.get(key)

    def voter(self, voter: Voter) -> ReplicaProgress:
        """Of a voter; one whose directory nobody named is whoever last fetched by its id."""
        if voter.directory_id == NO_DIRECTORY:
            same = [(one.fetched_at or 0.0, key) for key, one in self._known.items() if key.node_id == voter.voter_id]
            if same:
                return self._known[max(same)[1]]
        return self.of(ReplicaKey(voter.voter_id, voter.directory_id))

    def _others(self, voters: VoterSet) -> list[ReplicaProgress]:
        return [self.voter(voter) for voter in voters.voters if not self._is_leader(voter)]

    def _is_leader(self, voter: Voter) -> bool:
        return voter.voter_id == self._key.node_id and voter.directory_id in (NO_DIRECTORY, self._key.directory_id)

    def held_by_majority(self, voters: VoterSet, own_stored: int) -> int:
        """The end offset that a majority of the voters has reached; the leader counts when it votes."""
        offsets = [progress.end_offset for progress in self._others(voters)]
        if voters.has(self._key):
            offsets.append(own_stored)
        offsets.sort(reverse=True)
        return offsets[voters.majority - 1]

    def majority_heard_at(self, voters: VoterSet, now: float) -> float:
        """Since when no majority has been heard of, the leader itself counting as heard now."""
        times = [max(progress.fetched_at or 0.0, self._began_at) for progress in self._others(voters)]
        if voters.has(self._key):
            times.append(now)
        times.sort(reverse=True)
        return times[voters.majority - 1]

    def successors(self, voters: VoterSet) -> tuple[ReplicaKey, ...]:
        """The other voters, those that hold most first."""
        others = [voter for voter in voters.voters if not self._is_leader(voter)]
        others.sort(key=lambda voter: -self.voter(voter).end_offset)
        return tuple(ReplicaKey(voter.voter_id, voter.directory_id) for voter in others)

    def describe_voters(self, voters: VoterSet, own_end: int, now: float) -> list[ReplicaDescription]:
        seen = []
        for voter in voters.voters:
            key = ReplicaKey(voter.voter_id, voter.directory_id)
            if self._is_leader(voter):
                seen.append(ReplicaDescription(key, own_end, 0.0, 0.0))
            else:
                seen.append(_describe(key, self.voter(voter), now))
        return seen

    def describe_observers(self, voters: VoterSet, now: float) -> list[ReplicaDescription]:
        return [
            _describe(key, progress, now)
            for key, progress in sorted(self._known.items())
            if not voters.has(key) and progress.fetched_at is not None and now - progress.fetched_at < OBSERVER_SECONDS
        ]


def _describe(key: ReplicaKey, progress: ReplicaProgress, now: float) -> ReplicaDescription:
    return ReplicaDescription(
        key,
        progress.end_offset,
        None if progress.fetched_at is None else now - progress.fetched_at,
        None if progress.caught_up_at is None else now - progress.caught_up_at,
    )
