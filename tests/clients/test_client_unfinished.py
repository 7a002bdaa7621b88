"""Blocks of a consumer that an exception leaves: what was in hand is read again, what was finished is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import ottla
import ottla.blocking
from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill
from kit.wire.batches import Rec
from ottla.base.vocabulary import TopicPartition

VALUES = [b"%d" % each for each in range(6)]


class DatabaseIsDown(Exception):
    """What a program meets while it is at work on a record."""


class Witness:
    """An interceptor that changes nothing."""

    def on_consume(self, records: Any) -> Any:
        return records


def settings(broker: Broker, topic: str, **more: Any) -> Any:
    servers = f"{broker.host}:{broker.port}"
    return {"bootstrap_servers": servers, "group_id": topic, "auto_offset_reset": "earliest", **more}


def prepare(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 1)
    fill(broker, topic, [Rec(each) for each in VALUES])


async def one_by_one(consumer: ottla.Consumer) -> AsyncIterator[bytes]:
    async for record in consumer:
        yield record.value


def polling(size: int) -> Callable[[ottla.Consumer], AsyncIterator[bytes]]:
    async def values(consumer: ottla.Consumer) -> AsyncIterator[bytes]:
        while True:
            for record in await consumer.poll(1.0, size):
                yield record.value

    return values


async def columns(consumer: ottla.Consumer) -> AsyncIterator[bytes]:
    while True:
        batch = await consumer.poll_arrow(1.0, max_rows=2)
        for value in batch.column("value").to_pylist():
            yield value


CASES = [
    pytest.param(one_by_one, {}, 2, id="async for"),
    pytest.param(one_by_one, {"interceptor_classes": [Witness()]}, 2, id="async for with an interceptor"),
    pytest.param(polling(1), {}, 2, id="poll one"),
    pytest.param(polling(2), {}, 2, id="poll two"),
    pytest.param(polling(100), {}, 0, id="poll all"),
    pytest.param(columns, {}, 2, id="columns"),
]


async def first_value(broker: Broker, topic: str) -> bytes:
    """Where the group goes on."""
    async with asyncio.timeout(60), ottla.Consumer(topic, **settings(broker, topic)) as consumer:
        async for record in consumer:
            value: bytes = record.value
            return value
    raise AssertionError("nothing came")


@pytest.mark.parametrize(("values", "more", "expected"), CASES)
async def test_a_record_whose_processing_raised_is_read_again_and_those_finished_before_are_not(
    broker: Broker, topic: str, values: Any, more: dict[str, Any], expected: int
) -> None:
    prepare(broker, topic)

    async def program() -> None:
        async with asyncio.timeout(60), ottla.Consumer(topic, **settings(broker, topic, **more)) as consumer:
            async for value in values(consumer):
                if value == b"2":
                    raise DatabaseIsDown

    with pytest.raises(DatabaseIsDown):
        await program()
    assert await first_value(broker, topic) == b"%d" % expected


async def test_a_program_that_is_cancelled_at_work_has_not_finished(broker: Broker, topic: str) -> None:
    prepare(broker, topic)
    at_work = asyncio.Event()

    async def program() -> None:
        async with ottla.Consumer(topic, **settings(broker, topic)) as consumer:
            async for record in consumer:
                if record.value == b"3":
                    at_work.set()
                    await asyncio.Event().wait()

    running = asyncio.create_task(program())
    async with asyncio.timeout(60):
        await at_work.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert await first_value(broker, topic) == b"3"


@pytest.mark.parametrize("more", [{}, {"interceptor_classes": [Witness()]}])
async def test_a_loop_in_which_the_consumer_is_closed_ends(broker: Broker, topic: str, more: dict[str, Any]) -> None:
    prepare(broker, topic)
    seen = []
    async with asyncio.timeout(60), ottla.Consumer(topic, **settings(broker, topic, **more)) as consumer:
        async for record in consumer:
            seen.append(record.value)
            await consumer.close()
    assert seen == VALUES[:1]
    assert await first_value(broker, topic) == b"1"


async def test_a_commit_is_the_programs_word_and_is_not_taken_back(broker: Broker, topic: str) -> None:
    prepare(broker, topic)

    async def program() -> None:
        async with asyncio.timeout(60), ottla.Consumer(topic, **settings(broker, topic)) as consumer:
            assert len(await consumer.poll(30.0)) == len(VALUES)
            await consumer.commit({TopicPartition(topic, 0): 4})
            raise DatabaseIsDown

    with pytest.raises(DatabaseIsDown):
        await program()
    assert await first_value(broker, topic) == b"4"


@pytest.mark.parametrize("by_name", [False, True])
async def test_a_commit_in_a_loop_says_nothing_of_the_records_that_follow(
    broker: Broker, topic: str, by_name: bool
) -> None:
    prepare(broker, topic)

    async def program() -> None:
        async with asyncio.timeout(60), ottla.Consumer(topic, **settings(broker, topic)) as consumer:
            async for record in consumer:
                if record.value == b"4":
                    raise DatabaseIsDown
                await consumer.commit({TopicPartition(topic, 0): record.offset + 1} if by_name else None)

    with pytest.raises(DatabaseIsDown):
        await program()
    assert await first_value(broker, topic) == b"4"


@pytest.mark.parametrize("arrow", [False, True])
async def test_a_program_that_polls_inside_its_loop_gets_every_record_once(
    broker: Broker, topic: str, arrow: bool
) -> None:
    create_topic(broker, topic, 1)
    values = [b"%d" % each for each in range(40)]
    fill(broker, topic, [Rec(each) for each in values])
    found: list[bytes] = []
    more = settings(broker, topic, max_poll_records=10)
    async with asyncio.timeout(60), ottla.Consumer(topic, **more) as consumer:
        async for record in consumer:
            found.append(record.value)
            if arrow:
                found += (await consumer.poll_arrow(0.0, max_rows=3)).column("value").to_pylist()
            else:
                found += [each.value for each in await consumer.poll(0.0, 3)]
            if len(found) >= len(values):
                break
    assert found == values


async def test_a_loop_goes_on_having_its_record_in_hand_after_a_poll_of_another_partition(
    broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (zero, one):
        fill(broker, topic, [Rec(each) for each in VALUES], partition=partition.partition)

    async def program() -> None:
        async with asyncio.timeout(60), ottla.Consumer(topic, **settings(broker, topic)) as consumer:
            async for record in consumer:
                here = TopicPartition(record.topic, record.partition)
                if record.value == b"1":
                    consumer.pause(here)
                    await consumer.poll(0.0, 1)
                    consumer.resume(here)
                if record.value == b"3":
                    raise DatabaseIsDown

    with pytest.raises(DatabaseIsDown):
        await program()
    with ottla.blocking.Admin(bootstrap_servers=f"{broker.host}:{broker.port}") as admin:
        committed = {each: row.offset for each, row in admin.group_offsets(topic).items()}
    assert 3 in committed.values()
    assert max(committed.values()) <= 3


async def test_a_block_that_is_left_in_peace_commits_what_was_handed_over(broker: Broker, topic: str) -> None:
    prepare(broker, topic)
    assert await first_value(broker, topic) == b"0"
    assert await first_value(broker, topic) == b"1"


# --- without asyncio --------------------------------------------------------------------------------------------------


def looping(consumer: ottla.blocking.Consumer) -> Iterator[bytes]:
    for record in consumer:
        yield record.value


def polling_two(consumer: ottla.blocking.Consumer) -> Iterator[bytes]:
    while True:
        for record in consumer.poll(1.0, 2):
            yield record.value


@pytest.mark.parametrize("values", [looping, polling_two])
def test_the_same_holds_for_threads(
    broker: Broker, topic: str, values: Callable[[ottla.blocking.Consumer], Iterator[bytes]]
) -> None:
    prepare(broker, topic)

    def program() -> None:
        with ottla.blocking.Consumer(topic, **settings(broker, topic)) as consumer:
            for value in values(consumer):
                if value == b"2":
                    raise DatabaseIsDown

    with pytest.raises(DatabaseIsDown):
        program()
    with ottla.blocking.Consumer(topic, **settings(broker, topic)) as consumer:
        assert next(iter(consumer)).value == b"2"


def test_a_commit_in_a_loop_has_the_epoch_and_is_not_taken_back(broker: Broker, topic: str) -> None:
    prepare(broker, topic)
    here = TopicPartition(topic, 0)

    def program() -> None:
        with ottla.blocking.Consumer(**settings(broker, topic)) as consumer:
            consumer.assign([here])
            for record in consumer:
                if record.value == b"2":
                    consumer.commit()
                    raise DatabaseIsDown

    with pytest.raises(DatabaseIsDown):
        program()
    with ottla.blocking.Consumer(**settings(broker, topic)) as consumer:
        found = consumer.committed([here])[here]
        assert found is not None
        assert (found.offset, found.leader_epoch) == (3, 0)


def test_a_commit_in_a_loop_does_not_wait_for_positions_that_nobody_knows(broker: Broker, topic: str) -> None:
    prepare(broker, topic)
    other = TopicPartition(f"{topic}-missing", 0)
    with ottla.blocking.Consumer(**settings(broker, topic)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert next(iter(consumer)).value == b"0"
        consumer._run(lambda: _assign(consumer, [TopicPartition(topic, 0), other]))
        assert list(consumer.positions()) == [TopicPartition(topic, 0)]
        consumer.commit()
        assert consumer.committed([other]) == {other: None}


async def _assign(consumer: ottla.blocking.Consumer, partitions: list[TopicPartition]) -> None:
    """As a rebalance does it while a loop has records left."""
    consumer._inner.assign(partitions)


def test_columns_begin_with_what_a_loop_was_not_given(broker: Broker, topic: str) -> None:
    prepare(broker, topic)
    with ottla.blocking.Consumer(topic, **settings(broker, topic)) as consumer:
        loop = iter(consumer)
        assert [next(loop).value, next(loop).value] == VALUES[:2]
        found: list[bytes] = []
        while len(found) < 4:
            found += consumer.poll_arrow(5.0).column("value").to_pylist()
    assert found == VALUES[2:]


def test_a_loop_that_gave_its_partitions_up_is_left_by_its_own_exception(broker: Broker, topic: str) -> None:
    prepare(broker, topic)

    def program() -> None:
        with ottla.blocking.Consumer(topic, **settings(broker, topic)) as consumer:
            for _ in consumer:
                consumer.unsubscribe()
                raise DatabaseIsDown

    with pytest.raises(DatabaseIsDown):
        program()


def test_where_a_loop_sought_to_is_its_word_also_when_it_fails(broker: Broker, topic: str) -> None:
    prepare(broker, topic)

    def program() -> None:
        with ottla.blocking.Consumer(topic, **settings(broker, topic)) as consumer:
            for record in consumer:
                consumer.seek(TopicPartition(topic, 0), record.offset + 3)
                raise DatabaseIsDown

    with pytest.raises(DatabaseIsDown):
        program()
    with ottla.blocking.Consumer(topic, **settings(broker, topic)) as consumer:
        assert next(iter(consumer)).value == b"3"
