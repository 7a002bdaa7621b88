"""A balancing plan evens out what brokers carry and breaks nothing on the way."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.vocabulary import TopicPartition
from ottla.client.balancing import BalancePlan, load, plan


def topic(*replicas: Sequence[int]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", number): tuple(each) for number, each in enumerate(replicas)}


def applied(
    assignment: Mapping[TopicPartition, Sequence[int]], made: BalancePlan
) -> dict[TopicPartition, tuple[int, ...]]:
    return {**{partition: tuple(replicas) for partition, replicas in assignment.items()}, **made.after}


def test_an_even_cluster_needs_no_plan() -> None:
    assert plan(topic([1, 2], [2, 3], [3, 1]), dict.fromkeys((1, 2, 3)), {}).after == {}


def test_a_new_broker_gets_its_share_of_replicas_and_leaders() -> None:
    made = plan(topic([1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1]), dict.fromkeys((1, 2, 3)), {})
    assert len(list(made.copies())) == 4
    after = applied(topic([1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1]), made)
    assert set(load(after, (1, 2, 3)).values()) == {(4, 2)}


def test_small_replicas_move_before_large_ones() -> None:
    sizes = {TopicPartition("t", 0): 900, TopicPartition("t", 1): 5, TopicPartition("t", 2): 800}
    made = plan(topic([1], [1], [1]), dict.fromkeys((1, 2)), sizes)
    assert list(made.copies()) == [(TopicPartition("t", 1), 2)]


def test_leadership_alone_moves_without_copying() -> None:
    made = plan(topic([1, 2], [1, 2], [1, 2], [1, 2]), dict.fromkeys((1, 2)), {})
    assert not list(made.copies())
    assert load(applied(topic([1, 2], [1, 2], [1, 2], [1, 2]), made), (1, 2)) == {1: (4, 2), 2: (4, 2)}


def test_leadership_is_handed_along_a_chain_where_no_partition_joins_the_two_ends() -> None:
    uneven = topic([1, 2], [1, 2], [1, 2], [2, 3], [2, 3], [3, 2])
    made = plan(uneven, dict.fromkeys((1, 2, 3)), {})
    assert {each.leaders for each in load(applied(uneven, made), (1, 2, 3)).values()} == {2}


def test_a_partition_never_loses_a_rack() -> None:
    racks = {1: "a", 2: "b", 3: "a"}
    # Broker 3 could relieve broker 2, but then both copies would stand in rack a.
    assert plan(topic([2, 1], [2, 1]), racks, {}).before.keys() <= topic([2, 1], [2, 1]).keys()
    after = applied(topic([2, 1], [2, 1]), plan(topic([2, 1], [2, 1]), racks, {}))
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in after.values())


brokers = st.integers(1, 6)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[TopicPartition, tuple[int, ...]], dict[int, str | None]]:
    count = draw(brokers)
    racks = {broker: draw(st.sampled_from([None, "a", "b", "c"])) for broker in range(1, count + 1)}
    replicas = st.lists(st.sampled_from(list(racks)), min_size=1, max_size=min(3, count), unique=True)
    return topic(*draw(st.lists(replicas, max_size=20))), racks


@given(clusters())
def test_a_plan_keeps_replication_and_racks_and_never_makes_things_worse(
    case: tuple[dict[TopicPartition, tuple[int, ...]], dict[int, str | None]],
) -> None:
    assignment, racks = case
    made = plan(assignment, racks, {})
    after = applied(assignment, made)
    for partition, replicas in after.items():
        assert len(set(replicas)) == len(replicas) == len(assignment[partition])
        standing = [len({racks[broker] for broker in each} - {None}) for each in (replicas, assignment[partition])]
        assert standing[0] >= standing[1]
    most = [max(each.replicas for each in load(state, racks).values()) for state in (assignment, after)]
    assert most[1] <= most[0]
    assert plan(after, racks, {}).after == {}, "a plan that was carried out leaves nothing to do"
