"""Taking connections: none while there is no room, without spinning, and the log is told now and then."""

import asyncio
import errno
import socket

import pytest

from ottla.net import listener as module
from ottla.net.listener import Listener, SocketOptions


class Door:
    """A listener that takes nobody the first times it could."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusals: int) -> None:
        monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
        self.refusals = refusals
        self.taken: asyncio.Future[socket.socket]

    def room(self) -> str | None:
        if not self.refusals:
            return None
        self.refusals -= 1
        return "all are in use"

    def accepted(self, client: socket.socket, _peer: str) -> None:
        self.taken.set_result(client)

    async def story(self) -> None:
        loop = asyncio.get_running_loop()
        self.taken = loop.create_future()
        listener = Listener("127.0.0.1", 0, SocketOptions())
        listener.start(loop, self.accepted, self.room)
        with socket.create_connection(("127.0.0.1", listener.port)):
            (await asyncio.wait_for(self.taken, 30)).close()
        listener.close()


def test_who_comes_while_there_is_no_room_waits_and_is_taken_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(monkeypatch, refusals=3)
    asyncio.run(door.story())
    assert door.refusals == 0
    assert caplog.messages == ["takes no connections for a moment: all are in use"]


def test_a_process_without_descriptors_takes_connections_when_it_has_some_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept = socket.socket.accept
    failures = [errno.EMFILE, errno.ENFILE, errno.EMFILE]

    def short(listening: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise OSError(failures.pop(), "Too many open files")
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", short)
    asyncio.run(Door(monkeypatch, refusals=0).story())
    assert failures == []
    assert caplog.messages == ["takes no connections for a moment: Too many open files"]
