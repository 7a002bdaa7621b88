"""What becomes of partitions when brokers go and come: leaders, in-sync sets, eligible replicas, epochs."""

import pytest

from kit.machines.clusters import directory_id
from kit.machines.partition_states import after, place, with_partition
from ottla.metadata import partitions
from ottla.metadata.image import NO_LEADER
from ottla.metadata.placement import LOST_DIRECTORY, UNASSIGNED_DIRECTORY

TWO = {"min.insync.replicas": "2"}
UNCLEAN = {"unclean.leader.election.enable": "true"}


def test_the_first_living_in_sync_replica_leads_when_the_leader_goes() -> None:
    image = with_partition(replicas=(3, 2, 1), isr=(1, 2, 3), leader=3)

    partition = after(partitions.without_broker(3, place(image)), image)

    assert (partition.leader, partition.in_sync) == (2, (1, 2))
    assert (partition.leader_epoch, partition.partition_epoch) == (6, 11)


def test_a_replica_out_of_sync_does_not_lead() -> None:
    image = with_partition(isr=(1, 3))

    assert after(partitions.without_broker(1, place(image)), image).leader == 3


def test_a_follower_that_goes_leaves_the_set_and_the_leader_its_epoch() -> None:
    image = with_partition()

    partition = after(partitions.without_broker(2, place(image)), image)

    assert (partition.leader, partition.leader_epoch, partition.in_sync) == (1, 5, (1, 3))
    assert partition.partition_epoch == 11


def test_who_left_below_the_least_number_stays_eligible() -> None:
    image = with_partition(isr=(1, 2), configs=TWO)

    partition = after(partitions.without_broker(2, place(image)), image)

    assert (partition.in_sync, partition.eligible) == ((1,), (2,))


def test_who_left_above_the_least_number_does_not() -> None:
    image = with_partition(configs=TWO)

    assert after(partitions.without_broker(3, place(image)), image).eligible == ()


def test_the_last_in_sync_replica_stays_eligible_and_is_known_as_the_last_leader() -> None:
    image = with_partition(isr=(1,))

    partition = after(partitions.without_broker(1, place(image)), image)

    assert (partition.leader, partition.in_sync, partition.eligible) == (NO_LEADER, (), (1,))
    assert (partition.last_known, partition.leader_epoch) == ((1,), 6)


def test_without_eligible_replicas_the_last_one_in_sync_keeps_the_name() -> None:
    image = with_partition(isr=(1,), eligible=False)

    partition = after(partitions.without_broker(1, place(image)), image)

    assert (partition.leader, partition.in_sync, partition.eligible) == (NO_LEADER, (1,), ())


def test_an_eligible_replica_that_comes_back_leads_cleanly() -> None:
    image = with_partition(
        fenced=[1, 2, 3], isr=(), leader=NO_LEADER, eligible_leader_replicas=[2, 1], last_known_elr=[1]
    )

    partition = after(partitions.with_broker(2, place(image)), image)

    assert (partition.leader, partition.in_sync, partition.eligible) == (2, (2,), ())
    assert (partition.recovering, partition.last_known) == (False, ())


def test_the_others_stay_eligible_while_the_leader_is_below_the_least_number() -> None:
    image = with_partition(
        fenced=[1, 2, 3], isr=(), leader=NO_LEADER, eligible_leader_replicas=[2, 1], last_known_elr=[1], configs=TWO
    )

    assert after(partitions.with_broker(2, place(image)), image).eligible == (1,)


def test_a_replica_that_is_neither_does_not_lead_when_it_comes_back() -> None:
    image = with_partition(fenced=[1, 2, 3], isr=(), leader=NO_LEADER, eligible_leader_replicas=[1])

    assert partitions.with_broker(3, place(image)) == []


def test_a_power_cut_ends_being_in_sync_and_being_eligible() -> None:
    in_sync = with_partition(isr=(1, 2), configs=TWO)
    eligible = with_partition(isr=(1,), eligible_leader_replicas=[2], configs=TWO)

    left = after(partitions.with_lost_records(2, place(in_sync)), in_sync)
    ended = after(partitions.with_lost_records(2, place(eligible)), eligible)

    assert (left.in_sync, left.eligible) == ((1,), ())
    assert (ended.in_sync, ended.eligible) == ((1,), ())


def test_a_clean_stop_does_not_end_being_eligible() -> None:
    image = with_partition(isr=(1,), eligible_leader_replicas=[2], configs=TWO)

    assert partitions.stopped(2, place(image), clean=True, directories=[directory_id(2)]) == []
    assert partitions.stopped(2, place(image), clean=False, directories=[directory_id(2)]) != []


def test_the_last_known_leader_leads_when_nobody_is_eligible_and_says_that_it_recovers() -> None:
    image = with_partition(fenced=[1, 2, 3], isr=(), leader=NO_LEADER, last_known_elr=[2])

    partition = after(partitions.with_broker(2, place(image)), image)

    assert (partition.leader, partition.in_sync) == (2, (2,))
    assert (partition.recovering, partition.last_known) == (True, ())
    assert partitions.with_broker(3, place(image)) == []


def test_a_replica_that_lacks_records_leads_only_where_that_is_allowed() -> None:
    allowed = with_partition(isr=(1,), configs=UNCLEAN)
    forbidden = with_partition(isr=(1,))

    partition = after(partitions.without_broker(1, place(allowed)), allowed)

    assert (partition.leader, partition.in_sync, partition.recovering) == (2, (2,), True)
    assert after(partitions.without_broker(1, place(forbidden)), forbidden).leader == NO_LEADER


def test_an_eligible_replica_is_preferred_to_one_that_lacks_records() -> None:
    image = with_partition(
        fenced=[1], replicas=(1, 2, 3), isr=(1,), eligible_leader_replicas=[3], configs={**UNCLEAN, **TWO}
    )

    partition = after(partitions.without_broker(1, place(image)), image)

    assert (partition.leader, partition.recovering, partition.eligible) == (3, False, (1,))


def test_a_broker_with_several_partitions_leaves_each_of_them() -> None:
    image = with_partition()
    facts = partitions.without_broker(1, place(image))

    assert len(facts) == 1
    assert not partitions.leads_any(1, with_partition(leader=2))
    assert partitions.leads_any(1, image)


def test_a_directory_that_fails_takes_only_its_own_replicas_along() -> None:
    image = with_partition()
    broker = image.brokers[1]

    partition = after(partitions.without_directories(broker, [directory_id(1)], place(image)), image)

    assert (partition.leader, partition.in_sync) == (2, (2, 3))
    assert partitions.without_directories(broker, [directory_id(2)], place(image)) == []


@pytest.mark.parametrize(
    ("directory", "leads"),
    [(directory_id(2), True), (UNASSIGNED_DIRECTORY, True), (LOST_DIRECTORY, False), (b"x" * 16, False)],
)
def test_a_replica_leads_only_from_a_directory_that_works(directory: bytes, leads: bool) -> None:
    image = with_partition(replicas=(1, 2), directories=[directory_id(1), directory])

    assert (after(partitions.without_broker(1, place(image)), image).leader == 2) == leads


def test_a_broker_that_is_unregistered_is_no_longer_waited_for() -> None:
    image = with_partition(isr=(1,), eligible_leader_replicas=[2], configs=TWO)

    assert after(partitions.forgotten(2, place(image)), image).eligible == ()
