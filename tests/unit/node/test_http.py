"""The small HTTP server of a node: what it answers, and that nobody who asks can cost much."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from kit.worlds.loop_time import LoopTime
from ottla.node import http
from ottla.node.http import MOST_CONNECTIONS, MOST_REQUEST_BYTES, HttpServer, Reply

DEADLINE = 60.0


class Place:
    """A server that runs, and what it was asked."""

    def __init__(self) -> None:
        self.server = HttpServer({"/fine": self.fine, "/long": self.long, "/broken": self.broken})
        self.port = 0
        self.asked = 0

    async def fine(self) -> Reply:
        self.asked += 1
        return Reply(200, "fine\n")

    async def long(self) -> Reply:
        self.asked += 1
        return Reply(200, "x" * 32_000_000)

    async def broken(self) -> Reply:
        raise ValueError("no")

    async def ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("localhost", self.port)
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(), DEADLINE)
        finally:
            writer.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + DEADLINE
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, "it did not come about"
            await asyncio.sleep(0.001)

    async def closes(self, reader: asyncio.StreamReader) -> bool:
        """Whether the server has ended a connection without a word."""
        try:
            return await asyncio.wait_for(reader.read(), DEADLINE) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    made.port = await made.server.start("localhost", 0)
    yield made
    made.server.stop()


async def test_a_path_is_answered_and_the_connection_closed(place: Place) -> None:
    answer = await place.ask(b"GET /fine?x=1 HTTP/1.1\r\nHost: here\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: 5",
        b"Connection: close",
    ]
    assert body == b"fine\n"


async def test_head_has_no_body(place: Place) -> None:
    answer = await place.ask(b"HEAD /fine HTTP/1.0\r\n\r\n")
    assert b"Content-Length: 5" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /elsewhere HTTP/1.1", b"404 Not Found"),
        (b"POST /fine HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /broken HTTP/1.1", b"500 Internal Server Error"),
        (b"GET /fine", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00", b"400 Bad Request"),
        (b"GET /\xff HTTP/1.1", b"400 Bad Request"),
        (b"GET /fine FTP/7", b"400 Bad Request"),
    ],
)
async def test_what_cannot_be_served_is_told_why(place: Place, request_line: bytes, status: bytes) -> None:
    answer = await place.ask(request_line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert place.asked == 0


async def test_a_question_in_pieces_is_put_together(place: Place) -> None:
    reader, writer = await asyncio.open_connection("localhost", place.port)
    for piece in (b"GET /fi", b"ne HTTP/1.1\r\n", b"\r", b"\n"):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    assert (await asyncio.wait_for(reader.read(), DEADLINE)).endswith(b"fine\n")
    writer.close()


async def test_a_question_without_end_is_refused(place: Place) -> None:
    answer = await place.ask(b"GET /fine HTTP/1.1\r\nX: " + b"y" * MOST_REQUEST_BYTES)
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_who_says_nothing_is_dropped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.02)
    reader, writer = await asyncio.open_connection("localhost", place.port)
    assert await place.closes(reader)
    writer.close()


async def test_who_does_not_take_the_answer_is_dropped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    loop_time = LoopTime(monkeypatch)
    _, writer = await asyncio.open_connection("localhost", place.port, limit=1024)
    writer.write(b"GET /long HTTP/1.1\r\n\r\n")
    await place.until(lambda: place.asked == 1)
    assert place.server.connections == 1
    loop_time.forward(http.SECONDS)
    await place.until(lambda: place.server.connections == 0)
    writer.close()


async def test_there_are_never_more_than_a_few_connections(place: Place) -> None:
    waiting = [await asyncio.open_connection("localhost", place.port) for _ in range(MOST_CONNECTIONS)]
    await place.until(lambda: place.server.connections == MOST_CONNECTIONS)
    reader, writer = await asyncio.open_connection("localhost", place.port)
    assert await place.closes(reader)
    writer.close()
    _, first = waiting[0]
    first.close()
    await place.until(lambda: place.server.connections < MOST_CONNECTIONS)
    assert (await place.ask(b"GET /fine HTTP/1.1\r\n\r\n")).endswith(b"fine\n")
    for _, each in waiting[1:]:
        each.close()
