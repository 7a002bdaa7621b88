"""What those who store facts tell of them: the port that the quorum and ZooKeeper both stand behind.

Owns: the values and the events. Never knows: who stores the facts (`quorum`, or `zookeeper`), or how.
Invariants: events come in order; every node hears the same decisions in the same order.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ottla.metadata.facts import Fact


class UnreadableMetadata(Exception):
    """The stored metadata holds something that this release cannot work with; the message says where and what to do."""


class NotLeader(Exception):
    """This node does not lead, or not yet: nothing was appended."""

    def __init__(self) -> None:
        super().__init__("this node does not lead the controllers now")


class Stored(NamedTuple):
    """Facts that came into being together, and where in the log they end (the offset of the last record)."""

    facts: list[Fact]
    offset: int
    epoch: int


class QuorumEvents(Protocol):
    """Who hears what is committed. Called on the loop, in order."""

    def committed(self, batches: Sequence[Stored]) -> None:
        """Decisions that every node will see; each once."""
        ...

    def snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        """Forget everything: these facts are the state up to and with the record at `offset`."""
        ...

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Somebody leads, or nobody that is known: -1."""
        ...

    def began_leading(self, epoch: int) -> None:
        """This node leads, and everything before its epoch is committed and was told."""
        ...

    def stopped_leading(self, epoch: int) -> None:
        """What was appended and not told as committed may or may not come; another leader decides."""
        ...
