"""Log lines about replica fetchers: what one answer of a leader did to the logs that follow it.

Owns: the words, and what is still to be told. Never knows: how logs are cut, requests. Invariant: what happens to many
partitions in one answer is one sentence that names the first few; every cut is told with what it removed.
"""

import logging

from ottla.metadata.log_lines import NAMED, some

logger = logging.getLogger("ottla.broker")


class FetcherLogLines:
    """Of one leader; `tell` when an answer of it is taken."""

    __slots__ = ("_begun", "_cut", "_leader", "_refused", "_removed", "waiting")

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._clear()

    def _clear(self) -> None:
        self.waiting = False
        """Whether there is something to tell."""
        self._cut: dict[str, str] = {}
        self._begun: dict[str, str] = {}
        self._refused: dict[str, list[str]] = {}
        self._removed = 0

    def cut(self, name: object, ends: tuple[int, int], epoch: int, end_offset: int) -> None:
        """A log was cut, from the first of these ends to the second: the leader's records of `epoch` end there."""
        before, after = ends
        self._cut[str(name)] = (
            f"{name} is cut from {before} to {after}: epoch {epoch} of its leader, broker {self._leader}, ends at "
            f"{end_offset}"
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
        cut, begun, refused, removed = self._cut, self._begun, self._refused, self._removed
        self._clear()
        if len(cut) > NAMED:
            logger.info(
                "%d partitions are cut where they leave the histories of broker %d, by %d records in all: %s",
                len(cut),
                self._leader,
                removed,
                some(list(cut)),
            )
        else:
            _tell_each(cut)
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


def _tell_each(sentences: dict[str, str]) -> None:
    for sentence in sentences.values():
        logger.info("%s", sentence)
