"""An append that was agreed to is refused when the end of its transaction has come first."""

from __future__ import annotations

from ottla.base.vocabulary import TopicPartition
from ottla.broker.partitions import Partition
from ottla.broker.transaction_guards import Guards


def partition(index: int = 0) -> Partition:
    return Partition(TopicPartition("topic", index), bytes(16), 4, None)


def test_a_guard_is_good_once() -> None:
    guards = Guards()
    guard = guards.take(partition(), 7)
    assert guards.give_back(guard)
    assert not guards.give_back(guard)


def test_the_end_of_the_producers_transaction_in_the_partition_spoils_it() -> None:
    guards = Guards()
    held = partition()
    first, second, other_producer = guards.take(held, 7), guards.take(held, 7), guards.take(held, 8)
    other_partition = guards.take(partition(1), 7)
    guards.ended(held.name, 7)
    assert not guards.give_back(first)
    assert not guards.give_back(second)
    assert guards.give_back(other_producer)
    assert guards.give_back(other_partition)


def test_what_is_taken_after_the_end_is_good() -> None:
    guards = Guards()
    held = partition()
    guards.ended(held.name, 7)
    assert guards.give_back(guards.take(held, 7))


def test_another_leadership_may_have_written_an_end() -> None:
    guards = Guards()
    held = partition()
    guard = guards.take(held, 7)
    held.leader_epoch += 1
    assert not guards.give_back(guard)
    guard = guards.take(held, 7)
    held.leads = False
    assert not guards.give_back(guard)
