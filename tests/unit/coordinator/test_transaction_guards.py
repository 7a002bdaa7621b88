"""An append that was agreed to is refused when the end of its transaction has come first."""

from __future__ import annotations

from kit.worlds.lone_partitions import lone_partition
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.guards import Guards
from ottla.replicas.partitions import Partition


def partition(index: int = 0) -> Partition:
    return lone_partition(TopicPartition("topic", index), bytes(16), 4, None)


def test_a_guard_is_good_once() -> None:
    guards = Guards()
    guard = guards.take(partition(), 7)
    assert guards.give_back(guard) == ErrorCode.NONE
    assert guards.give_back(guard) == ErrorCode.INVALID_TXN_STATE


def test_the_end_of_the_producers_transaction_in_the_partition_spoils_it() -> None:
    guards = Guards()
    held = partition()
    first, second, other_producer = guards.take(held, 7), guards.take(held, 7), guards.take(held, 8)
    other_partition = guards.take(partition(1), 7)
    guards.ended(held.name, 7)
    assert guards.give_back(first) == ErrorCode.INVALID_TXN_STATE
    assert guards.give_back(second) == ErrorCode.INVALID_TXN_STATE
    assert guards.give_back(other_producer) == ErrorCode.NONE
    assert guards.give_back(other_partition) == ErrorCode.NONE


def test_what_is_taken_after_the_end_is_good() -> None:
    guards = Guards()
    held = partition()
    guards.ended(held.name, 7)
    assert guards.give_back(guards.take(held, 7)) == ErrorCode.NONE


def test_another_leadership_may_have_written_an_end_so_the_producer_asks_again() -> None:
    guards = Guards()
    held = partition()
    guard = guards.take(held, 7)
    held.leader_epoch += 1
    assert guards.give_back(guard) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    guard = guards.take(held, 7)
    held.leads = False
    assert guards.give_back(guard) == ErrorCode.NOT_LEADER_OR_FOLLOWER
