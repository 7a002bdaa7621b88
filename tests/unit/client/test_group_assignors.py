"""The classic assignors: examples whose results are those of Kafka's Java assignors, and what always holds."""

from __future__ import annotations

import random

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.assignors import Assignor, GroupMember, RangeAssignor, RoundRobinAssignor, by_topic, flat
from ottla.client.groups.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.groups.embedded import (
    Embedded,
    Remembered,
    read_remembered,
    read_subscription,
    write_remembered,
    write_subscription,
)

KINDS: tuple[type[Assignor], ...] = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)


def members(**topics: str) -> list[GroupMember]:
    """By name and the topics each subscribes to, a letter a topic."""
    return [GroupMember(name, frozenset(wanted)) for name, wanted in topics.items()]


def shown(assigned: dict[str, list[TopicPartition]]) -> dict[str, str]:
    return {name: " ".join(f"{topic}{number}" for topic, number in parts) for name, parts in assigned.items()}


def assign(assignor: Assignor, group: list[GroupMember], **counts: int) -> dict[str, str]:
    return shown(dict(assignor.assign(group, counts)))


def test_range_gives_neighbours_of_every_topic() -> None:
    group = members(a="tu", b="tu", c="u")
    assert assign(RangeAssignor(), group, t=3, u=4) == {"a": "t0 t1 u0 u1", "b": "t2 u2", "c": "u3"}


def test_range_puts_static_members_first_by_their_names() -> None:
    group = [GroupMember("a", frozenset("t")), GroupMember("b", frozenset("t"), "static")]
    assert assign(RangeAssignor(), group, t=3) == {"a": "t2", "b": "t0 t1"}


def test_round_robin_goes_on_with_the_next_member_across_topics() -> None:
    group = members(a="tu", b="tu")
    assert assign(RoundRobinAssignor(), group, t=3, u=3) == {"a": "t0 t2 u1", "b": "t1 u0 u2"}


def test_round_robin_passes_over_members_that_do_not_want_a_topic() -> None:
    group = members(a="t", b="tu", c="tuv")
    assert assign(RoundRobinAssignor(), group, t=1, u=2, v=3) == {"a": "t0", "b": "u0", "c": "u1 v0 v1 v2"}


def test_sticky_goes_round_when_nobody_had_anything() -> None:
    group = members(a="tu", b="tu")
    assert assign(StickyAssignor(), group, t=3, u=3) == {"a": "t0 t2 u1", "b": "t1 u0 u2"}


def test_sticky_lets_members_keep_what_they_had() -> None:
    first = StickyAssignor()
    first.assigned(frozenset({TopicPartition("t", 1), TopicPartition("t", 2)}), 3)
    group = [
        GroupMember("a", frozenset("t"), user_data=first.user_data(frozenset("t"))),
        GroupMember("b", frozenset("t")),
    ]
    assert assign(StickyAssignor(), group, t=4) == {"a": "t1 t2", "b": "t0 t3"}


def test_sticky_believes_the_newer_of_two_claims_and_neither_of_two_equals() -> None:
    def claiming(name: str, generation: int) -> GroupMember:
        return GroupMember(name, frozenset("t"), user_data=write_remembered(Remembered({"t": [0]}, generation)))

    assert assign(StickyAssignor(), [claiming("a", 4), claiming("b", 5)], t=2) == {"a": "t1", "b": "t0"}
    assert assign(StickyAssignor(), [claiming("a", 5), claiming("b", 5)], t=2) == {"a": "t0", "b": "t1"}


def test_sticky_ignores_what_it_cannot_read() -> None:
    group = [GroupMember("a", frozenset("t"), user_data=b"\0\0\0\1"), GroupMember("b", frozenset("t"))]
    assert assign(StickyAssignor(), group, t=2) == {"a": "t0", "b": "t1"}


def test_cooperative_sticky_gives_to_nobody_what_must_first_be_given_up() -> None:
    everything = frozenset(TopicPartition("t", number) for number in range(4))
    group = [GroupMember("a", frozenset("t"), owned=everything, generation=1), GroupMember("b", frozenset("t"))]
    assert assign(CooperativeStickyAssignor(), group, t=4) == {"a": "t0 t1", "b": ""}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(40))
def test_every_partition_has_one_owner_who_wants_it(kind: type[Assignor], seed: int) -> None:
    chance = random.Random(seed)
    counts = {topic: chance.randrange(0, 12) for topic in "tuvw"}
    group = [
        GroupMember(f"m{number}", frozenset(chance.sample("tuvwx", chance.randrange(1, 5))))
        for number in range(chance.randrange(1, 9))
    ]
    given = kind().assign(group, counts)
    assert given.keys() == {member.member_id for member in group}
    for member in group:
        assert {part.topic for part in given[member.member_id]} <= member.topics
    wanted = frozenset[str]().union(*(member.topics for member in group))
    everything = [part for parts in given.values() for part in parts]
    assert len(everything) == len(set(everything))
    assert frozenset(everything) == flat({topic: range(counts[topic]) for topic in wanted & counts.keys()})


@pytest.mark.parametrize("kind", [StickyAssignor, CooperativeStickyAssignor])
@pytest.mark.parametrize("seed", range(40))
def test_sticky_moves_no_more_than_balance_needs(kind: type[Assignor], seed: int) -> None:
    """One member more or less, everybody with the same topics: whoever has no more than their share loses nothing."""
    chance = random.Random(seed)
    counts = {"t": chance.randrange(1, 30), "u": chance.randrange(1, 30)}
    topics = frozenset("tu")
    group = [GroupMember(f"m{number}", topics) for number in range(chance.randrange(2, 8))]
    before = kind().assign(group, counts)
    if chance.random() < 0.5:
        group.pop(chance.randrange(len(group)))
    else:
        group.append(GroupMember("n", topics))
    carrying = [
        member._replace(
            owned=frozenset(before.get(member.member_id, ())),
            generation=1,
            user_data=write_remembered(Remembered(by_topic(before.get(member.member_id, ())), 1))
            if kind is StickyAssignor
            else None,
        )
        for member in group
    ]
    after = kind().assign(carrying, counts)
    share = -(-sum(counts.values()) // len(group))
    least = sum(counts.values()) // len(group)
    for member in group:
        had, has = set(before.get(member.member_id, ())), set(after[member.member_id])
        if len(had) <= least:
            assert had <= has
        assert len(had - has) <= max(0, len(had) - least)
        assert len(has) <= share


def test_a_subscription_reads_as_it_was_written_in_every_version() -> None:
    words = Embedded(3, ("t", "ü"), {"t": [1, 2]}, "rack", 7, b"data")
    assert read_subscription(write_subscription(words)) == words
    assert read_subscription(write_subscription(words._replace(version=0))) == Embedded(
        0, ("t", "ü"), user_data=b"data"
    )
    bare = Embedded(3, ("t",))
    assert read_subscription(write_subscription(bare)) == bare


def test_what_sticky_members_remember_may_lack_the_generation() -> None:
    whole = write_remembered(Remembered({"t": [3]}, 9))
    assert read_remembered(whole) == Remembered({"t": [3]}, 9)
    assert read_remembered(whole[:-4]) == Remembered({"t": [3]}, -1)
