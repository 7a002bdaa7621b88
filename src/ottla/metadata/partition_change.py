"""One partition's next state: what is wanted of it, who leads then, and the fact that says so.

Owns: elections, eligible leader replicas (KIP-966) and the end of a reassignment, all with Kafka's rules. Never knows:
why the partition changes. Invariants: a leader is in sync; a leader outside the old in-sync and eligible replicas is
elected only where `unclean` allows it, or as the last known leader when nobody eligible is left, and such a partition
says that it recovers; no fact where nothing changes.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ottla.metadata.delta import UNCHANGED_LEADER
from ottla.metadata.image import NO_LEADER, PartitionImage
from ottla.wire.stored.metadata import PartitionChangeRecord

MIN_IN_SYNC = "min.insync.replicas"
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"
RECOVERED = 0
RECOVERING = 1


class Rules(NamedTuple):
    """What the settings say of a topic."""

    least_in_sync: int
    """min.insync.replicas; a partition with fewer replicas needs them all."""
    unclean: bool
    """Whether a replica that lacks records may lead when no other can."""
    eligible: bool
    """Whether replicas that left an in-sync set below the least number stay eligible."""


class PartitionChange:
    """What a partition is to become. Set the attributes that change, then ask for the `fact`."""

    def __init__(self, partition: PartitionImage, may_lead: Callable[[int], bool], rules: Rules) -> None:
        self.partition = partition
        self.in_sync: Sequence[int] = partition.in_sync
        self.replicas: Sequence[int] = partition.replicas
        self.adding: Sequence[int] = partition.adding
        self.removing: Sequence[int] = partition.removing
        self.recovering = partition.recovering
        self.directories: dict[int, bytes] = dict(zip(partition.replicas, partition.directories, strict=False))
        self.lost_records: Collection[int] = ()
        """Replicas that may have lost what they had, and so are eligible no longer."""
        self.made_anew: Collection[int] = ()
        """Replicas that have certainly lost what they had: they are not even the last resort."""
        self.prefer_first = False
        """Whether the first replica takes over from a leader that still can lead."""
        self.unclean = rules.unclean
        self.may_lead = may_lead
        self._rules = rules
        self._eligible: Sequence[int] = partition.eligible

    def fact(self, topic_id: bytes, number: int, new_directory: Callable[[int], bytes]) -> PartitionChangeRecord | None:
        """The fact that changes it; `new_directory` says where a replica lies that had no place before."""
        before = self.partition
        self._complete_reassignment()
        self._eligible = self._still_eligible()
        leader, clean = self._elect()
        if not clean:
            self.in_sync = (leader,)
            self._eligible = ()
            self.recovering = True
        elif leader in self._eligible:
            self.in_sync = (leader,)
            self._eligible = self._still_eligible()
        elif leader != NO_LEADER and before.leader == NO_LEADER:
            # Others that were in sync when the last leader went are so again when they have followed this one.
            self.in_sync = [replica for replica in self.in_sync if replica == leader or self.may_lead(replica)]
        elif not self.in_sync and not self._rules.eligible:
            # Without eligible replicas the last in-sync ones keep that name: they alone have everything.
            self.in_sync = [replica for replica in before.in_sync if replica not in self.made_anew]
        # A replica that goes for good must not be believed any more: a new epoch.
        replica_gone = any(replica not in self.replicas for replica in before.replicas)
        fact = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
        if leader != before.leader or replica_gone:
            fact.leader = leader
        changed = fact.leader != UNCHANGED_LEADER
        for name, old, new in (
            ("isr", before.in_sync, self.in_sync),
            ("eligible_leader_replicas", before.eligible, self._eligible),
            ("last_known_elr", before.last_known, self._last_known(leader)),
            ("replicas", before.replicas, self.replicas),
            ("removing_replicas", before.removing, self.removing),
            ("adding_replicas", before.adding, self.adding),
            ("directories", before.directories, self._placed(new_directory)),
        ):
            if tuple(new) != old:
                setattr(fact, name, list(new))
                changed = True
        if self.recovering != before.recovering:
            fact.leader_recovery_state = RECOVERING if self.recovering else RECOVERED
            changed = True
        return fact if changed else None

    def _complete_reassignment(self) -> None:
        """A reassignment is done when every replica that stays is in sync."""
        if not self.adding and not self.removing:
            return
        staying = [replica for replica in self.replicas if replica not in self.removing]
        if staying and all(replica in self.in_sync for replica in staying):
            self.in_sync = [replica for replica in self.in_sync if replica not in self.removing]
            self.replicas = staying
            self.adding = self.removing = ()

    def _still_eligible(self) -> Sequence[int]:
        if not self._rules.eligible or len(self.in_sync) >= min(self._rules.least_in_sync, len(self.replicas)):
            return ()
        # Nothing is acknowledged below the least number, so whoever was in sync then still has all that ever was.
        before = self.partition
        candidates = [*before.eligible, *(replica for replica in before.in_sync if replica not in before.eligible)]
        return [
            replica
            for replica in candidates
            if replica in self.replicas
            and replica not in self.in_sync
            and replica not in self.lost_records
            and replica not in self.made_anew
        ]

    # Who may lead, in which order, and how that is checked: design/0011.
    def _elect(self) -> tuple[int, bool]:
        """The leader, and whether it has every acknowledged record."""
        before = self.partition
        candidates = [before.leader, *self.replicas]
        if self.prefer_first:
            candidates.insert(0, self.replicas[0])
        for replica in candidates:
            if self._has_everything(replica) and self.may_lead(replica):
                return replica, True
        if self._rules.eligible and not self.in_sync and not self._eligible and len(before.last_known) == 1:
            (last,) = before.last_known
            if last in self.replicas and last not in self.made_anew and self.may_lead(last):
                return last, False
        if self.unclean:
            for replica in self.replicas:
                if self.may_lead(replica):
                    return replica, False
        return NO_LEADER, True

    def _has_everything(self, replica: int) -> bool:
        return replica in self.in_sync or (not self.in_sync and replica in self._eligible)

    def _last_known(self, leader: int) -> Sequence[int]:
        before = self.partition
        if leader != NO_LEADER or not self._rules.eligible:
            return ()
        if not self.in_sync and before.leader != NO_LEADER:
            return (before.leader,)
        return tuple(replica for replica in before.last_known if replica not in self.made_anew)

    def _placed(self, new_directory: Callable[[int], bytes]) -> Sequence[bytes]:
        if not self.partition.directories and tuple(self.replicas) == self.partition.replicas and not self.directories:
            return ()
        directories = self.directories
        return [directories[each] if each in directories else new_directory(each) for each in self.replicas]
