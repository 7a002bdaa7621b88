"""Which replicas to move so that every broker carries its share.

Owns: the plan. Never knows: requests, who carries it out. A pure function of what the cluster tells: the same input
gives the same plan. Invariants: no partition gets fewer replicas or stands in fewer racks than before; a replica moves
only where that evens the number of replicas out, a small one before a large one; leadership moves only among the
replicas a partition then has, and costs no copying.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


class BalancePlan(NamedTuple):
    """The partitions whose replicas change, before and after; the first replica is the one that should lead."""

    before: Mapping[TopicPartition, tuple[int, ...]]
    after: Mapping[TopicPartition, tuple[int, ...]]

    def copies(self) -> Iterator[tuple[TopicPartition, int]]:
        """The replicas that have to be copied: which partition, to which broker."""
        for partition, replicas in self.after.items():
            for broker in replicas:
                if broker not in self.before[partition]:
                    yield partition, broker


class Load(NamedTuple):
    """What a broker carries."""

    replicas: int
    leaders: int


def load(assignment: Mapping[TopicPartition, Sequence[int]], brokers: Iterable[int]) -> dict[int, Load]:
    """What every broker carries when each partition is led by its first replica."""
    replicas = Counter(broker for each in assignment.values() for broker in each)
    leaders = Counter(each[0] for each in assignment.values() if each)
    return {broker: Load(replicas[broker], leaders[broker]) for broker in brokers}


def plan(
    assignment: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
) -> BalancePlan:
    """An even distribution over the brokers of `racks`; replicas on other brokers stay where they are."""
    before = {partition: tuple(replicas) for partition, replicas in sorted(assignment.items())}
    after = dict(before)
    _spread_replicas(after, racks, sizes)
    _spread_leaders(after, racks)
    changed = [partition for partition in before if before[partition] != after[partition]]
    return BalancePlan({each: before[each] for each in changed}, {each: after[each] for each in changed})


def _spread_replicas(
    assignment: Assignment, racks: Mapping[int, str | None], sizes: Mapping[TopicPartition, int]
) -> None:
    """Move one replica after the other from a broker that has more to one that has fewer, while two or more differ.

    Every move makes the sum of the squares smaller, so this ends.
    """
    held: dict[int, set[TopicPartition]] = {broker: set() for broker in racks}
    for partition, replicas in assignment.items():
        for broker in replicas:
            if broker in held:
                held[broker].add(partition)
    while True:
        move = _next_move(assignment, held, racks, sizes)
        if move is None:
            return
        partition, source, target = move
        replicas = assignment[partition]
        assignment[partition] = tuple(target if broker == source else broker for broker in replicas)
        held[source].discard(partition)
        held[target].add(partition)


def _next_move(
    assignment: Assignment,
    held: Mapping[int, set[TopicPartition]],
    racks: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
) -> tuple[TopicPartition, int, int] | None:
    by_load = sorted(held, key=lambda broker: (len(held[broker]), broker))
    for source in reversed(by_load):
        for target in by_load:
            if len(held[source]) - len(held[target]) < 2:
                break
            movable = [
                partition
                for partition in held[source] - held[target]
                if _racks_kept(assignment[partition], source, target, racks)
            ]
            if movable:
                return min(movable, key=lambda partition: (sizes.get(partition, 0), partition)), source, target
    return None


def _racks_kept(replicas: Sequence[int], source: int, target: int, racks: Mapping[int, str | None]) -> bool:
    def count(brokers: Iterable[int]) -> int:
        return len({racks.get(broker) for broker in brokers} - {None})

    return count(target if broker == source else broker for broker in replicas) >= count(replicas)


def _spread_leaders(assignment: Assignment, racks: Mapping[int, str | None]) -> None:
    """Hand leadership along a chain of partitions from a broker that leads more to one that leads fewer."""
    while True:
        led = load(assignment, racks)
        by_leaders = sorted(racks, key=lambda broker: (led[broker].leaders, broker))
        chain = None
        for source in reversed(by_leaders):
            chain = _chain(assignment, source, {each for each in racks if led[source].leaders - led[each].leaders > 1})
            if chain is not None:
                break
        if chain is None:
            return
        for partition, target in chain:
            others = tuple(broker for broker in assignment[partition] if broker != target)
            assignment[partition] = (target, *others)


def _chain(assignment: Assignment, source: int, targets: set[int]) -> list[tuple[TopicPartition, int]] | None:
    """The shortest way to give one leadership of `source` to one of `targets`: partitions and their new leaders."""
    led: dict[int, list[TopicPartition]] = {}
    for partition, replicas in assignment.items():
        led.setdefault(replicas[0], []).append(partition)
    came: dict[int, list[tuple[TopicPartition, int]]] = {source: []}
    waiting = deque([source])
    while waiting:
        leader = waiting.popleft()
        for partition in led.get(leader, ()):
            for broker in assignment[partition][1:]:
                if broker in came:
                    continue
                came[broker] = [*came[leader], (partition, broker)]
                if broker in targets:
                    return came[broker]
                waiting.append(broker)
    return None
