"""Which members stand in a rack with a replica of which partitions (KIP-881).

Owns: `Racks`, what a leader knows of its topics, and `Places`, who is near what in one group. Never knows: how
partitions are shared; each assignor has its own way to use it. Invariants: without racks on both sides, and where every
partition has replicas in the same racks, nobody is far from anything, so that assignors decide as if there were none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ottla.base.vocabulary import TopicPartition

Racks: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""Of each topic's partitions, in order: the racks in which they have replicas."""

NO_RACKS: Racks = {}
_NOWHERE: frozenset[str] = frozenset()


class Places:
    """`members` has the rack of each member that says one."""

    def __init__(self, members: Mapping[str, str | None], counts: Mapping[str, int], racks: Racks) -> None:
        rows = {topic: _rows(racks.get(topic, ()), count) for topic, count in counts.items()}
        self._members = {member_id: rack for member_id, rack in members.items() if rack}
        self._rows = rows
        self._standing = Counter(self._members.values())
        self.matter = _matter(self._members.values(), [each for row in rows.values() for each in row])
        """Whether some choice of owners is better than another."""

    def rack(self, member_id: str) -> str | None:
        return self._members.get(member_id)

    def racks(self, partition: TopicPartition) -> frozenset[str]:
        return self._rows[partition.topic][partition.partition]

    def near(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a replica is in the member's rack; never so for a member that says none."""
        return self._members.get(member_id) in self.racks(partition)

    def choice(self, partition: TopicPartition) -> int:
        """How many members a replica is near to."""
        return sum(self._standing[rack] for rack in self.racks(partition))

    def far(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether another member might be nearer; never so for a member that says no rack."""
        return self.matter and member_id in self._members and not self.near(member_id, partition)


def _rows(racks: Sequence[frozenset[str]], count: int) -> list[frozenset[str]]:
    return [racks[number] if number < len(racks) else _NOWHERE for number in range(count)]


def _matter(members: Iterable[str], partitions: Sequence[frozenset[str]]) -> bool:
    everywhere = _NOWHERE.union(*partitions)
    return not everywhere.isdisjoint(members) and any(racks != everywhere for racks in partitions)
