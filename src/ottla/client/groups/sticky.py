"""The sticky assignors: as even as can be, and with that as little moved as can be.

Owns: `sticky`, which lets every member remember what it had and says so to the leader, and `cooperative-sticky`, whose
members keep what they have during a rebalance. Never knows: the protocol around them.

Where all members subscribe to the same topics the result equals that of Kafka's Java assignors, except which of several
equal members keeps one partition more (there the order of a hash table decides, here the order of names). Where
subscriptions differ the server's `uniform` does the work. Invariants: member's loads differ by one at most where
subscriptions are equal; nobody who has no more than their share loses anything.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError

from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.assignors import Assigned, Assignor, GroupMember, by_topic, flat
from ottla.client.groups.vocabulary import NO_GENERATION
from ottla.groups.assignors import Candidate, uniform_assignor
from ottla.groups.embedded import BadFormat, Remembered, read_remembered, write_remembered

_GENERATION = Struct(">i")


class StickyAssignor(Assignor):
    """Everybody gives up everything in a rebalance, and gets most of it back."""

    name = "sticky"

    def __init__(self) -> None:
        self._had: frozenset[TopicPartition] | None = None
        self._generation = NO_GENERATION

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        return None if self._had is None else write_remembered(Remembered(by_topic(self._had), self._generation))

    def assigned(self, partitions: frozenset[TopicPartition], generation: int) -> None:
        self._had = partitions
        self._generation = generation

    def assign(self, members: Sequence[GroupMember], counts: Mapping[str, int]) -> Assigned:
        return stick([_remembering(member) for member in members], counts)


class CooperativeStickyAssignor(Assignor):
    """What moves is first taken from its owner, and given to the next in a rebalance of its own."""

    name = "cooperative-sticky"
    cooperative = True

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        return _GENERATION.pack(self._generation)

    def assigned(self, partitions: frozenset[TopicPartition], generation: int) -> None:
        self._generation = generation

    def assign(self, members: Sequence[GroupMember], counts: Mapping[str, int]) -> Assigned:
        members = [_dated(member) for member in members]
        result = stick(members, counts)
        held = frozenset[TopicPartition]().union(*(member.owned for member in members))
        claims = _undisputed(members, counts)
        for member_id, partitions in result.items():
            mine = claims[member_id]
            partitions[:] = [partition for partition in partitions if partition not in held or partition in mine]
        return result


def stick(members: Sequence[GroupMember], counts: Mapping[str, int]) -> Assigned:
    """Who gets what, by member id."""
    owned = _undisputed(members, counts)
    first = members[0].topics
    if all(member.topics == first for member in members):
        return _evenly(owned, {topic: counts[topic] for topic in first if topic in counts})
    candidates = [
        Candidate(
            member.member_id,
            member.instance_id,
            frozenset(topic.encode() for topic in member.topics if topic in counts),
            {topic.encode(): frozenset(numbers) for topic, numbers in by_topic(owned[member.member_id]).items()},
        )
        for member in members
    ]
    result = uniform_assignor(candidates, {topic.encode(): count for topic, count in counts.items()})
    return {
        member_id: sorted(flat({topic.decode(): sorted(numbers) for topic, numbers in given.items()}))
        for member_id, given in result.items()
    }


def _undisputed(members: Sequence[GroupMember], counts: Mapping[str, int]) -> dict[str, set[TopicPartition]]:
    """What each member may claim: the newest claim on a partition counts, and none where two are equally new."""
    newest: dict[TopicPartition, tuple[int, str]] = {}
    for member in sorted(members, key=lambda one: one.member_id):
        for partition in member.owned:
            if partition.partition < counts.get(partition.topic, 0) and partition.topic in member.topics:
                generation, _ = newest.get(partition, (-2, ""))
                if member.generation > generation:
                    newest[partition] = member.generation, member.member_id
                elif member.generation == generation:
                    newest[partition] = generation, ""
    claims: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    for partition, (_, member_id) in newest.items():
        if member_id:
            claims[member_id].add(partition)
    return claims


def _evenly(owned: Mapping[str, set[TopicPartition]], counts: Mapping[str, int]) -> Assigned:
    """Everybody keeps their share; what is left goes round among those who miss some, then to make up the remainder."""
    quota, larger = divmod(sum(counts.values()), len(owned))
    result: Assigned = {}
    missing: list[str] = []
    exact: list[str] = []
    for member_id in sorted(owned, key=lambda one: (-min(len(owned[one]), quota + 1), one)):
        mine = sorted(owned[member_id], key=lambda one: (one.partition, one.topic))
        if len(mine) > quota and larger > 0:
            larger -= 1
            result[member_id] = mine[: quota + 1]
            continue
        result[member_id] = mine[:quota]
        (missing if len(mine) < quota else exact).append(member_id)
    kept = {partition for mine in result.values() for partition in mine}
    left = [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]
    missing.sort()
    exact.sort()
    place = 0
    for partition in left:
        if partition in kept:
            continue
        if not missing:
            result[exact.pop(0)].append(partition)
            continue
        place %= len(missing)
        mine = result[missing[place]]
        mine.append(partition)
        if len(mine) == quota:
            exact.append(missing.pop(place))
        else:
            place += 1
    return result


def _remembering(member: GroupMember) -> GroupMember:
    """With what it says it had; all was given up before, so nothing else counts."""
    if not member.user_data:
        return member._replace(owned=frozenset(), generation=NO_GENERATION)
    try:
        remembered = read_remembered(member.user_data)
    except BadFormat:
        return member._replace(owned=frozenset(), generation=NO_GENERATION)
    return member._replace(owned=flat(remembered.partitions), generation=remembered.generation)


def _dated(member: GroupMember) -> GroupMember:
    """Consumers older than the subscription's generation field say it in the assignor's own data."""
    if member.generation >= 0 or not member.user_data:
        return member
    try:
        (generation,) = _GENERATION.unpack_from(member.user_data)
    except StructError:
        return member
    return member._replace(generation=generation)
