"""Partitions change hands so that more of them are read near a replica, and nobody has more to do than before.

Owns: the search for an exchange in a group whose members subscribe to different topics. Never knows: who had what
before. Invariants: each step gives one partition to a member near it, takes nothing near from anybody without a
replacement, and leaves the loads as even as they were or makes them more even; so it ends.
"""

from collections.abc import Mapping

from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.racks import Places


class Exchange:
    """`assigned` is changed in place."""

    def __init__(
        self, topics: Mapping[str, frozenset[str]], assigned: Mapping[str, list[TopicPartition]], places: Places
    ) -> None:
        self._topics = topics
        self._assigned = assigned
        self._places = places

    def run(self) -> None:
        while sum(self._improve(member_id) for member_id in sorted(self._assigned)):
            pass

    def _improve(self, member_id: str) -> bool:
        improved = False
        # One of a kind that found no home speaks for the others.
        hopeless: set[tuple[str, frozenset[str]]] = set()
        for partition in sorted(self._assigned[member_id]):
            kind = partition.topic, self._places.racks(partition)
            if kind in hopeless or self._places.near(member_id, partition):
                continue
            if self._find_home(member_id, partition):
                improved = True
            else:
                hopeless.add(kind)
        for mine in self._assigned.values():
            mine.sort()
        return improved

    def _find_home(self, member_id: str, partition: TopicPartition) -> bool:
        mine = self._assigned[member_id]
        takers = [
            other
            for other, topics in self._topics.items()
            if partition.topic in topics and self._places.near(other, partition)
        ]
        for taker in sorted(takers, key=lambda one: (len(self._assigned[one]), one)):
            theirs = self._assigned[taker]
            if len(theirs) >= len(mine):
                swapped = next((each for each in theirs if self._suits(member_id, taker, each)), None)
                if swapped is None:
                    continue
                theirs.remove(swapped)
                mine.append(swapped)
            mine.remove(partition)
            theirs.append(partition)
            return True
        return False

    def _suits(self, member_id: str, taker: str, partition: TopicPartition) -> bool:
        """Whether a member could have this instead without anything near being lost."""
        wanted = partition.topic in self._topics[member_id]
        return wanted and (not self._places.near(taker, partition) or self._places.near(member_id, partition))
