"""The server's assignors: complete, disjoint, balanced, and moving no more than they must."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.assignors import ASSIGNORS, Candidate, Result, range_assignor, uniform_assignor
from ottla.groups.modern_facts import Partitions

TOPICS = [b"a" * 16, b"b" * 16, b"c" * 16]
COUNTS = st.fixed_dictionaries({topic: st.integers(1, 12) for topic in TOPICS})
SUBSCRIPTIONS = st.lists(st.frozensets(st.sampled_from(TOPICS), max_size=3), min_size=1, max_size=7)


def candidates(
    subscriptions: Sequence[frozenset[bytes]], before: Mapping[str, Partitions] | None = None
) -> list[Candidate]:
    return [
        Candidate(f"m{number}", None, topics, (before or {}).get(f"m{number}", {}))
        for number, topics in enumerate(subscriptions)
    ]


def sizes(result: Result) -> list[int]:
    return [sum(map(len, partitions.values())) for partitions in result.values()]


def moved(before: Mapping[str, Partitions], after: Mapping[str, Partitions]) -> int:
    """How many partitions somebody had and somebody else gets."""
    old = {(topic, number): who for who, given in before.items() for topic in given for number in given[topic]}
    new = {(topic, number): who for who, given in after.items() for topic in given for number in given[topic]}
    return sum(old.get(place, who) != who for place, who in new.items())


def check(result: Result, asked: Sequence[Candidate], counts: Mapping[bytes, int]) -> None:
    by_id = {one.member_id: one for one in asked}
    assert set(result) == set(by_id)
    places = [(topic, number) for given in result.values() for topic, numbers in given.items() for number in numbers]
    wanted = {topic for one in asked for topic in one.topic_ids}
    assert sorted(places) == sorted((topic, number) for topic in wanted for number in range(counts[topic]))
    for member_id, share in result.items():
        assert set(share) <= by_id[member_id].topic_ids
        assert all(share.values())


@pytest.mark.parametrize("name", ASSIGNORS)
@given(SUBSCRIPTIONS, COUNTS, SUBSCRIPTIONS, COUNTS)
def test_everything_is_given_to_exactly_one_subscriber(
    name: str,
    first: list[frozenset[bytes]],
    counts: dict[bytes, int],
    second: list[frozenset[bytes]],
    later: dict[bytes, int],
) -> None:
    asked = candidates(first)
    before = ASSIGNORS[name](asked, counts)
    check(before, asked, counts)
    grown = {topic: max(count, counts[topic]) for topic, count in later.items()}
    again = candidates(second, before)
    check(ASSIGNORS[name](again, grown), again, grown)


@given(st.integers(1, 9), COUNTS, st.integers(1, 9))
def test_members_alike_have_equally_many_give_or_take_one(members: int, counts: dict[bytes, int], later: int) -> None:
    alike = [frozenset(TOPICS)]
    before = uniform_assignor(candidates(alike * members), counts)
    assert max(sizes(before)) - min(sizes(before)) <= 1
    after = uniform_assignor(candidates(alike * later, before), counts)
    assert max(sizes(after)) - min(sizes(after)) <= 1
    total = sum(counts.values())
    if later >= members:
        # Only what the new ones need moves.
        new = sum(size for who, size in zip(after, sizes(after), strict=True) if who not in before)
        assert moved(before, after) == new
    else:
        kept = {who: given for who, given in before.items() if who in after}
        assert moved(kept, after) == 0
    assert sum(sizes(after)) == total


@given(SUBSCRIPTIONS, COUNTS)
def test_no_move_of_one_partition_would_make_different_members_more_alike(
    subscriptions: list[frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    asked = candidates(subscriptions)
    result = uniform_assignor(asked, counts)
    load = dict(zip(result, sizes(result), strict=True))
    for giver, share in result.items():
        for taker in asked:
            for topic in share:
                if topic in taker.topic_ids:
                    assert load[giver] - load[taker.member_id] <= 1


@given(SUBSCRIPTIONS, COUNTS)
def test_asked_again_nothing_moves(subscriptions: list[frozenset[bytes]], counts: dict[bytes, int]) -> None:
    before = uniform_assignor(candidates(subscriptions), counts)
    assert uniform_assignor(candidates(subscriptions, before), counts) == before


def test_ranges_are_neighbours_and_topics_alike_are_shared_alike() -> None:
    counts = {TOPICS[0]: 5, TOPICS[1]: 5}
    result = range_assignor(candidates([frozenset(TOPICS[:2])] * 2), counts)
    assert result["m0"] == {TOPICS[0]: frozenset({0, 1, 2}), TOPICS[1]: frozenset({0, 1, 2})}
    assert result["m1"] == {TOPICS[0]: frozenset({3, 4}), TOPICS[1]: frozenset({3, 4})}


def test_static_members_keep_their_range_under_another_member_id() -> None:
    topics = frozenset(TOPICS[:1])
    counts = {TOPICS[0]: 4}
    first = range_assignor([Candidate("z", "i1", topics, {}), Candidate("a", "i2", topics, {})], counts)
    second = range_assignor([Candidate("b", "i1", topics, {}), Candidate("y", "i2", topics, {})], counts)
    assert first["z"] == second["b"] == {TOPICS[0]: frozenset({0, 1})}


def test_a_large_group_is_shared_out_quickly_enough_to_be_shared_out_at_all() -> None:
    counts = {TOPICS[0]: 3_000, TOPICS[1]: 2_000}
    asked = candidates([frozenset(TOPICS[:2])] * 200 + [frozenset(TOPICS[:1])] * 100)
    result = uniform_assignor(asked, counts)
    check(result, asked, counts)
    assert max(sizes(result)) - min(sizes(result)) <= 1
