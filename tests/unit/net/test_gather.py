"""Replies made of bytes and file ranges leave whole and in order, whatever the system can do and the cache holds."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, current_thread, main_thread

import pytest

from kit.wire.connections import Client, Recorder, frame
from ottla.base.ports import File
from ottla.log.segment import FileRange
from ottla.net import gather
from ottla.net.connection import Connection
from ottla.net.gather import PageCache
from ottla.runtime.disk import RealDisk

CONTENT = bytes(range(251)) * 20_000


class ForgetfulCache(PageCache):
    """Holds no window of a file until somebody has read it."""

    def __init__(self) -> None:
        super().__init__()
        self.warmed: set[int] = set()
        self.asked: list[int] = []

    def holds_range(self, part: FileRange) -> bool:
        self.asked.append(part.position)
        return part.position in self.warmed


class WarmingRecorder(Recorder):
    """Warms in a real thread, as a broker does; `gate` holds that thread up."""

    def __init__(self, cache: ForgetfulCache) -> None:
        super().__init__()
        self.cache = cache
        self.gate = Event()
        self.gate.set()
        self.in_main_thread: list[bool] = []
        self._threads = ThreadPoolExecutor(1)

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        loop = asyncio.get_running_loop()
        position = self.cache.asked[-1]

        def run() -> None:
            self.gate.wait(120)
            self.in_main_thread.append(current_thread() is main_thread())
            work()
            self.cache.warmed.add(position)
            loop.call_soon_threadsafe(done, None)

        self._threads.submit(run)

    def close(self) -> None:
        self.gate.set()
        self._threads.shutdown()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    opened = RealDisk().open(str(path))
    yield opened
    opened.close()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = Client()
    yield made
    made.close()


@pytest.fixture
async def cold() -> AsyncIterator[Client]:
    cache = ForgetfulCache()
    made = Client(WarmingRecorder(cache), cache)
    yield made
    made.close()
    made.service.close()


def several_windows(file: File) -> tuple[FileRange, bytes]:
    length = 4 * gather.WINDOW + 123
    return FileRange(file, 1000, length), CONTENT[1000 : 1000 + length]


async def test_without_sendfile_a_range_of_several_windows_leaves_whole(
    client: Client, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "_SENDFILE", None)
    part, content = several_windows(file)
    client.service.on_frame = lambda connection, body: connection.answer([b"head", part, b"tail"])
    await client.send(frame(b"go") + frame(b"go"))
    expected = b"head" + content + b"tail"
    assert await client.receive(2 * len(expected)) == 2 * expected


async def test_without_sendfile_a_slow_reader_gets_every_byte_once(
    client: Client, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "_SENDFILE", None)
    part, content = several_windows(file)
    client.service.on_frame = lambda connection, body: connection.answer([part])
    await client.send(frame(b"go"))
    received = bytearray()
    while len(received) < len(content):
        # The socket fills up many times over, in the middle of windows.
        received += await client.receive(min(4_099, len(content) - len(received)))
    assert received == content
    assert client.connection.open


async def test_without_sendfile_a_range_that_was_cut_away_closes_the_connection(
    client: Client, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "_SENDFILE", None)
    beyond = FileRange(file, len(CONTENT) - 10, 2 * gather.WINDOW)
    client.service.on_frame = lambda connection, body: connection.answer([beyond])
    await client.send(frame(b"go"))
    await client.until(lambda: client.service.closed_because is not None)
    assert "ended before the range" in (client.service.closed_because or "")


async def test_a_cold_range_is_warmed_in_a_thread_window_by_window_and_then_sent(cold: Client, file: File) -> None:
    part, content = several_windows(file)
    cold.service.on_frame = lambda connection, body: connection.answer([part])
    await cold.send(frame(b"go"))
    assert await cold.receive(len(content)) == content
    assert len(cold.service.in_main_thread) >= 5
    assert not any(cold.service.in_main_thread)


@pytest.mark.parametrize("length", [100, gather.SMALL + 1], ids=["read with its neighbours", "sent by itself"])
async def test_replies_keep_their_order_around_a_cold_range(cold: Client, file: File, length: int) -> None:
    def answer(connection: Connection, body: bytes) -> None:
        connection.answer([FileRange(file, 7, length)] if body == b"cold" else [frame(body)])

    cold.service.on_frame = answer
    cold.service.gate.clear()
    await cold.send(frame(b"before") + frame(b"cold") + frame(b"after") + frame(b"last"))
    assert await cold.receive(10) == frame(b"before")
    await cold.until(lambda: len(cold.service.frames) == 4)
    cold.service.gate.set()
    expected = CONTENT[7 : 7 + length] + frame(b"after") + frame(b"last")
    assert await cold.receive(len(expected)) == expected


async def test_other_connections_are_served_while_a_range_is_warmed(cold: Client, client: Client, file: File) -> None:
    cold.service.on_frame = lambda connection, body: connection.answer([FileRange(file, 0, gather.WINDOW)])
    cold.service.gate.clear()
    await cold.send(frame(b"go"))
    await cold.until(lambda: bool(cold.service.cache.asked))
    for _ in range(10):
        await client.send(frame(b"other"))
        assert await client.receive(9) == frame(b"other")
    assert not cold.service.cache.warmed
    cold.service.gate.set()
    assert await cold.receive(gather.WINDOW) == CONTENT[: gather.WINDOW]


async def test_a_client_that_leaves_while_its_range_is_warmed_disturbs_nobody(cold: Client, file: File) -> None:
    cold.service.on_frame = lambda connection, body: connection.answer([FileRange(file, 0, gather.WINDOW)])
    cold.service.gate.clear()
    await cold.send(frame(b"go"))
    await cold.until(lambda: bool(cold.service.cache.asked))
    cold.connection.drop("")
    cold.service.gate.set()
    await cold.until(lambda: bool(cold.service.cache.warmed))
    assert not cold.connection.open


class ReadyAlways:
    """A socket that takes all it is given, and notes how much that was."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def send(self, data: memoryview, flags: int = 0) -> int:
        self.sizes.append(len(data))
        return len(data)


def test_a_large_answer_in_memory_leaves_in_several_turns() -> None:
    taker = ReadyAlways()
    queue = deque([b"head", bytearray(10 * gather.WINDOW + 1)])
    turns = 1
    while gather.transmit(taker, queue, PageCache()) is gather.SendProgress.TURN_OVER:  # type: ignore[arg-type]
        turns += 1
    assert turns >= 5
    assert max(taker.sizes) <= gather.WINDOW
    assert sum(taker.sizes) == 10 * gather.WINDOW + 5
    assert not queue
