"""What a follower does with its log so that it becomes its leader's.

Owns: where a log that left its leader's history is truncated, where one that its leader cannot serve begins again, and
the states of a partition that is fetched. Never knows: requests, tasks, files (it is handed a log in its own words).
Invariants: nothing is truncated that both histories share; the watermark of a follower never moves back and never
passes its end.
"""

from enum import Enum
from typing import Protocol


class History(Protocol):
    """A log, as far as this module must know it."""

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) of the largest epoch up to this one; None when it cannot be told."""
        ...

    def truncate_to(self, offset: int) -> bool: ...

    def truncate_fully_and_start_at(self, offset: int) -> None: ...


class FetchState(Enum):
    """The state of a partition that is fetched from its leader."""

    FETCHING = "fetching"
    DELAYED = "delayed"
    """It is left out for a moment after an error."""
    FAILED = "failed"
    """Its log cannot be written; only a new role or another disk helps."""


def truncate_before_following(log: History, latest_epoch: int) -> None:
    """A log that knows no epochs cannot be compared with the leader's: only what is committed in it is kept."""
    if latest_epoch < 0:
        log.truncate_to(log.high_watermark)


def truncate_where_histories_part(log: History, epoch: int, end_offset: int) -> None:
    """The leader says that its records up to the follower's last `epoch` end at `end_offset`: truncate to there.

    When this log does not know that epoch, it goes back to the end of the one before, and the next fetch compares
    again.
    """
    known = log.end_offset_for_epoch(epoch)
    if known is None:
        log.truncate_to(min(end_offset, log.end_offset))
    elif known[0] != epoch:
        log.truncate_to(min(known[1], log.end_offset))
    else:
        log.truncate_to(min(known[1], end_offset, log.end_offset))


def start_within(log: History, leader_start: int, leader_end: int) -> None:
    """The leader has nothing at this log's end: go back to the leader's end, or begin anew at its start."""
    if leader_end < log.end_offset:
        log.truncate_to(leader_end)
    elif leader_start > log.end_offset:
        log.truncate_fully_and_start_at(leader_start)


def follow_watermark(log: History, leader_watermark: int) -> bool:
    """Take over the leader's watermark as far as this log reaches; says whether it moved."""
    offset = min(leader_watermark, log.end_offset)
    if offset <= log.high_watermark:
        return False
    log.high_watermark = offset
    return True
