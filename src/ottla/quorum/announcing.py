"""What a node is told of its quorum: decisions, snapshots, who leads.

Owns: what was told already, through all lives of the machine. Never knows: why something is so. Invariants: decisions
are told once and in order; that this node leads is told after everything before its epoch, and its end is told as well.
"""

import logging
from collections.abc import Iterable

from ottla.metadata.facts import Fact
from ottla.metadata.quorum_events import QuorumEvents
from ottla.quorum.log import QuorumLog
from ottla.raft.effects import BeginLeading, Effect, LeaderKnown, StopLeading
from ottla.raft.log_view import LogPosition, LogView
from ottla.raft.voters import VoterSet

logger = logging.getLogger("ottla.quorum")


class Announcements:
    """Calls the events of one node."""

    def __init__(self, events: QuorumEvents) -> None:
        self._events = events
        self._voters: VoterSet | None = None
        self.leads = False
        """Whether it was told that this node leads."""

    def leadership(self, effect: Effect) -> None:
        if isinstance(effect, LeaderKnown):
            if effect.leader_id < 0:
                logger.info("the quorum has no leader in epoch %d", effect.epoch)
            else:
                logger.info("the quorum's leader of epoch %d is %d", effect.epoch, effect.leader_id)
            self._events.leader_changed(effect.leader_id, effect.epoch)
        elif isinstance(effect, BeginLeading):
            self.leads = True
            self._events.began_leading(effect.epoch)
        elif isinstance(effect, StopLeading) and self.leads:
            self.leads = False
            self._events.stopped_leading(effect.epoch)

    def out_of_service(self, leader_id: int, epoch: int) -> None:
        """This node cannot lead or follow for now."""
        leading, self.leads = self.leads, False
        if leading:
            self._events.stopped_leading(epoch)
        if leader_id >= 0:
            self._events.leader_changed(-1, epoch)

    def committed(self, high_watermark: int, log: QuorumLog) -> None:
        """Raises UnreadableMetadata; then nothing behind it is told either."""
        for batches in log.tell(high_watermark):
            self._events.committed(batches)

    def voters(self, high_watermark: int, view: LogView) -> None:
        """Once others than those of before are committed."""
        voters, before = view.voters, self._voters
        if voters is before or view.voters_offset >= high_watermark:
            return
        self._voters = voters
        if before is not None and before.ids != voters.ids:
            logger.info("the voters of the quorum are %s now, %s before", _names(voters), _names(before))

    def snapshot(self, position: LogPosition, facts: Iterable[Fact], log: QuorumLog) -> None:
        log.told_snapshot(position)
        self._events.snapshot(facts, position.offset - 1, position.epoch)


def _names(voters: VoterSet) -> str:
    return ", ".join(map(str, voters.ids))
