"""The till counts as acknowledged what the cluster acknowledged, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count

import ottla.testing
from ottla.demo.proof import compare, read_everything
from ottla.demo.shop import Event
from ottla.demo.till import Till
from ottla.runtime.world import RealClock

TOPIC = "orders"


def events() -> Iterator[Event]:
    moment = RealClock().now_ms()
    for number in count():
        yield Event(TOPIC, b"key", str(number).encode(), moment)


@asynccontextmanager
async def open_till(bootstrap: str, told: Iterator[Event], rate: float = 500.0) -> AsyncIterator[Till]:
    till = Till(told, bootstrap, rate, RealClock())
    task = asyncio.create_task(till.run())
    till.open()
    try:
        yield till
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if happened():
                return
            await asyncio.sleep(0.01)


async def test_what_is_acknowledged_is_in_the_topic_and_a_paused_till_sends_nothing() -> None:
    with ottla.testing.broker() as broker:
        broker.create_topic(TOPIC)
        async with open_till(broker.bootstrap, events()) as till:
            await until(lambda: till.acknowledged.total() >= 50)
            await till.pause()
            assert till.sent == till.acknowledged.total() == till.by_topic[TOPIC]
            assert till.overdue(float("inf")) == 0
            assert compare(till.acknowledged, await read_everything([TOPIC], broker.bootstrap)).whole
            assert 0 < till.waits().half <= till.waits().nearly_all <= till.waits().longest <= till.longest_wait


async def test_a_till_that_is_behind_its_rate_sends_nothing_either_once_it_is_paused() -> None:
    with ottla.testing.broker() as broker:
        broker.create_topic(TOPIC)
        async with open_till(broker.bootstrap, events(), rate=1e9) as till:
            await until(lambda: till.acknowledged.total() >= 50)
            await till.pause()
            sent = till.sent
            found = await read_everything([TOPIC], broker.bootstrap)
            assert till.sent == sent == till.acknowledged.total()
            assert compare(till.acknowledged, found).whole


async def test_events_that_are_refused_are_failures_and_not_acknowledged() -> None:
    with ottla.testing.broker() as broker:
        broker.create_topic(TOPIC)
        broker.fail_next("Produce", 1, "INVALID_RECORD")
        async with open_till(broker.bootstrap, events()) as till:
            await until(lambda: bool(till.failures) and till.acknowledged.total() > 0)
            await till.pause()
            assert till.sent == till.acknowledged.total() + len(till.failures)
            assert compare(till.acknowledged, await read_everything([TOPIC], broker.bootstrap)).whole


async def test_an_event_whose_time_has_not_come_is_not_sent() -> None:
    asked: list[Event] = []

    def told() -> Iterator[Event]:
        for number, event in enumerate(events()):
            asked.append(event if number < 10 else event._replace(timestamp=event.timestamp + 3_600_000))
            yield asked[-1]

    with ottla.testing.broker() as broker:
        broker.create_topic(TOPIC)
        async with open_till(broker.bootstrap, told()) as till:
            await until(lambda: len(asked) == 11 and till.acknowledged.total() == 10)
            assert till.sent == 10
