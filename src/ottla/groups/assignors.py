"""The server's assignors: who of a group's members gets which partitions.

Owns: `uniform` (everybody as many as anybody, give or take one, and as little moved as possible) and `range` (of every
topic a range of neighbouring partitions, the same numbers of topics with equally many). Never knows: groups, epochs.
Pure: the same input gives the same output. Invariants: every partition of a topic somebody subscribes to is given to
exactly one of its subscribers, and nobody gets what they do not subscribe to.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple, TypeAlias

from ottla.groups.modern_facts import Partitions

ROUNDS = 16
"""How often the topics of a group with different subscriptions are gone through to balance it."""


class Candidate(NamedTuple):
    """A member as assignors see it."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    """Topics that exist."""
    target: Partitions
    """What it was to get so far."""


Result: TypeAlias = dict[str, Partitions]
Assignor: TypeAlias = Callable[[Sequence[Candidate], Mapping[bytes, int]], Result]


def range_assignor(candidates: Sequence[Candidate], counts: Mapping[bytes, int]) -> Result:
    """Static members first, by instance id, so that a new member id moves nothing."""
    ordered = sorted(
        candidates, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id, one.member_id)
    )
    subscribers: dict[bytes, int] = {}
    for candidate in ordered:
        for topic_id in candidate.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    turn = dict.fromkeys(subscribers, 0)
    result: Result = {}
    for candidate in ordered:
        given: dict[bytes, frozenset[int]] = {}
        for topic_id in sorted(candidate.topic_ids):
            quota, extra = divmod(counts[topic_id], subscribers[topic_id])
            place = turn[topic_id]
            turn[topic_id] += 1
            start = place * quota + min(place, extra)
            end = start + quota + (place < extra)
            if start < end:
                given[topic_id] = frozenset(range(start, end))
        result[candidate.member_id] = given
    return result


def uniform_assignor(candidates: Sequence[Candidate], counts: Mapping[bytes, int]) -> Result:
    """Members that all subscribe to the same topics, the usual case, need no search."""
    if not candidates:
        return {}
    first = candidates[0].topic_ids
    if all(candidate.topic_ids == first for candidate in candidates):
        return _share_evenly(candidates, counts, first)
    return _Balance(candidates, counts).result()


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform_assignor, "range": range_assignor}


def _share_evenly(candidates: Sequence[Candidate], counts: Mapping[bytes, int], topic_ids: frozenset[bytes]) -> Result:
    """Who has most is asked first, so that the places with one more go to those who have one more already."""
    kept: dict[str, dict[bytes, set[int]]] = {}
    free = {(topic_id, partition) for topic_id in topic_ids for partition in range(counts[topic_id])}
    total = len(free)
    for candidate in candidates:
        mine = kept[candidate.member_id] = {}
        for topic_id, partitions in candidate.target.items():
            for partition in sorted(partitions):
                if (topic_id, partition) in free:
                    free.remove((topic_id, partition))
                    mine.setdefault(topic_id, set()).add(partition)
    quota, extra = divmod(total, len(candidates))
    order = sorted(kept, key=lambda member_id: (-_size(kept[member_id]), member_id))
    wanting: list[tuple[str, int]] = []
    for place, member_id in enumerate(order):
        mine = kept[member_id]
        surplus = _size(mine) - quota - (place < extra)
        for topic_id in sorted(mine, reverse=True) if surplus > 0 else ():
            for partition in sorted(mine[topic_id], reverse=True)[:surplus]:
                mine[topic_id].remove(partition)
                free.add((topic_id, partition))
                surplus -= 1
        if surplus < 0:
            wanting.append((member_id, -surplus))
    left = iter(sorted(free))
    for member_id, missing in wanting:
        for _ in range(missing):
            topic_id, partition = next(left)
            kept[member_id].setdefault(topic_id, set()).add(partition)
    return {member_id: _frozen(mine) for member_id, mine in kept.items()}


class _Balance:
    """Members with different subscriptions: what is free goes to whoever has least, then topics are evened out."""

    def __init__(self, candidates: Sequence[Candidate], counts: Mapping[bytes, int]) -> None:
        self._ids = sorted(candidate.member_id for candidate in candidates)
        index_of = {member_id: index for index, member_id in enumerate(self._ids)}
        self._counts = counts
        self._subscribers: dict[bytes, list[int]] = {}
        self._owners: dict[bytes, list[int]] = {}
        self._load = [0] * len(self._ids)
        for candidate in sorted(candidates):
            for topic_id in candidate.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index_of[candidate.member_id])
        for topic_id in self._subscribers:
            self._owners[topic_id] = [-1] * counts[topic_id]
        for candidate in sorted(candidates):
            for topic_id, partitions in candidate.target.items():
                if topic_id in candidate.topic_ids:
                    for partition in partitions:
                        self._keep(topic_id, partition, index_of[candidate.member_id])

    def _keep(self, topic_id: bytes, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        if partition < len(owners) and owners[partition] == -1:
            owners[partition] = member
            self._load[member] += 1

    def result(self) -> Result:
        # Topics with many partitions for few members first: those leave the least choice.
        order = sorted(
            self._subscribers,
            key=lambda topic_id: (
                -self._counts[topic_id] / len(self._subscribers[topic_id]),
                len(self._subscribers[topic_id]),
                topic_id,
            ),
        )
        for topic_id in order:
            self._hand_out(topic_id)
        shared = [topic_id for topic_id in order if len(self._subscribers[topic_id]) > 1]
        for _ in range(ROUNDS):
            if not sum(self._even_out(topic_id) for topic_id in shared):
                break
        given: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in self._ids}
        for topic_id, owners in self._owners.items():
            for partition, member in enumerate(owners):
                given[self._ids[member]].setdefault(topic_id, set()).add(partition)
        return {member_id: _frozen(mine) for member_id, mine in given.items()}

    def _hand_out(self, topic_id: bytes) -> None:
        least = [(self._load[member], member) for member in self._subscribers[topic_id]]
        heapify(least)
        owners = self._owners[topic_id]
        for partition, owner in enumerate(owners):
            if owner == -1:
                load, member = least[0]
                owners[partition] = member
                self._load[member] = load + 1
                heapreplace(least, (load + 1, member))

    def _even_out(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from whoever has most to whoever has least of everything, while that helps."""
        owners = self._owners[topic_id]
        holds: dict[int, list[int]] = {}
        for partition, member in enumerate(owners):
            holds.setdefault(member, []).append(partition)
        subscribers = self._subscribers[topic_id]
        least = [(self._load[member], member) for member in subscribers]
        most = [(-self._load[member], member) for member in subscribers if member in holds]
        heapify(least)
        heapify(most)
        moved = False
        while most:
            heaviest, giver = heappop(most)
            lightest, taker = least[0]
            if lightest != self._load[taker]:
                heapreplace(least, (self._load[taker], taker))
                heappush(most, (heaviest, giver))
                continue
            if -heaviest != self._load[giver]:
                heappush(most, (-self._load[giver], giver))
                continue
            if -heaviest - lightest <= 1:
                break
            partition = holds[giver].pop()
            owners[partition] = taker
            self._load[giver] -= 1
            self._load[taker] += 1
            moved = True
            if holds[giver]:
                heappush(most, (-self._load[giver], giver))
        return moved


def _size(partitions: Mapping[bytes, set[int]]) -> int:
    return sum(len(numbers) for numbers in partitions.values())


def _frozen(partitions: Mapping[bytes, set[int]]) -> Partitions:
    return {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items() if numbers}
