"""Assignors of the classic protocol: the leader of a group decides with one of them who reads what.

Owns: the face of an assignor, `range` and `roundrobin`, and the names under which settings know them; the two sticky
ones are in `client.groups.sticky`. Never knows: how the decision reaches the members. Results equal those of Kafka's
Java assignors. Invariants: every partition of a topic that a member subscribes to goes to exactly one of its
subscribers; racks never make shares less even; the same input gives the same output.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.racks import NO_RACKS, Places, Racks

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

    def assign_near(
        self, members: Sequence[GroupMember], counts: Mapping[str, int], racks: Racks
    ) -> Mapping[str, list[TopicPartition]]:
        """As `assign`, which is all that an assignor needs that has no use for the racks of replicas."""
        return self.assign(members, counts)

    def assigned(self, partitions: frozenset[TopicPartition], generation: int) -> None:  # noqa: B027 - most need not know
        """This member got these."""


class RangeAssignor(Assignor):
    """Of every topic a range of neighbouring partitions, so that equal keys of topics alike meet in one member.

    Where racks matter a member's partitions are first those with a replica near it. Topics with as many partitions and
    the same subscribers stay alike: a partition number goes to a member that is near it in all of them, or by range.
    """

    name = "range"

    def assign(self, members: Sequence[GroupMember], counts: Mapping[str, int]) -> Assigned:
        return self.assign_near(members, counts, NO_RACKS)

    def assign_near(self, members: Sequence[GroupMember], counts: Mapping[str, int], racks: Racks) -> Assigned:
        ordered = in_order(members)
        topics = [_RangedTopic(topic, count, ordered, racks) for topic, count in sorted(counts.items())]
        if any(topic.places.matter for topic in topics):
            alike: dict[tuple[tuple[str, ...], int], list[_RangedTopic]] = {}
            for topic in topics:
                alike.setdefault((tuple(topic.shares), len(topic.free)), []).append(topic)
            for group in alike.values():
                _match(group)
        for topic in topics:
            for member_id in topic.shares:
                topic.give(member_id, list(islice(topic.free, topic.room(member_id))))
        return {
            member.member_id: [
                TopicPartition(topic.name, number)
                for topic in topics
                for number in sorted(topic.shares.get(member.member_id, ()))
            ]
            for member in members
        }


class _RangedTopic:
    """One topic, its subscribers in their order, and what each of them got of it."""

    def __init__(self, name: str, count: int, ordered: Sequence[GroupMember], racks: Racks) -> None:
        subscribers = [member for member in ordered if name in member.topics]
        self.name = name
        self.free = dict.fromkeys(range(count))
        self.shares: dict[str, list[int]] = {member.member_id: [] for member in subscribers}
        self.places = Places({member.member_id: member.rack for member in subscribers}, {name: count}, racks)
        self._quota, self._larger = divmod(count, max(1, len(subscribers)))

    def room(self, member_id: str) -> int:
        """How many more it may get; some may have one more than others."""
        return max(0, self._quota + (self._larger > 0) - len(self.shares[member_id]))

    def give(self, member_id: str, numbers: Sequence[int]) -> None:
        share = self.shares[member_id]
        share += numbers
        if numbers and len(share) > self._quota:
            self._larger -= 1
        for number in numbers:
            del self.free[number]

    def suits(self, member_id: str, number: int) -> bool:
        """A member that says no rack is as well off with one partition as with another."""
        return self.places.rack(member_id) is None or self.places.near(member_id, TopicPartition(self.name, number))


def _match(alike: Sequence[_RangedTopic]) -> None:
    """Give to members what is near them, of a topic, or of several that have to stay alike."""
    first = alike[0]
    if not any(first.places.rack(member_id) for member_id in first.shares):
        return
    if len(alike) > 1:
        for number in range(len(first.free)):
            for member_id in first.shares:
                if first.room(member_id) and all(topic.suits(member_id, number) for topic in alike):
                    for topic in alike:
                        topic.give(member_id, [number])
                    break
    elif first.places.matter:
        for member_id in first.shares:
            suiting = [number for number in first.free if first.suits(member_id, number)]
            first.give(member_id, suiting[: first.room(member_id)])


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
