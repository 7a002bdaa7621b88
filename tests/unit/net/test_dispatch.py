"""Long requests are read between other work, and answered like any other."""

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.broker.apis import SERVED
from ottla.net.dispatch import LONG_REQUEST, Context, Dispatcher, Limits
from ottla.runtime.world import RealClock
from ottla.wire.codec import PART_BYTES, decode, encode
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_configs import DescribeConfigsResponse as Response
from ottla.wire.messages.describe_configs import DescribeConfigsResult as Result
from support.connections import Client, frame

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
    return Client(Dispatcher(host, SERVED, lambda api: host.handle, Limits(1 << 24, room, 1.0)))


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
