"""Assignors of the classic protocol: the leader of a group decides with one of them who reads what.

Owns: the face of an assignor, `range` and `roundrobin`, and the names under which settings know them; the two sticky
ones are in `client.groups.sticky`. Never knows: how the decision reaches the members. Results equal those of Kafka's
Java assignors without racks. Invariants: every partition of a topic that a member subscribes to goes to exactly one of
its subscribers; the same input gives the same output.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ottla.base.vocabulary import TopicPartition

Assigned: TypeAlias = dict[str, list[TopicPartition]]


class GroupMember(NamedTuple):
    """A member as it introduced itself to the leader."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: frozenset[TopicPartition] = frozenset()
    """What it holds, where it did not have to give everything up before."""
    generation: int = -1
    rack: str | None = None
    user_data: bytes | None = None


class Assignor(ABC):
    """The base of all assignors; a custom one gives a name and `assign`, and the rest where it has use for it."""

    name: str
    cooperative = False
    """Whether members keep what they have during a rebalance. Then what moves is given to nobody in the round that
    takes it away, and to its new owner in the next."""

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """What this member lets the leader know."""
        return None

    @abstractmethod
    def assign(self, members: Sequence[GroupMember], counts: Mapping[str, int]) -> Mapping[str, list[TopicPartition]]:
        """Partitions by member id. `counts` has the number of partitions of every topic that exists."""

    def assigned(self, partitions: frozenset[TopicPartition], generation: int) -> None:  # noqa: B027 - most need not know
        """This member got these."""


class RangeAssignor(Assignor):
    """Of every topic a range of neighbouring partitions, so that equal keys of topics alike meet in one member."""

    name = "range"

    def assign(self, members: Sequence[GroupMember], counts: Mapping[str, int]) -> Assigned:
        result: Assigned = {member.member_id: [] for member in members}
        ordered = in_order(members)
        for topic in sorted(counts):
            subscribers = [member for member in ordered if topic in member.topics]
            if not subscribers:
                continue
            quota, extra = divmod(counts[topic], len(subscribers))
            start = 0
            for place, member in enumerate(subscribers):
                end = start + quota + (place < extra)
                result[member.member_id] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return result


class RoundRobinAssignor(Assignor):
    """All partitions of all topics, one after the other to the next member that wants it."""

    name = "roundrobin"

    def assign(self, members: Sequence[GroupMember], counts: Mapping[str, int]) -> Assigned:
        result: Assigned = {member.member_id: [] for member in members}
        ordered = in_order(members)
        wanted = frozenset[str]().union(*(member.topics for member in members))
        turn = 0
        for topic in sorted(wanted & counts.keys()):
            for number in range(counts[topic]):
                while topic not in ordered[turn % len(ordered)].topics:
                    turn += 1
                result[ordered[turn % len(ordered)].member_id].append(TopicPartition(topic, number))
                turn += 1
        return result


def in_order(members: Sequence[GroupMember]) -> list[GroupMember]:
    """Static members first, by their lasting names, so that a restart with a new member id moves nothing."""
    return sorted(members, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id, one.member_id))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def flat(partitions: Mapping[str, Sequence[int]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers)
