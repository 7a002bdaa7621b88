"""Which partition a record goes to.

Owns: the partition of a key, equal to the Java client's so that every client puts a key into the same one, and the
choices for records without key. Never knows: records, leaders, time.
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.base.ports import Random
from ottla.records.codec import murmur2

_POSITIVE = 0x7FFFFFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key among so many."""
    return (murmur2(key) & _POSITIVE) % partitions


class KeylessChoice(Protocol):
    """Chooses for records without key, among the partitions of one topic that have a leader."""

    def choose(self, topic: str, available: Sequence[int]) -> int: ...

    def batch_left(self, topic: str, partition: int) -> None:
        """A batch of this partition is on its way; the next record begins a new one."""
        ...


class Sticky:
    """One partition until its batch leaves, then another at random: fewer and larger batches."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._current: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        current = self._current.get(topic)
        if current is None or current not in available:
            drawn = int(self._random.uniform(0, len(available)))
            current = self._current[topic] = available[min(drawn, len(available) - 1)]
        return current

    def batch_left(self, topic: str, partition: int) -> None:
        if self._current.get(topic) == partition:
            del self._current[topic]


class RoundRobin:
    """Each record to the next partition."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return available[turn % len(available)]

    def batch_left(self, topic: str, partition: int) -> None:
        """Nothing to do: the next record goes elsewhere anyway."""
