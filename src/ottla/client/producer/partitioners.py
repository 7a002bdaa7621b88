"""Which partition a record goes to.

Owns: Kafka's choices, and the shape of a user's own. Never knows: batches, requests, time.
Invariants: the partition of a key is the Java client's; a choice is one of the partitions offered.

What a partitioner is: an object with `partition(topic, key, value, partitions, available)`, a function of the same
arguments, a class of such objects, or one of the words in `WORDS`. Without one, keys are hashed and records without
key stick to a partition until a batch of it is full (`Sticky`).
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.base.ports import Random
from ottla.client.partitioner import partition_for_key


class Partitioner(Protocol):
    """Chooses a partition for each record that names none."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        """One of `range(partitions)`; those in `available` have a leader."""
        ...


class RoundRobin:
    """Each record to the next partition that has a leader, whatever its key."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return available[turn % len(available)]


class Chance:
    """Each record to any partition that has a leader, whatever its key."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        return available[draw(self._random, len(available))]


class KeyOrChance:
    """Keys by their hash, the rest by chance: what librdkafka calls murmur2_random."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        if key is not None:
            return partition_for_key(key, partitions)
        return available[draw(self._random, len(available))]


def draw(random: Random, count: int) -> int:
    """One of `range(count)`."""
    return min(int(random.uniform(0, count)), count - 1)


def weighted(random: Random, weights: Sequence[int]) -> int:
    """The index of one of some weights, as often as it weighs."""
    drawn = random.uniform(0, sum(weights))
    for index, weight in enumerate(weights):
        drawn -= weight
        if drawn < 0:
            return index
    return len(weights) - 1
