"""A connection of ottla over a socket pair, the service behind it and the client at its other end."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

from ottla.net.busy_poll import BusyPoll
from ottla.net.connection import Connection, Deferred, Shared
from ottla.net.gather import PageCache
from ottla.net.hangups import Hangups
from ottla.net.intake import Intake
from ottla.net.turns import Turns

SECONDS = 60.0


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Recorder:
    """A service that notes what arrives and answers as told."""

    most_frame_bytes = 1 << 24

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.closed_because: str | None = None
        self.places: list[Deferred] = []
        self.unreadable_files: list[str] = []
        self.on_frame: Callable[[Connection, bytes], None] = lambda connection, body: connection.answer([frame(body)])

    def receive(self, connection: Connection, view: memoryview) -> None:
        assert not view.readonly, "offsets are written into the frame"
        body = bytes(view)
        self.frames.append(body)
        self.on_frame(connection, body)

    def closed(self, connection: Connection, reason: str) -> None:
        self.closed_because = reason

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        problem: BaseException | None = None
        try:
            work()
        except Exception as raised:
            problem = raised
        asyncio.get_running_loop().call_soon(done, problem)

    def unreadable(self, path: str, problem: BaseException) -> None:
        self.unreadable_files.append(path)


class Client:
    """The other end, and everything around the connection."""

    def __init__(
        self,
        service: Any = None,
        cache: PageCache | None = None,
        now: Callable[[], float] | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.service: Any = service or Recorder()
        self.socket, ours = socket.socketpair()
        ours.setblocking(False)
        self.socket.setblocking(False)
        self.loop = asyncio.get_running_loop()
        self.intake = Intake(1 << 30, self.loop)
        self.hangups = Hangups(self.loop)
        shared = Shared(
            self.loop,
            self.intake,
            cache or PageCache(),
            BusyPoll(self.loop),
            self.hangups,
            turns or Turns(self.loop),
            now or self.loop.time,
        )
        self.connection = Connection(ours, "test", "PLAINTEXT", shared, self.service)

    def close(self) -> None:
        self.connection.drop("")
        self.hangups.close()
        self.socket.close()

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.socket, data)

    async def receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = await asyncio.wait_for(self.loop.sock_recv(self.socket, min(size - len(data), 1 << 20)), SECONDS)
            assert part, "the connection was closed"
            data += part
        return bytes(data)

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = self.loop.time() + SECONDS
        while not condition():
            assert self.loop.time() < deadline, "it did not come about"
            await asyncio.sleep(0)
