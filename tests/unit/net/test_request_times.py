"""How requests are counted and timed, and which are told of as slow."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.wire.connections import Client, frame
from ottla.net.connection import Connection, Deferred
from ottla.net.request_times import BOUNDS, LINES, LINES_SECONDS, RequestMeter

SLOW = 1.0


class Clock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


class Measured:
    """A service whose requests take as long as their first byte says, in tenths of a second."""

    most_frame_bytes = 1 << 20

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.meter = RequestMeter(clock.now, asyncio.get_running_loop(), SLOW)
        self.times = self.meter.times("Produce")
        self.patience: float | None = None
        """Of an answer that is given later; None where it is given at once."""
        self.places: list[Deferred] = []

    def receive(self, connection: Connection, view: memoryview) -> None:
        connection.deferred = None
        connection.client_id = "shop"
        self.clock.seconds += view[0] / 10
        if self.patience is None:
            connection.answer([frame(b"done")])
        else:
            place = connection.defer()
            place.patience = self.patience
            self.places.append(place)
        self.meter.handled(connection, self.times)

    def closed(self, connection: Connection, reason: str) -> None:
        pass

    def in_thread(self, work: Any, done: Any) -> None:
        raise AssertionError("no file is sent here")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    clock = Clock()
    made = Client(Measured(clock), now=clock.now)
    yield made
    made.close()


async def ask(client: Client, *tenths: int) -> Measured:
    await client.send(b"".join(frame(bytes([each])) for each in tenths))
    service: Measured = client.service
    if service.patience is None:
        await client.receive(8 * len(tenths))
    else:
        await client.until(lambda: len(service.places) == len(tenths))
    return service


def place_of(seconds: float) -> int:
    return next(place for place, bound in enumerate((*BOUNDS, float("inf"))) if seconds <= bound)


def counts(*seconds: float) -> list[int]:
    expected = [0] * (len(BOUNDS) + 1)
    for each in seconds:
        expected[place_of(each)] += 1
    return expected


async def test_a_request_is_counted_by_how_long_it_took(client: Client) -> None:
    times = (await ask(client, 2)).times
    assert times.total == counts(0.2)
    assert times.seconds == pytest.approx(0.2)
    assert times.queue == counts(0.0)


async def test_a_request_that_came_with_others_waited_in_the_queue_for_them(client: Client) -> None:
    times = (await ask(client, 1, 3, 2)).times
    assert times.queue == counts(0.0, 0.1, 0.4)
    assert times.queued_seconds == pytest.approx(0.5)
    assert times.total == counts(0.1, 0.4, 0.6)


async def test_a_request_that_waits_for_others_is_counted_when_its_answer_is_there(client: Client) -> None:
    client.service.patience = 0.0
    service = await ask(client, 1)
    assert service.times.answered == 0
    service.clock.seconds += 0.6
    service.places[0].complete([frame(b"late")])
    assert service.times.total == counts(0.7)


async def test_a_slow_request_is_told_of_in_one_line(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    await ask(client, 5, 9)
    assert [record.message for record in caplog.records] == [
        "slow request: Produce of client shop at test took 1400 ms (500 in the queue, 900 at work, 0 waiting)"
    ]


async def test_time_that_the_client_asked_to_wait_is_not_slow(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.service.patience = 5.0
    service = await ask(client, 0, 0)
    service.clock.seconds += 5.5
    service.places[0].complete([frame(b"in time")])
    assert not caplog.records
    service.clock.seconds += 1.0
    service.places[1].complete([frame(b"late")])
    assert [record.message for record in caplog.records] == [
        "slow request: Produce of client shop at test took 6500 ms (0 in the queue, 0 at work, 6500 waiting)"
    ]


async def test_a_flood_of_slow_requests_becomes_a_few_lines_and_a_number(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[tuple[float, Any]] = []
    monkeypatch.setattr(client.service.meter, "_loop", Later(later))
    await ask(client, *[20] * (LINES + 7))
    assert len(caplog.records) == LINES
    [(seconds, tell)] = later
    assert seconds == LINES_SECONDS
    tell()
    assert caplog.records[-1].message == "slow requests: 7 more within a second"


class Later:
    """A loop that notes what it is to call."""

    def __init__(self, noted: list[tuple[float, Any]]) -> None:
        self._noted = noted

    def call_later(self, seconds: float, call: Any) -> None:
        self._noted.append((seconds, call))
