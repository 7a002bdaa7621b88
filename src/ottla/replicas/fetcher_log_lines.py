"""Log lines about replica fetchers: what one answer of a leader did to the logs that follow it.

Owns: the words, and what is still to be told. Never knows: how logs are truncated, requests. Invariant: what happens to
many partitions in one answer is one line that names the first few; every truncation is told with what it removed.
"""

import logging

from ottla.metadata.log_lines import NAMED, some

logger = logging.getLogger("ottla.broker")


class FetcherLogLines:
    """Of one leader; `tell` when an answer of it is taken."""

    __slots__ = ("_begun", "_leader", "_refused", "_removed", "_truncated", "waiting")

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._clear()

    def _clear(self) -> None:
        self.waiting = False
        """Whether there is something to tell."""
        self._truncated: dict[str, str] = {}
        self._begun: dict[str, str] = {}
        self._refused: dict[str, list[str]] = {}
        self._removed = 0

    def truncated(self, name: object, ends: tuple[int, int], epoch: int, end_offset: int) -> None:
        """A log was truncated, from the first of these ends to the second: there the leader's `epoch` ends."""
        before, after = ends
        self._truncated[str(name)] = (
            f"{name} is truncated from {before} to {after}: epoch {epoch} of its leader, broker {self._leader}, "
            f"ends at {end_offset}"
        )
        self._removed += before - after
        self.waiting = True

    def begun(self, name: object, ends: tuple[int, int], start: int, end: int) -> None:
        """A log that ended where the leader, which has `start` to `end`, could not serve it ends elsewhere now."""
        before, after = ends
        self._begun[str(name)] = (
            f"{name} ended at {before}, its leader, broker {self._leader}, has {start} to {end}: it goes on at {after}"
        )
        self.waiting = True

    def refused(self, name: object, error: str) -> None:
        self._refused.setdefault(error, []).append(str(name))
        self.waiting = True

    def tell(self) -> None:
        truncated, begun, refused, removed = self._truncated, self._begun, self._refused, self._removed
        self._clear()
        if len(truncated) > NAMED:
            logger.info(
                "%d partitions are truncated where they leave the histories of broker %d, by %d records in all: %s",
                len(truncated),
                self._leader,
                removed,
                some(list(truncated)),
            )
        else:
            _tell_each(truncated)
        if len(begun) > NAMED:
            logger.info(
                "%d partitions ended where broker %d has no records, and go on where it has: %s",
                len(begun),
                self._leader,
                some(list(begun)),
            )
        else:
            _tell_each(begun)
        for error, names in refused.items():
            if len(names) > 1:
                logger.warning("broker %d, which leads them, answers %s: %s", self._leader, error, some(names))
            else:
                logger.warning("broker %d, which leads %s, answers %s", self._leader, names[0], error)


def _tell_each(lines: dict[str, str]) -> None:
    for line in lines.values():
        logger.info("%s", line)
