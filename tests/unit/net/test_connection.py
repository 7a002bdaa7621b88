"""A connection hands frames over whole, keeps replies in order, and stops reading from a client that does not."""

import asyncio
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kit.wire.connections import Client, Recorder, frame
from ottla.log.segment import FileRange
from ottla.net import connection as connection_module
from ottla.net.connection import LEAST_PIECE, PIECE, Connection, Deferred
from ottla.net.connections import ConnectionLimits, Connections
from ottla.net.gather import PageCache
from ottla.net.intake import SHARED_SIZE
from ottla.net.turns import TURN_SECONDS, Turns
from ottla.runtime.disk import RealDisk, RealFile


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = Client()
    yield made
    made.close()


async def test_frames_that_arrive_together_are_answered_in_order(client: Client) -> None:
    bodies = [str(number).encode() * number for number in range(1, 40)]
    await client.send(b"".join(map(frame, bodies)))
    expected = b"".join(map(frame, bodies))
    assert await client.receive(len(expected)) == expected


async def test_a_frame_that_arrives_byte_by_byte_is_handed_over_whole(client: Client) -> None:
    for byte in frame(b"slowly"):
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await client.receive(10) == frame(b"slowly")


@pytest.mark.parametrize("size", [SHARED_SIZE - 5, SHARED_SIZE - 4, SHARED_SIZE, SHARED_SIZE + 1, 3_000_000])
async def test_a_frame_larger_than_the_shared_buffer_is_handed_over_whole(client: Client, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    client.service.on_frame = lambda connection, body: connection.answer([frame(b"ok")])
    await client.send(frame(b"before") + frame(body) + frame(b"after"))
    assert await client.receive(18) == frame(b"ok") * 3
    assert client.service.frames == [b"before", body, b"after"]
    assert client.intake.used == 0


@pytest.mark.parametrize("size", [-1, (1 << 24) + 1, -(2**31)])
async def test_a_frame_of_an_impossible_size_closes_the_connection(client: Client, size: int) -> None:
    await client.send(struct.pack(">i", size) + b"rest")
    await client.until(lambda: client.service.closed_because is not None)
    assert str(size) in (client.service.closed_because or "")


async def test_a_later_reply_waits_for_an_earlier_one(client: Client) -> None:
    places: list[Deferred] = []

    def answer(connection: Connection, body: bytes) -> None:
        if body == b"slow":
            places.append(connection.defer())
        else:
            connection.answer([frame(body)])

    client.service.on_frame = answer
    await client.send(frame(b"slow") + frame(b"fast") + frame(b"slow") + frame(b"end"))
    await client.until(lambda: len(places) == 2)
    places[1].complete([frame(b"second")])
    places[0].complete([frame(b"first")])
    expected = frame(b"first") + frame(b"fast") + frame(b"second") + frame(b"end")
    assert await client.receive(len(expected)) == expected


async def test_a_request_that_stands_alone_holds_the_following_ones_back(client: Client) -> None:
    places: list[Deferred] = []
    client.service.on_frame = lambda connection, body: places.append(connection.defer(alone=True))
    await client.send(frame(b"one") + frame(b"two"))
    await client.until(lambda: len(places) == 1)
    await client.send(frame(b"three"))
    await asyncio.sleep(0)
    assert client.service.frames == [b"one"]
    for number, body in enumerate((b"one", b"two", b"three")):
        await client.until(lambda number=number: len(places) > number)  # type: ignore[misc]
        assert len(places) == number + 1
        places[number].complete([frame(body)])
    assert await client.receive(23) == frame(b"one") + frame(b"two") + frame(b"three")


async def test_a_client_that_does_not_read_large_replies_is_not_read_from(client: Client) -> None:
    reply = frame(b"r" * 3_000_000)
    client.service.on_frame = lambda connection, body: connection.answer([reply])
    for _ in range(20):
        await client.send(frame(b"give"))
        await asyncio.sleep(0)
    assert len(client.service.frames) <= 3
    assert len(await client.receive(20 * len(reply))) == 20 * len(reply)


async def test_a_client_with_too_many_open_requests_is_not_read_from(client: Client) -> None:
    places: list[Deferred] = []
    client.service.on_frame = lambda connection, body: places.append(connection.defer())
    total = connection_module.MOST_WAITING + 20
    await client.send(b"".join(frame(b"%05d" % number) for number in range(total)))
    await client.until(lambda: len(places) == connection_module.MOST_WAITING)
    await asyncio.sleep(0)
    assert len(client.service.frames) == connection_module.MOST_WAITING
    for number in range(total):
        await client.until(lambda number=number: len(places) > number)  # type: ignore[misc]
        places[number].complete([frame(b"%05d" % number)])
    assert await client.receive(9 * total) == b"".join(frame(b"%05d" % number) for number in range(total))


async def test_a_client_that_never_reads_holds_a_bounded_number_of_replies(client: Client) -> None:
    reply = frame(b"r" * 60_000)
    client.service.on_frame = lambda connection, body: connection.answer([reply])
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    sent = 0
    with suppress(BlockingIOError):
        while sent < 100_000_000:
            sent += client.socket.send(frame(b"give"))
            await asyncio.sleep(0)
    assert len(client.service.frames) <= connection_module.MOST_UNSENT + 100
    received = 0
    while received < len(client.service.frames) * len(reply):
        received += len(await client.loop.sock_recv(client.socket, 1 << 20))


async def test_a_file_range_leaves_between_bytes(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = bytes(range(256)) * 20_000
    path.write_bytes(content)
    file = RealDisk().open(str(path))
    parts = [b"head", FileRange(file, 1000, 3_000_000), b"middle", FileRange(file, 5, 100), b"tail"]
    client.service.on_frame = lambda connection, body: connection.answer(list(parts))
    await client.send(frame(b"go") + frame(b"go"))
    expected = b"head" + content[1000:3_001_000] + b"middle" + content[5:105] + b"tail"
    assert await client.receive(len(expected) * 2) == expected * 2
    file.close()


async def test_a_range_that_was_cut_away_closes_the_connection(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    file = RealDisk().open(str(path))
    client.service.on_frame = lambda connection, body: connection.answer([FileRange(file, 50, 1000)])
    await client.send(frame(b"go"))
    await client.until(lambda: client.service.closed_because is not None)
    file.close()


async def test_the_stalest_unfinished_frame_makes_room_for_others() -> None:
    first, second = Client(), Client()
    second.connection._intake = first.intake
    first.intake._limit = 1_500_000
    await first.send(struct.pack(">i", 2_000_000) + b"x" * 1_000_000)
    await first.until(lambda: first.intake.used == 1_000_000)
    await second.send(struct.pack(">i", 2_000_000) + b"x" * 1_000_000)
    await second.until(lambda: first.service.closed_because is not None)
    assert second.connection.open
    for one in (first, second):
        one.close()
    assert first.intake.used == 0


async def test_a_client_that_leaves_is_noticed(client: Client) -> None:
    client.socket.close()
    await client.until(lambda: client.service.closed_because is not None)
    assert client.service.closed_because == ""


class NeverCached(PageCache):
    """Pages go again as soon as they were read: the system is short of memory."""

    def holds_range(self, part: FileRange) -> bool:
        return False


class BadSector(RealFile):
    """A file whose records cannot be read."""

    def read_at(self, position: int, length: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error", self.path)


async def test_records_whose_pages_never_stay_in_memory_are_sent_all_the_same(tmp_path: Path) -> None:
    client = Client(cache=NeverCached())
    path = tmp_path / "file"
    content = bytes(range(256)) * 20_000
    path.write_bytes(content)
    file = RealDisk().open(str(path))
    client.service.on_frame = lambda connection, body: connection.answer([b"head", FileRange(file, 0, len(content))])
    await client.send(frame(b"go"))
    assert await client.receive(4 + len(content)) == b"head" + content
    client.close()
    file.close()


async def test_records_that_cannot_be_read_end_the_connection_and_are_told_of(tmp_path: Path) -> None:
    client = Client(cache=NeverCached())
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    file = BadSector(str(path), os.open(path, os.O_RDONLY))
    client.service.on_frame = lambda connection, body: connection.answer([FileRange(file, 0, 100_000)])
    await client.send(frame(b"go"))
    await client.until(lambda: client.service.closed_because is not None)
    assert client.service.unreadable_files == [str(path)]
    client.close()
    file.close()


async def test_records_that_were_removed_before_they_could_be_read_say_nothing_about_the_disk(tmp_path: Path) -> None:
    client = Client(cache=NeverCached())
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    file = RealDisk().open(str(path))
    client.service.on_frame = lambda connection, body: connection.answer([FileRange(file, 0, 100_000)])
    file.close()
    await client.send(frame(b"go"))
    await client.until(lambda: client.service.closed_because is not None)
    assert client.service.unreadable_files == []
    client.close()


async def test_whoever_waits_for_an_answer_hears_that_its_client_left(client: Client) -> None:
    left: list[bytes] = []

    def wait(connection: Connection, body: bytes) -> None:
        connection.defer().abandoned = lambda: left.append(body)

    client.service.on_frame = wait
    await client.send(frame(b"one") + frame(b"two"))
    await client.until(lambda: len(client.service.frames) == 2)
    client.socket.close()
    await client.until(lambda: client.service.closed_because is not None)
    assert left == [b"one", b"two"]


@pytest.mark.parametrize("behind", [0, 50], ids=["nothing unread", "requests unread"])
async def test_a_client_that_leaves_while_it_is_not_read_from_is_noticed(client: Client, behind: int) -> None:
    def wait(connection: Connection, body: bytes) -> None:
        connection.defer().abandoned = lambda: None

    client.service.on_frame = wait
    most = connection_module.MOST_WAITING
    await client.send(frame(b"poll") * most)
    await client.until(lambda: len(client.service.frames) == most)
    await client.send(frame(b"poll") * behind)
    client.socket.close()
    await client.until(lambda: client.service.closed_because is not None)


async def test_a_client_that_only_says_it_sends_no_more_gets_the_answer_that_is_being_worked_on(
    client: Client,
) -> None:
    client.service.on_frame = lambda connection, body: client.service.places.append(connection.defer(alone=True))
    await client.send(frame(b"work"))
    await client.until(lambda: len(client.service.places) == 1)
    client.socket.shutdown(socket.SHUT_WR)
    for _ in range(20):
        await asyncio.sleep(0)
    client.service.places[0].complete([frame(b"done")])
    assert await client.receive(8) == frame(b"done")


async def test_a_request_that_waits_alone_lets_others_be_taken_when_it_says_so(client: Client) -> None:
    client.service.on_frame = lambda connection, body: client.service.places.append(connection.defer(alone=True))
    await client.send(frame(b"one") + frame(b"two") + frame(b"three"))
    await client.until(lambda: len(client.service.places) == 1)
    client.service.places[0].share()
    await client.until(lambda: len(client.service.places) == 2)
    client.service.places[1].share()  # but not behind one that waits
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(client.service.places) == 2


async def test_a_request_that_lets_others_be_taken_holds_no_memory_any_more(client: Client) -> None:
    def keep(connection: Connection, body: bytes) -> None:
        connection.keep(memoryview(body))
        client.service.places.append(connection.defer(alone=True))

    client.service.on_frame = keep
    await client.send(frame(bytes(2 * SHARED_SIZE)))
    await client.until(lambda: len(client.service.places) == 1)
    assert client.intake.used == 2 * SHARED_SIZE
    client.service.places[0].share()
    assert client.intake.used == 0


async def test_requests_that_came_together_and_take_long_let_others_have_their_turn() -> None:
    now = 0.0

    def work(connection: Connection, body: bytes) -> None:
        nonlocal now
        now += TURN_SECONDS * 0.6
        connection.started = now
        turns_seen.append(turns)
        connection.answer([frame(body)])

    client = Client(now=lambda: now)
    turns = 0
    turns_seen: list[int] = []
    client.service.on_frame = work
    await client.send(frame(b"long") * 10)
    while len(turns_seen) < 10:
        turns += 1
        await asyncio.sleep(0)
    assert len(set(turns_seen)) == 5, "two requests a turn"
    assert await client.receive(80) == frame(b"long") * 10
    client.close()


async def test_clients_whose_requests_came_together_share_a_turn() -> None:
    now = 0.0

    def work(connection: Connection, body: bytes) -> None:
        nonlocal now
        now += TURN_SECONDS * 0.6
        connection.started = now
        turns_seen.append(turn)
        connection.answer([frame(body)])

    turns = Turns(asyncio.get_running_loop())
    clients = [Client(now=lambda: now, turns=turns) for _ in range(10)]
    turn = 0
    turns_seen: list[int] = []
    for client in clients:
        client.service.on_frame = work
        await client.send(frame(b"long") * 10)
    while len(turns_seen) < 100:
        turn += 1
        await asyncio.sleep(0)
    assert max(map(turns_seen.count, turns_seen)) <= 11, "one request each, and one more"
    for client in clients:
        assert await client.receive(80) == frame(b"long") * 10
        client.close()


async def test_clients_whose_large_requests_come_together_share_a_turn() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += TURN_SECONDS
        return now

    size = 64 * LEAST_PIECE
    turns = Turns(asyncio.get_running_loop())
    clients = [Client(now=clock, turns=turns) for _ in range(10)]
    sending = [asyncio.create_task(client.send(frame(bytes(size)))) for client in clients]
    await until(lambda: all(client.intake.used for client in clients))
    before = sum(client.intake.used for client in clients)
    longest = 0
    while not all(client.service.frames for client in clients):
        await asyncio.sleep(0)
        used = sum(client.intake.used or size * len(client.service.frames) for client in clients)
        longest, before = max(longest, used - before), used
    assert longest <= PIECE + 10 * LEAST_PIECE
    for client, sent in zip(clients, sending, strict=True):
        await sent
        client.close()


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not come about"
        await asyncio.sleep(0)


class Crowd:
    """The connections of a broker, with a clock that the test sets."""

    def __init__(self, idle_seconds: float) -> None:
        self.now = 0.0
        self.service = Recorder()
        self.connections = Connections(
            asyncio.get_running_loop(), ConnectionLimits(100, 100, idle_seconds, 1 << 20), lambda: self.now
        )
        self.peer, ours = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.connections.accept(ours, "peer", "PLAINTEXT", self.service)

    def close(self) -> None:
        self.connections.close()
        self.peer.close()


async def test_a_reader_that_takes_its_answer_slowly_is_not_idle() -> None:
    crowd = Crowd(idle_seconds=10)
    crowd.service.on_frame = lambda connection, body: connection.answer([b"x" * 5_000_000])
    crowd.peer.send(frame(b"much"))
    await until(lambda: len(crowd.service.frames) == 1)
    received = 0
    while received < 4_000_000:
        crowd.now += 9
        crowd.connections.drop_idle()
        assert crowd.service.closed_because is None
        before = received
        with suppress(BlockingIOError):
            while received - before < 1_000_000:
                received += len(crowd.peer.recv(1 << 20))
        for _ in range(20):
            await asyncio.sleep(0)
    crowd.close()


async def test_a_client_that_takes_nothing_of_its_answer_is_idle() -> None:
    crowd = Crowd(idle_seconds=10)
    crowd.service.on_frame = lambda connection, body: connection.answer([b"x" * 5_000_000])
    crowd.peer.send(frame(b"much"))
    await until(lambda: len(crowd.service.frames) == 1)
    crowd.now += 11
    crowd.connections.drop_idle()
    assert crowd.service.closed_because == "idle for too long"
    crowd.close()


async def test_a_client_that_waits_for_an_answer_longer_than_the_limit_is_idle() -> None:
    crowd = Crowd(idle_seconds=10)
    crowd.service.on_frame = lambda connection, body: crowd.service.places.append(connection.defer())
    crowd.peer.send(frame(b"poll"))
    await until(lambda: len(crowd.service.places) == 1)
    crowd.now += 9
    crowd.connections.drop_idle()
    assert crowd.service.closed_because is None
    crowd.now += 2
    crowd.connections.drop_idle()
    assert crowd.service.closed_because == "idle for too long"
    crowd.close()


async def test_a_negative_limit_lets_connections_be_idle_for_ever() -> None:
    crowd = Crowd(idle_seconds=-0.001)
    crowd.now += 1e9
    crowd.connections.drop_idle()
    assert crowd.service.closed_because is None
    crowd.close()


async def test_a_client_that_left_while_its_request_was_worked_on_is_let_go_of_when_it_only_waits() -> None:
    client = Client()
    client.service.on_frame = lambda connection, body: client.service.places.append(connection.defer(alone=True))
    await client.send(frame(b"long"))
    await client.until(lambda: len(client.service.places) == 1)
    client.socket.close()
    for _ in range(50):
        await asyncio.sleep(0)
    assert client.connection.open
    left: list[str] = []
    (place,) = client.service.places
    place.abandoned = lambda: left.append("left")
    place.only_waits()
    assert left == ["left"]
    assert not client.connection.open
    client.hangups.close()
