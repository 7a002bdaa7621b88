"""Batches fill, leave, come back and are cut in two as they should."""

import asyncio

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.client.accumulator import Accumulator, Batch, Placed, record_size

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
LINGER = 5.0


@pytest.fixture
def queue() -> Accumulator:
    return Accumulator(100, LINGER, asyncio.Future)


def add(queue: Accumulator, partition: TopicPartition, value: bytes, now: float = 0.0) -> tuple[Batch, int, bool]:
    delivery, notable = queue.add(partition, record_size(None, value, ()), 1, (None, value, ()), now)
    return delivery.batch, delivery.position, notable


def ready(
    queue: Accumulator, now: float, *, flushing: bool = False, busy: frozenset[TopicPartition] = frozenset()
) -> list[Batch]:
    return list(queue.ready(now, flushing=flushing, busy=busy))


async def test_records_share_a_batch_until_it_is_full(queue: Accumulator) -> None:
    first, position, notable = add(queue, ONE, b"x" * 30)
    assert (position, notable) == (0, True)
    again, position, notable = add(queue, ONE, b"y" * 30)
    assert again is first
    assert (position, notable) == (1, False)
    other, position, notable = add(queue, ONE, b"z" * 30)
    assert other is not first
    assert (position, notable) == (0, True)
    assert [record.value for record in first.records] == [b"x" * 30, b"y" * 30]
    assert queue.buffered == first.size + other.size


async def test_a_batch_leaves_when_it_is_full_or_has_lingered_or_all_are_flushed(queue: Accumulator) -> None:
    batch, _, _ = add(queue, ONE, b"small", now=10.0)
    assert ready(queue, 10.0) == []
    assert queue.next_departure(flushing=False, busy=()) == 10.0 + LINGER
    assert ready(queue, 10.0 + LINGER) == [batch]
    assert ready(queue, 10.0, flushing=True) == [batch]
    full, _, notable = add(queue, TWO, b"x" * 200, now=10.0)
    assert notable
    assert ready(queue, 10.0) == [full]


async def test_a_full_batch_does_not_wait_for_the_one_behind_it_to_linger(queue: Accumulator) -> None:
    first, _, _ = add(queue, ONE, b"x" * 60)
    add(queue, ONE, b"y" * 60)
    assert ready(queue, 0.0) == [first]


async def test_a_busy_partition_sends_nothing(queue: Accumulator) -> None:
    add(queue, ONE, b"small")
    assert ready(queue, 100.0, busy=frozenset({ONE})) == []
    assert queue.next_departure(flushing=True, busy={ONE}) is None


async def test_a_batch_that_comes_back_goes_first_and_takes_no_more_records(queue: Accumulator) -> None:
    batch, _, _ = add(queue, ONE, b"one")
    queue.take(batch)
    batch.attempts, batch.not_before = 1, 3.0
    queue.put_back(batch)
    later, _, _ = add(queue, ONE, b"two")
    assert later is not batch
    assert ready(queue, 2.9, flushing=True) == []
    assert ready(queue, 3.0) == [batch]


async def test_the_halves_of_a_batch_take_its_place_and_its_deliveries_follow_them(queue: Accumulator) -> None:
    deliveries = [queue.add(ONE, 10, 1, (b"k", b"%d" % number, ()), 0.0)[0] for number in range(5)]
    behind, _, _ = add(queue, ONE, b"x" * 90)
    whole = deliveries[0].batch
    waiting = [asyncio.ensure_future(delivery.placed()) for delivery in deliveries]
    queue.take(whole)
    queue.split(whole)
    assert queue.unsettled == 3
    placed = 0
    while batches := ready(queue, 0.0, flushing=True):
        (batch,) = batches
        queue.take(batch)
        assert [record.offset for record in batch.records] == list(range(len(batch.records)))
        batch.done.set_result(Placed(ONE, placed, -1))
        placed += len(batch.records)
        queue.settle(batch)
    assert [place.offset for place in await asyncio.gather(*waiting)] == [0, 1, 2, 3, 4]
    assert behind.done.result().offset == 5
    assert queue.unsettled == 0


async def test_old_batches_are_taken_out_in_order(queue: Accumulator) -> None:
    old, _, _ = add(queue, ONE, b"x" * 90, now=1.0)
    young, _, _ = add(queue, ONE, b"y" * 90, now=5.0)
    assert list(queue.expired(2.0)) == [old]
    assert ready(queue, 5.0, flushing=True) == [young]
