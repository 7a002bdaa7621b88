"""The sticky assignors: as even as can be, and with that as little moved as can be.

Owns: `sticky`, which lets every member remember what it had and says so to the leader, and `cooperative-sticky`, whose
members keep what they have during a rebalance. Never knows: the protocol around them.

Where all members subscribe to the same topics the result equals that of Kafka's Java assignors, except which of several
equal members keeps one partition more (there the order of a hash table decides, here the order of names), and that a
partition which nobody can have nearer goes back to whoever had it. Where subscriptions differ the server's `uniform`
does the work, and partitions are then exchanged for nearer ones. Invariants: members' loads differ by one at most where
subscriptions are equal, and racks never make them less even; nobody who has no more than their share loses anything but
to a member in a rack with a replica.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError

from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.assignors import Assigned, Assignor, GroupMember, by_topic, flat
from ottla.client.groups.exchange import Exchange
from ottla.client.groups.racks import NO_RACKS, Places, Racks
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
        return self.assign_near(members, counts, NO_RACKS)

    def assign_near(self, members: Sequence[GroupMember], counts: Mapping[str, int], racks: Racks) -> Assigned:
        return stick([_remembering(member) for member in members], counts, racks)


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
        return self.assign_near(members, counts, NO_RACKS)

    def assign_near(self, members: Sequence[GroupMember], counts: Mapping[str, int], racks: Racks) -> Assigned:
        members = [_dated(member) for member in members]
        result = stick(members, counts, racks)
        held = frozenset[TopicPartition]().union(*(member.owned for member in members))
        claims = _undisputed(members, counts)
        for member_id, partitions in result.items():
            mine = claims[member_id]
            partitions[:] = [partition for partition in partitions if partition not in held or partition in mine]
        return result


def stick(members: Sequence[GroupMember], counts: Mapping[str, int], racks: Racks) -> Assigned:
    """Who gets what, by member id."""
    owned = _undisputed(members, counts)
    wanted = frozenset[str]().union(*(member.topics for member in members))
    counts = {topic: count for topic, count in counts.items() if topic in wanted}
    places = Places({member.member_id: member.rack for member in members}, counts, racks)
    if all(member.topics == wanted for member in members):
        return _Shares(owned, sum(counts.values()), places).all_of(counts)
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
    assigned = {
        member_id: sorted(flat({topic.decode(): sorted(numbers) for topic, numbers in given.items()}))
        for member_id, given in result.items()
    }
    if places.matter:
        Exchange({member.member_id: member.topics for member in members}, assigned, places).run()
    return assigned


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


class _Shares:
    """Members that all want the same: everybody keeps their share, and what is left goes round."""

    def __init__(self, owned: Mapping[str, set[TopicPartition]], total: int, places: Places) -> None:
        self._quota, self._larger = divmod(total, len(owned))
        """`_larger`: how many members may yet have one more than the quota."""
        self._places = places
        self._result: Assigned = {}
        self._missing: list[str] = []
        """Members with less than the quota."""
        self._exact: list[str] = []
        """Members with the quota, who may get one more while some may."""
        self._owners: dict[TopicPartition, str] = {}
        near = {one: [each for each in mine if not places.far(one, each)] for one, mine in owned.items()}
        for member_id in sorted(near, key=lambda one: (-min(len(near[one]), self._quota + 1), one)):
            self._keep(member_id, sorted(near[member_id], key=lambda one: (one.partition, one.topic)))
            self._owners.update(dict.fromkeys(owned[member_id], member_id))
        self._missing.sort()
        self._exact.sort()

    def _keep(self, member_id: str, mine: list[TopicPartition]) -> None:
        if len(mine) > self._quota and self._larger > 0:
            self._larger -= 1
            self._result[member_id] = mine[: self._quota + 1]
            return
        self._result[member_id] = mine[: self._quota]
        (self._missing if len(mine) < self._quota else self._exact).append(member_id)

    def all_of(self, counts: Mapping[str, int]) -> Assigned:
        kept = {partition for mine in self._result.values() for partition in mine}
        left = [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]
        left = [partition for partition in left if partition not in kept]
        if self._places.matter:
            # Those that few members are near to choose first.
            left = self._go_near(sorted(left, key=self._places.choice))
            left = [partition for partition in left if not self._goes_back(partition)]
        self._go_round(left)
        return self._result

    def _go_near(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Round among those who are near; what nobody near has room for is left."""
        left = []
        turn = 0
        for partition in partitions:
            place = self._next_near(partition, self._missing, turn)
            if place is not None:
                turn = place + (not self._give(partition, self._missing[place]))
                continue
            place = self._next_near(partition, self._exact, 0) if self._larger > 0 else None
            if place is None:
                left.append(partition)
            else:
                self._give(partition, self._exact[place])
        return left

    def _next_near(self, partition: TopicPartition, members: Sequence[str], turn: int) -> int | None:
        for step in range(len(members)):
            place = (turn + step) % len(members)
            if self._places.near(members[place], partition):
                return place
        return None

    def _goes_back(self, partition: TopicPartition) -> bool:
        owner = self._owners.get(partition)
        if owner is not None and (owner in self._missing or (self._larger > 0 and owner in self._exact)):
            self._give(partition, owner)
            return True
        return False

    def _go_round(self, partitions: Sequence[TopicPartition]) -> None:
        turn = 0
        for partition in partitions:
            if not self._missing:
                self._give(partition, self._exact[0])
                continue
            turn %= len(self._missing)
            turn += not self._give(partition, self._missing[turn])

    def _give(self, partition: TopicPartition, member_id: str) -> bool:
        """Whether the member has moved on among those with more."""
        mine = self._result[member_id]
        mine.append(partition)
        if len(mine) < self._quota:
            return False
        if len(mine) == self._quota:
            self._missing.remove(member_id)
            self._exact.append(member_id)
        else:
            self._exact.remove(member_id)
            self._larger -= 1
        return True


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
