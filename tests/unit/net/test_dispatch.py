"""Long requests are read between other work, and answered like any other."""

import asyncio
import struct
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from kit.wire.connections import Client, frame
from ottla.broker.apis import SERVED
from ottla.net import dispatch
from ottla.net.dispatch import LONG_REQUEST, Context, Dispatcher, RequestLimits
from ottla.runtime.world import RealClock
from ottla.wire.codec import PART_BYTES, decode, encode
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_configs import DescribeConfigsResponse as Response
from ottla.wire.messages.describe_configs import DescribeConfigsResult as Result

DESCRIBE_CONFIGS = 32
VERSION = 3


class Host:
    """Whom the handler serves; also the connections, of which only the end is told."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections: Any = self
        self.clock = RealClock()
        self.closed_because: str | None = None
        self.form = "answer"
        self.waiting: asyncio.Future[Response] = self.loop.create_future()
        self.turns = 0
        self.turns_before_the_answer = 0
        self.asked = 0
        self.error = 0
        self.gate = asyncio.Event()

    def closed(self, connection: object, reason: str) -> None:
        self.closed_because = reason

    def in_thread(self, work: Any, done: Any) -> None:
        raise AssertionError("no file is sent here")

    def count_turns(self) -> None:
        self.turns += 1
        if not self.waiting.cancelled():
            self.loop.call_soon(self.count_turns)

    def handle(self, host: "Host", request: DescribeConfigsRequest, context: Context) -> Any:
        self.turns_before_the_answer = self.turns
        self.asked += 1
        response = Response(
            results=[Result(error_code=self.error, resource_name=each.resource_name) for each in request.resources]
        )

        async def later() -> Response:
            await asyncio.sleep(0)
            return response

        if self.form == "failure":
            raise ValueError("no")
        if self.form == "future" and len(request.resources) > 1:
            return self.waiting

        async def when_open() -> Response:
            await self.gate.wait()
            return response

        if self.form == "gate":
            return when_open()
        return later() if self.form == "coroutine" else response


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    made = Host()
    yield made
    made.waiting.cancel()


@pytest.fixture
async def client(host: Host) -> AsyncIterator[Client]:
    made = a_client(host, room=100)
    yield made
    made.close()


def a_client(host: Host, room: int) -> Client:
    return Client(Dispatcher(host, SERVED, lambda api: host.handle, RequestLimits(1 << 24, room, 1.0)))


def question(count: int) -> bytes:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(2, f"topic-{at}") for at in range(count)])
    return struct.pack(">hhih", DESCRIBE_CONFIGS, VERSION, 77, -1) + bytes(encode(request, VERSION))


async def answer(client: Client) -> list[str]:
    (size,) = struct.unpack(">i", await client.receive(4))
    data = await client.receive(size)
    assert data[:4] == struct.pack(">i", 77)
    response, end = decode(Response, VERSION, data, 4)
    assert end == size
    return [result.resource_name for result in response.results]


@pytest.mark.parametrize("form", ["answer", "coroutine"])
async def test_a_long_request_leaves_turns_to_others_while_it_is_read(host: Host, client: Client, form: str) -> None:
    host.form = form
    host.count_turns()
    body = question(5_000)
    assert len(body) > LONG_REQUEST
    begun = host.turns
    await client.send(frame(body) + frame(question(1)))
    assert await answer(client) == [f"topic-{at}" for at in range(5_000)]
    assert host.turns_before_the_answer - begun >= 3
    assert await answer(client) == ["topic-0"]


async def test_an_answer_of_several_parts_arrives_whole_and_the_next_after_it(host: Host, client: Client) -> None:
    host.form = "coroutine"
    await client.send(frame(question(40_000)) + frame(question(2)))
    assert len(encode(Response(results=[Result(resource_name="topic-10000")]), VERSION)) * 40_000 > 3 * PART_BYTES
    assert await answer(client) == [f"topic-{at}" for at in range(40_000)]
    assert await answer(client) == ["topic-0", "topic-1"]


async def test_a_long_request_that_waits_for_others_holds_no_room(host: Host) -> None:
    host.form = "future"
    first = a_client(host, room=1)
    second = Client(first.service)
    await first.send(frame(question(5_000)))
    await first.until(lambda: host.asked == 1)
    host.form = "coroutine"
    await second.send(frame(question(1)))
    assert await answer(second) == ["topic-0"]
    host.waiting.set_result(Response(results=[Result(resource_name="released")]))
    assert await answer(first) == ["released"]
    first.close()
    second.close()


async def test_a_long_request_that_is_malformed_closes_its_connection(host: Host, client: Client) -> None:
    await client.send(frame(question(5_000)[:-100]))
    await client.until(lambda: host.closed_because is not None)
    assert "malformed" in (host.closed_because or "")


async def test_a_long_request_whose_handler_fails_closes_its_connection(host: Host, client: Client) -> None:
    # The answer has no error code of its own.
    host.form = "failure"
    await client.send(frame(question(5_000)))
    await client.until(lambda: host.closed_because is not None)


@pytest.mark.parametrize("form", ["answer", "coroutine", "future"])
@pytest.mark.parametrize("count", [2, 5_000])
async def test_errors_are_counted_once_however_the_answer_is_given(
    host: Host, client: Client, form: str, count: int
) -> None:
    host.form, host.error = form, 29
    host.waiting.set_result(Response(results=[Result(error_code=29)] * count))
    await client.send(frame(question(count)))
    assert len(await answer(client)) == count
    host.form, host.error = "answer", 0
    await client.send(frame(question(1)))
    await answer(client)
    service: Any = client.service
    assert service.meter.errors == {("DescribeConfigs", 29): count}


async def test_a_request_of_too_many_elements_closes_its_connection(
    host: Host, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "MOST_STEPS", 3000)
    await client.send(frame(question(5_000)))
    await client.until(lambda: host.closed_because is not None)
    assert "too many elements" in (host.closed_because or "")
    assert host.asked == 0


async def test_very_long_requests_are_worked_on_one_after_the_other_and_others_meanwhile(host: Host) -> None:
    host.form = "gate"
    first = a_client(host, room=100)
    second, third = Client(first.service), Client(first.service)
    very_long = question(30_000)
    assert len(very_long) > dispatch.VERY_LONG_REQUEST
    await first.send(frame(very_long))
    await first.until(lambda: host.asked == 1)
    await second.send(frame(very_long))
    await third.send(frame(question(5_000)))
    await third.until(lambda: host.asked == 2)
    for _ in range(50):
        await asyncio.sleep(0)
    assert host.asked == 2, "the second very long one waits"
    host.gate.set()
    assert len(await answer(second)) == 30_000
    for one in (first, second, third):
        one.close()


async def test_a_long_request_that_waits_for_its_turn_goes_with_its_client(host: Host) -> None:
    host.form = "gate"
    first = a_client(host, room=100)
    second = Client(first.service)
    very_long = question(30_000)
    await first.send(frame(very_long))
    await first.until(lambda: host.asked == 1)
    await second.send(frame(very_long))
    await second.until(lambda: second.intake._keepers != {})
    second.socket.close()
    await second.until(lambda: not second.connection.open)
    assert second.intake.used == 0
    assert first.service.in_progress == 2
    await second.until(lambda: first.service.in_progress == 1)
    host.gate.set()
    assert len(await answer(first)) == 30_000
    assert host.asked == 1
    first.close()
    second.close()


async def test_however_many_long_works_there_are_one_step_is_taken_between_other_requests() -> None:
    loop = asyncio.get_running_loop()
    line = asyncio.Lock()
    steps: list[int] = []
    turn = 0

    def work() -> Generator[None, None, int]:
        for _ in range(3):
            steps.append(turn)
            until = loop.time() + 2 * dispatch._STEP_SECONDS
            while loop.time() < until:
                pass
            for _ in range(dispatch._STEPS_BETWEEN_LOOKS):
                yield
        return 7

    tasks = [loop.create_task(dispatch.in_steps(work(), loop, line)) for _ in range(5)]
    while not all(task.done() for task in tasks):
        turn += 1
        await asyncio.sleep(0)
    assert [task.result() for task in tasks] == [7] * 5
    after_the_first = sorted(steps)[5:]
    assert len(after_the_first) == len(set(after_the_first)), "one step a turn"


async def test_of_all_long_requests_one_portion_is_worked_on_between_other_requests() -> None:
    dispatcher = Dispatcher(Host(), SERVED, lambda api: lambda *_: None, RequestLimits(100, 500, 1.0))
    portions: list[int] = []
    turn = 0

    async def work() -> None:
        for _ in range(3):
            await dispatcher.turn()
            portions.append(turn)

    tasks = [asyncio.create_task(work()) for _ in range(5)]
    while not all(task.done() for task in tasks):
        turn += 1
        await asyncio.sleep(0)
    assert len(portions) == len(set(portions)) == 15
