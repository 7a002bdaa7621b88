"""What the leader of a partition knows of its followers, and what follows from it.

Owns: the progress of each follower, the in-sync set (as the controller committed it, and as large as it may be while a
change is under way) and the high watermark. Never knows: logs, requests, the controller, the time of day (it is handed
seconds that never go back).
Invariants: the watermark passes no offset that a member of the largest possible in-sync set lacks, nor any while the
committed set is smaller than it must be; at most one change of the set is under way, and it names the lives of the
brokers that were seen; what a follower reached is forgotten when the leader's epoch changes.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

NEVER = float("-inf")
UNKNOWN = -1


class FollowerProgress:
    """How far one follower is, as its fetches tell."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "fetched_at", "leader_end_then", "start_offset")

    def __init__(self, caught_up_at: float) -> None:
        self.end_offset = UNKNOWN
        self.start_offset = UNKNOWN
        self.broker_epoch = -1
        self.caught_up_at = caught_up_at
        self.fetched_at = NEVER
        self.leader_end_then = UNKNOWN

    def caught_up(self, leader_end: int, now: float, lag_seconds: float) -> bool:
        """Whether it has all, or had all not long ago."""
        return self.end_offset == leader_end or now - self.caught_up_at <= lag_seconds


class Proposal(NamedTuple):
    """A change of the in-sync set that the controller is asked for, as true as it was when it was made."""

    in_sync: tuple[int, ...]
    partition_epoch: int
    broker_epochs: tuple[int, ...]
    """The lives of those brokers that were seen; -1 for this node, and for one that is in sync and was not heard yet.
    A broker that begins another life later is not meant: its log may be another one too."""
    joins_at: int = UNKNOWN
    """Where the log of the one that joins ended."""


class Leading:
    """One partition that is led here and has other replicas."""

    __slots__ = (
        "_end_offset",
        "_node_id",
        "_replicas",
        "epoch_start",
        "followers",
        "in_sync",
        "maximal",
        "partition_epoch",
        "pending",
    )

    def __init__(self, node_id: int, epoch_start: int) -> None:
        self._node_id = node_id
        self._replicas: tuple[int, ...] = ()
        self._end_offset = epoch_start
        self.epoch_start = epoch_start
        """The end of the log when this node began to lead: who has less may miss what was committed before."""
        self.followers: dict[int, FollowerProgress] = {}
        self.in_sync: tuple[int, ...] = ()
        self.maximal: frozenset[int] = frozenset()
        """Every replica that the controller may count as in sync, whatever becomes of the change under way."""
        self.partition_epoch = -1
        self.pending: Proposal | None = None

    # --- what the controller says ---

    def assign(self, replicas: Sequence[int], in_sync: Sequence[int], partition_epoch: int, now: float) -> None:
        """The committed state; a change that was under way is either part of it or was refused."""
        if partition_epoch < self.partition_epoch:
            return
        followers = self.followers
        for replica in replicas:
            if replica != self._node_id and replica not in followers:
                # One that is in sync gets the whole time to show itself to a new leader.
                followers[replica] = FollowerProgress(now if replica in in_sync else NEVER)
        for replica in followers.keys() - set(replicas):
            del followers[replica]
        self._replicas = tuple(replicas)
        self.in_sync = tuple(in_sync)
        self.maximal = frozenset(in_sync)
        self.partition_epoch = partition_epoch
        self.pending = None

    # --- what the log says ---

    # Followers of an idle partition stay in sync without being visited: design/0010.
    def grew(self, end_offset: int, now: float) -> None:
        """The leader's log ends at `end_offset` now: who had all until then was caught up until now."""
        before = self._end_offset
        for progress in self.followers.values():
            if progress.end_offset >= before:
                progress.caught_up_at = now
        self._end_offset = end_offset

    # --- what followers say ---

    def fetched(
        self, follower: int, end_offset: int, start_offset: int, broker_epoch: int, leader_end: int, now: float
    ) -> bool:
        """A follower asks for what comes at `end_offset`, so it has all before; False for one that is not to be heard:
        no replica of this partition, or the life of a broker that has begun another since."""
        progress = self.followers.get(follower)
        if progress is None or -1 < broker_epoch < progress.broker_epoch:
            return False
        if end_offset >= leader_end:
            progress.caught_up_at = now
        elif end_offset >= progress.leader_end_then and progress.fetched_at > progress.caught_up_at:
            progress.caught_up_at = progress.fetched_at
        progress.end_offset = end_offset
        progress.start_offset = start_offset
        progress.broker_epoch = broker_epoch
        progress.fetched_at = now
        progress.leader_end_then = leader_end
        return True

    # --- the high watermark ---

    def watermark(self, leader_end: int, may_join: Callable[[int], bool], now: float, lag_seconds: float) -> int:
        """Up to here every replica has the records that counts, or is about to count; the caller sees to it that the
        watermark does not move back."""
        lowest = leader_end
        maximal = self.maximal
        for replica, progress in self.followers.items():
            end_offset = progress.end_offset
            if end_offset < lowest and (
                replica in maximal or (progress.caught_up(leader_end, now, lag_seconds) and may_join(replica))
            ):
                lowest = end_offset
        return lowest

    def low_watermark(self, start_offset: int, alive: Callable[[int], bool]) -> int:
        """The lowest start of the logs of all living replicas; `start_offset` is the leader's."""
        return min([start_offset, *(each.start_offset for replica, each in self.followers.items() if alive(replica))])

    # --- changes of the in-sync set ---

    def joining(self, follower: int, high_watermark: int) -> Proposal | None:
        """The change that takes in a follower that has all it must have."""
        if self.pending is not None or follower in self.in_sync:
            return None
        progress = self.followers.get(follower)
        if progress is None or progress.end_offset < max(high_watermark, self.epoch_start):
            return None
        return self._propose({*self.in_sync, follower}, progress.end_offset)

    def leaving(self, leader_end: int, now: float, lag_seconds: float) -> Proposal | None:
        """The change that lets those go that have not caught up for too long."""
        if self.pending is not None:
            return None
        gone = {
            replica
            for replica in self.in_sync
            if replica != self._node_id and not self.followers[replica].caught_up(leader_end, now, lag_seconds)
        }
        return self._propose(set(self.in_sync) - gone) if gone else None

    def recovered(self) -> Proposal | None:
        """The unchanged set, to tell that a leader elected uncleanly has seen to its log."""
        return self._propose(self.in_sync) if self.pending is None else None

    def _propose(self, in_sync: Collection[int], joins_at: int = UNKNOWN) -> Proposal:
        ordered = tuple(replica for replica in self._replicas if replica in in_sync)
        self.pending = Proposal(ordered, self.partition_epoch, tuple(map(self._life_of, ordered)), joins_at)
        self.maximal = frozenset(self.in_sync) | frozenset(ordered)
        return self.pending

    def _life_of(self, replica: int) -> int:
        progress = self.followers.get(replica)
        return -1 if progress is None else progress.broker_epoch

    def holds(self, proposal: Proposal) -> bool:
        """Whether who is to join is still the one that was seen, and has no less than it had then."""
        for replica, broker_epoch in zip(proposal.in_sync, proposal.broker_epochs, strict=True):
            if replica == self._node_id or replica in self.in_sync:
                continue
            progress = self.followers.get(replica)
            if progress is None or progress.broker_epoch != broker_epoch or progress.end_offset < proposal.joins_at:
                return False
        return True

    def refused(self, proposal: Proposal) -> None:
        """The controller said certainly no, or was never asked: the committed set counts again."""
        if self.pending is proposal:
            self.pending = None
            self.maximal = frozenset(self.in_sync)
