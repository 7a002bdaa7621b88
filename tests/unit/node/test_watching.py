"""Whether a node is alive and ready: what it says at each step of its life."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.client.links import NodeLinks
from ottla.log.files import World
from ottla.node.assembly import Addresses, Assembly
from ottla.node.formatting import Wishes, format_directories
from ottla.node.listeners import Address
from ottla.node.options import Options, resolve
from ottla.node.watching import Watching
from ottla.replicas.context import Platform
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom

WORLD = World(RealDisk(), RealClock(), RealRandom())
NOBODY = 1
"""A port that nobody listens on."""


class Story:
    """A node, and those who watch it."""

    def __init__(self, path: Path, addresses: Addresses, *assignments: str) -> None:
        values = resolve(Options(data=str(path), assignments=assignments))
        if assignments:
            format_directories(WORLD, values, Wishes(None, False))
        self.threads = ThreadPoolExecutor(1)
        platform = Platform(asyncio.get_running_loop(), WORLD, self.threads, NodeLinks())
        self.assembly = Assembly(platform, values, addresses, self.give_up)
        self.watching = Watching(self.assembly, WORLD.clock)
        self.port = 0

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    async def ask(self, path: str) -> str:
        """The status and the text."""
        reader, writer = await asyncio.open_connection("localhost", self.port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        head, _, body = (await asyncio.wait_for(reader.read(), 30)).decode().partition("\r\n\r\n")
        writer.close()
        return f"{head.split()[1]} {body.strip()}"

    async def metrics(self) -> list[str]:
        return (await self.ask("/metrics")).splitlines()


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Story]:
    story = Story(tmp_path, Addresses([Address("PLAINTEXT", "localhost", NOBODY)], []))
    story.port = await story.watching.start("localhost", 0)
    yield story
    story.watching.stop()
    story.threads.shutdown()


async def test_a_broker_is_ready_when_it_has_come_up_and_until_it_is_told_to_stop(alone: Story) -> None:
    assert await alone.ask("/readyz") == "503 not ready: it reads its data directories"
    alone.assembly.open()
    assert await alone.ask("/readyz") == "503 not ready: it joins the cluster and loads its logs"
    assert "kafka_server_kafkaserver_brokerstate 1" in await alone.metrics()
    await alone.assembly.start()
    assert await alone.ask("/readyz") == "200 ready"
    assert "kafka_server_kafkaserver_brokerstate 3" in await alone.metrics()
    alone.watching.leaving()
    assert await alone.ask("/readyz") == "503 not ready: it was told to stop"
    assert "kafka_server_kafkaserver_brokerstate 6" in await alone.metrics()
    assert await alone.ask("/healthz") == "200 alive"
    await alone.assembly.stop()


async def test_a_controller_is_ready_when_its_quorum_has_a_leader(tmp_path: Path) -> None:
    story = Story(
        tmp_path,
        Addresses([], [Address("CONTROLLER", "localhost", NOBODY)]),
        "process.roles=controller",
        "listeners=CONTROLLER://localhost:1",
        f"controller.quorum.voters=1@localhost:{NOBODY},2@localhost:{NOBODY}",
    )
    story.port = await story.watching.start("localhost", 0)
    story.assembly.open()
    await story.assembly.start()
    assert await story.ask("/readyz") == "503 not ready: the quorum has no leader"
    assert await story.ask("/healthz") == "200 alive"
    assert "kafka_controller_kafkacontroller_activecontrollercount 0" in await story.metrics()
    await story.assembly.stop()
    story.watching.stop()
    story.threads.shutdown()
