"""A node that is told to stop before it came up leaves its directories to others only when it has ended with them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from ottla.client.links import NodeLinks
from ottla.log.files import World
from ottla.node.assembly import Addresses, Assembly
from ottla.node.listeners import Address
from ottla.node.options import Options, resolve
from ottla.replicas.context import Platform
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom

SECONDS = 30.0
A_WHILE = 0.2
"""Longer than a node that waits for nobody takes to stop."""


class SlowDisk(RealDisk):
    """Takes its time to put the directory of a partition aside."""

    def __init__(self) -> None:
        self.asked, self.answers, self.done = Event(), Event(), Event()

    def rename(self, old: str, new: str) -> None:
        if not old.endswith("orders-0"):
            super().rename(old, new)
            return
        self.asked.set()
        assert self.answers.wait(SECONDS)
        super().rename(old, new)
        self.done.set()


class Node(Assembly):
    """Remembers how far its disk was when it let its locks go."""

    def __init__(self, path: Path, disk: SlowDisk, threads: ThreadPoolExecutor) -> None:
        platform = Platform(asyncio.get_running_loop(), World(disk, RealClock(), RealRandom()), threads, NodeLinks())
        addresses = Addresses([Address("PLAINTEXT", "localhost", 1)], [])
        super().__init__(platform, resolve(Options(data=str(path))), addresses, lambda reason: None)
        self._disk = disk
        self.released_when_done: bool | None = None

    def release(self) -> None:
        self.released_when_done = self._disk.done.is_set()
        super().release()


async def test_a_node_that_stops_while_it_recovers_keeps_its_locks_until_the_recovery_has_ended(tmp_path: Path) -> None:
    threads = ThreadPoolExecutor(2)
    disk = SlowDisk()
    node = Node(tmp_path, disk, threads)
    node.open()
    await node.start()
    await node.stop()
    for partition in range(100):
        (tmp_path / f"orders-{partition}").mkdir()
    node = Node(tmp_path, disk, threads)
    node.open()
    starting = asyncio.create_task(node.start())
    assert await asyncio.to_thread(disk.asked.wait, SECONDS)
    starting.cancel()
    await asyncio.wait([starting])
    asyncio.get_running_loop().call_later(A_WHILE, disk.answers.set)
    await asyncio.wait_for(node.stop(), SECONDS)
    threads.shutdown()
    assert node.released_when_done
