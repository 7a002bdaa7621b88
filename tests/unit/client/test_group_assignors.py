"""The classic assignors: examples whose results are those of Kafka's Java assignors, and what always holds."""

from __future__ import annotations

import random

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.assignors import Assignor, GroupMember, RangeAssignor, RoundRobinAssignor, by_topic, flat
from ottla.client.groups.racks import Racks
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


def standing(*racks: str, topics: str = "t") -> list[GroupMember]:
    """Members a, b, c… in these racks; a dash is none."""
    return [
        GroupMember(name, frozenset(topics), rack=rack.strip("-") or None)
        for name, rack in zip("abcdef", racks, strict=False)
    ]


def placed(**topics: str) -> Racks:
    """A word for each partition of a topic: the letters of the racks it has replicas in."""
    return {topic: [frozenset(word.strip("-")) for word in words.split()] for topic, words in topics.items()}


def assign_near(assignor: Assignor, group: list[GroupMember], racks: Racks) -> dict[str, str]:
    return shown(dict(assignor.assign_near(group, {topic: len(row) for topic, row in racks.items()}, racks)))


def test_range_prefers_what_is_near_within_everybodys_share() -> None:
    group = standing("x", "y", "z")
    assert assign_near(RangeAssignor(), group, placed(t="z y x z y x")) == {"a": "t2 t5", "b": "t1 t4", "c": "t0 t3"}
    assert assign_near(RangeAssignor(), group, placed(t="z z z z z z")) == {"a": "t0 t1", "b": "t2 t3", "c": "t4 t5"}
    assert assign_near(RangeAssignor(), group, placed(t="z z z z z -")) == {"a": "t2 t3", "b": "t4 t5", "c": "t0 t1"}


def test_range_keeps_topics_alike_together_rather_than_near() -> None:
    group = standing("x", "y", topics="tu")
    assert assign_near(RangeAssignor(), group, placed(t="y x", u="y x")) == {"a": "t1 u1", "b": "t0 u0"}
    assert assign_near(RangeAssignor(), group, placed(t="y x", u="x y")) == {"a": "t0 u0", "b": "t1 u1"}


def test_racks_change_nothing_where_every_partition_is_in_all_of_them_or_nobody_says_where_they_are() -> None:
    for kind in KINDS:
        plain = assign(kind(), standing("-", "-", "-"), t=5)
        assert assign_near(kind(), standing("x", "y", "z"), placed(t="xyz xyz xyz xyz xyz")) == plain
        assert assign_near(kind(), standing("-", "-", "-"), placed(t="x y z x y")) == plain
        assert assign_near(kind(), standing("p", "q", "r"), placed(t="x y z x y")) == plain


def test_round_robin_knows_no_racks() -> None:
    assert assign_near(RoundRobinAssignor(), standing("x", "y"), placed(t="y x")) == {"a": "t0", "b": "t1"}


def test_sticky_prefers_what_is_near_within_everybodys_share() -> None:
    for kind in (StickyAssignor, CooperativeStickyAssignor):
        group = standing("x", "y", "-")
        assert assign_near(kind(), group, placed(t="y x y x y x")) == {"a": "t1 t3", "b": "t0 t2", "c": "t4 t5"}
        assert assign_near(kind(), group, placed(t="y y y y y x")) == {"a": "t5 t2", "b": "t0 t1", "c": "t3 t4"}


def test_cooperative_sticky_takes_what_is_far_for_somebody_near_and_leaves_what_nobody_is_near_to() -> None:
    group = standing("x", "y")
    had = {"a": "t0 t1", "b": "t2 t3"}
    group = [
        one._replace(owned=frozenset(TopicPartition("t", int(name[1:])) for name in had[one.member_id].split()))
        for one in group
    ]
    racks = placed(t="y z x z")
    assert assign_near(CooperativeStickyAssignor(), group, racks) == {"a": "t1", "b": "t3"}
    freed = [
        one._replace(owned=frozenset({TopicPartition("t", number)})) for one, number in zip(group, (1, 3), strict=True)
    ]
    assert assign_near(CooperativeStickyAssignor(), freed, racks) == {"a": "t2 t1", "b": "t0 t3"}


def test_sticky_exchanges_partitions_for_nearer_ones_where_members_want_different_topics() -> None:
    group = [GroupMember("a", frozenset("tu"), rack="x"), GroupMember("b", frozenset("tuv"), rack="y")]
    plain = {"a": "t0 t1 u0", "b": "u1 v0 v1"}
    assert assign(StickyAssignor(), group, t=2, u=2, v=2) == plain
    near = assign_near(StickyAssignor(), group, placed(t="y x", u="x x", v="y y"))
    assert near == {"a": "t1 u0 u1", "b": "t0 v0 v1"}


@pytest.mark.parametrize("kind", [StickyAssignor, CooperativeStickyAssignor])
@pytest.mark.parametrize("seed", range(40))
def test_sticky_shares_are_as_even_with_racks_and_settle(kind: type[Assignor], seed: int) -> None:
    chance = random.Random(seed)
    racks = {
        topic: [frozenset(chance.sample("xyz", chance.randrange(3))) for _ in range(chance.randrange(12))]
        for topic in "tuv"
    }
    counts = {topic: len(row) for topic, row in racks.items()}
    group = [
        GroupMember(
            f"m{number}", frozenset(chance.choice(("tuv", "tuv", "tu"))), rack=chance.choice(("x", "y", "z", None))
        )
        for number in range(chance.randrange(1, 9))
    ]

    def near(given: dict[str, list[TopicPartition]]) -> int:
        return sum(one.rack in racks[topic][number] for one in group for topic, number in given[one.member_id])

    plain = dict(kind().assign(group, counts))
    given = dict(kind().assign_near(group, counts, racks))
    assert flat(counts_of(given)) == flat(counts_of(plain))
    assert sorted(map(len, given.values())) == sorted(map(len, plain.values()))
    assert near(given) >= near(plain)
    for _ in range(10):
        before = given
        group = [
            member._replace(
                owned=frozenset(before[member.member_id]),
                generation=1,
                user_data=write_remembered(Remembered(by_topic(before[member.member_id]), 1))
                if kind is StickyAssignor
                else None,
            )
            for member in group
        ]
        given = dict(kind().assign_near(group, counts, racks))
        if {one: set(parts) for one, parts in given.items()} == {one: set(parts) for one, parts in before.items()}:
            break
    else:
        pytest.fail("the assignment never settled")


def counts_of(given: dict[str, list[TopicPartition]]) -> dict[str, list[int]]:
    return by_topic(part for parts in given.values() for part in parts)
