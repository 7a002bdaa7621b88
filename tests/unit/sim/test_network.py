"""Streams between simulated hosts, under the real connection of the client."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from ottla.sim.loop import Scheduler, SimLoop
from ottla.sim.network import WINDOW, Network, SimSocket


class Collector(asyncio.BufferedProtocol):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self._buffer = bytearray(1000)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Wires:
    """A client and a server that answers with what it hears."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(Random(seed))
        self.network = Network(self.scheduler)
        self.client = self.loop("client")
        self.server = self.loop("server")
        self.accepted: list[SimSocket] = []
        self.network.listen(9092, self.server, self.accept)

    def loop(self, name: str) -> SimLoop:
        loop = SimLoop(self.scheduler, name)
        self.network.attach(loop)
        return loop

    def accept(self, socket: SimSocket, peer: str) -> None:
        assert peer == "client"
        self.accepted.append(socket)
        self.server.add_reader(socket.fileno(), self.echo, socket)

    def echo(self, socket: SimSocket) -> None:
        buffer = bytearray(10_000)
        try:
            count = socket.recv_into(memoryview(buffer))
        except ConnectionResetError:
            count = 0
        if count:
            socket.send(buffer[:count])
        else:
            self.server.remove_reader(socket.fileno())

    def connect(self, seconds: float = 5.0) -> tuple[asyncio.Transport, Collector]:
        async def dial() -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
            async with asyncio.timeout(seconds):
                return await self.client.create_connection(Collector, "server", 9092)

        transport, protocol = self.scheduler.complete(self.client, dial(), seconds + 1)
        assert isinstance(protocol, Collector)
        return transport, protocol

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> bool:
        deadline = self.scheduler.now + seconds
        while not condition() and self.scheduler.now < deadline:
            self.scheduler.run_for(0.01)
        return condition()


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_in_order_whatever_the_delays(seed: int) -> None:
    wires = Wires(seed)
    wires.network.weather.spike_chance = 0.3
    wires.network.weather.fragment_chance = 0.5
    transport, protocol = wires.connect()
    sent = Random(seed).randbytes(50_000)
    for start in range(0, len(sent), 1000):
        transport.write(sent[start : start + 1000])
    assert wires.until(lambda: len(protocol.received) == len(sent), 60)
    assert bytes(protocol.received) == sent


def test_nobody_listening_is_refused() -> None:
    wires = Wires(1)
    wires.network.stop_listening(wires.server)
    with pytest.raises(ConnectionRefusedError):
        wires.connect()


def test_a_machine_without_power_says_nothing() -> None:
    wires = Wires(1)
    wires.network.cut_power(wires.server)
    wires.server.kill()
    with pytest.raises(TimeoutError):
        wires.connect()


def test_a_killed_process_resets_its_connections() -> None:
    wires = Wires(1)
    _, protocol = wires.connect()
    wires.network.kill(wires.server)
    wires.server.kill()
    assert wires.until(lambda: bool(protocol.lost))
    assert isinstance(protocol.lost[0], ConnectionResetError)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_sent_into_a_cut_arrives_after_it_or_the_connection_is_lost(seed: int) -> None:
    wires = Wires(seed)
    transport, protocol = wires.connect()
    wires.network.cut("client", "server")
    transport.write(b"first")
    transport.write(b"second")
    wires.scheduler.run_for(5)
    assert protocol.received == b""
    wires.network.mend("client", "server")
    assert wires.until(lambda: protocol.received == b"firstsecond" or bool(protocol.lost))


def test_a_cut_is_one_way_when_it_is_told_so() -> None:
    wires = Wires(1)
    transport, protocol = wires.connect()
    wires.network.cut("server", "client")
    transport.write(b"hello")
    wires.scheduler.run_for(1)
    assert protocol.received == b""
    assert wires.accepted[0].outgoing, "the server heard it and answered"


def test_a_reader_that_does_not_read_fills_the_window() -> None:
    wires = Wires(1)
    transport, _ = wires.connect()
    wires.until(lambda: bool(wires.accepted))
    wires.server.remove_reader(wires.accepted[0].fileno())
    transport.write(bytes(2 * WINDOW))
    wires.scheduler.run_for(1)
    assert len(wires.accepted[0].inbox) == WINDOW
