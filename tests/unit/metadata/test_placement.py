"""Placement: even over racks, brokers and leaderships, whatever random start it is given."""

from collections import Counter

import pytest

from kit.disks.compacting import CountingRandom
from kit.machines.clusters import cluster
from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.metadata.decision import Refusal
from ottla.metadata.image import ClusterImage
from ottla.metadata.placement import check_assignment, place


class Late(CountingRandom):
    """Starts as late in every round as can be."""

    def uniform(self, low: float, high: float) -> float:
        return high


def placed(image: ClusterImage, partitions: int, factor: int, random: Random | None = None) -> list[tuple[int, ...]]:
    found = place(image.brokers.values(), partitions, factor, random or CountingRandom())
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("random", [CountingRandom(), Late()])
@pytest.mark.parametrize(("brokers", "factor"), [(1, 1), (3, 3), (3, 2), (5, 3), (7, 1)])
def test_leaders_and_replicas_are_spread_evenly(brokers: int, factor: int, random: Random) -> None:
    found = placed(cluster(brokers), brokers * 4, factor, random)

    assert all(len(set(replicas)) == factor for replicas in found)
    leaders = Counter(replicas[0] for replicas in found)
    assert set(leaders.values()) == {4}
    every = Counter(broker for replicas in found for broker in replicas)
    assert max(every.values()) - min(every.values()) <= 2


@pytest.mark.parametrize("random", [CountingRandom(), Late()])
@pytest.mark.parametrize(("brokers", "factor"), [(3, 3), (3, 2), (4, 2), (5, 3)])
def test_the_load_of_any_leader_that_goes_is_shared_evenly(brokers: int, factor: int, random: Random) -> None:
    found = placed(cluster(brokers), brokers * (brokers - 1) * 2, factor, random)

    for gone in range(1, brokers + 1):
        heirs = Counter(replicas[1] for replicas in found if replicas[0] == gone)
        assert set(heirs) == {*range(1, brokers + 1)} - {gone}
        assert max(heirs.values()) - min(heirs.values()) <= 1


def test_few_partitions_have_different_heirs_too() -> None:
    found = placed(cluster(3), 3, 3)

    assert len({replicas[0] for replicas in found}) == 3
    assert len({replicas[1] for replicas in found}) == 3


@pytest.mark.parametrize("random", [CountingRandom(), Late()])
def test_the_load_of_a_rack_that_goes_is_shared_by_the_others(random: Random) -> None:
    racks = {1: "a", 2: "b", 3: "c"}
    found = placed(cluster(racks), 12, 3, random)

    for gone in racks:
        heirs = Counter(replicas[1] for replicas in found if replicas[0] == gone)
        assert sorted(heirs.values()) == [2, 2]


def test_replicas_go_to_different_racks_as_long_as_there_are_any() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for replicas in placed(cluster(racks), 30, 3):
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}
    leaders = Counter(replicas[0] for replicas in placed(cluster(racks), 30, 3))
    assert set(leaders.values()) == {5}


def test_more_replicas_than_racks_fill_racks_up() -> None:
    for replicas in placed(cluster({1: "a", 2: "a", 3: "b"}), 6, 3):
        assert sorted(replicas) == [1, 2, 3]


def test_fenced_brokers_never_lead_and_are_used_last() -> None:
    image = cluster(3, fenced=[2])

    assert all(2 not in replicas for replicas in placed(image, 6, 2))
    for replicas in placed(image, 6, 3):
        assert replicas[0] != 2
        assert replicas[-1] == 2


@pytest.mark.parametrize(
    ("image", "factor", "reason"),
    [
        (
            cluster(1),
            3,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (cluster(1, fenced=[1]), 1, "Unable to replicate the partition 1 time(s): All brokers are currently fenced."),
        (ClusterImage("empty"), 1, "Unable to replicate the partition 1 time(s): All brokers are currently fenced."),
    ],
)
def test_what_cannot_be_placed_is_refused_in_kafkas_words(image: ClusterImage, factor: int, reason: str) -> None:
    refusal = place(image.brokers.values(), 1, factor, CountingRandom())

    assert refusal == Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)


@pytest.mark.parametrize(
    ("replicas", "factor", "reason"),
    [
        ([], None, "The manual partition assignment includes an empty replica list."),
        ([1, 9], None, "The manual partition assignment includes broker 9, but no such broker is registered."),
        ([1, 1], None, "The manual partition assignment includes the broker 1 more than once."),
        (
            [1, 2],
            1,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
        (
            [3],
            None,
            "All brokers specified in the manual partition assignment for partition 7 are fenced or in controlled "
            "shutdown.",
        ),
    ],
)
def test_an_assignment_by_hand_is_checked(replicas: list[int], factor: int | None, reason: str) -> None:
    refusal = check_assignment(replicas, cluster(3, fenced=[3]).brokers, factor, 7)

    assert refusal == Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def test_a_good_assignment_by_hand_passes() -> None:
    assert check_assignment([2, 1], cluster(3, fenced=[3]).brokers, 2, 0) is None
