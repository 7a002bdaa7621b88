"""What the parts of a broker stand on."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from ottla.base.settings.values import BrokerValues
from ottla.log.files import World
from ottla.metadata.image import ClusterImage
from ottla.replicas.context import BrokerContext, Platform, io_threads
from ottla.replicas.record_checks import RecordChecks
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom


async def test_searches_and_checks_of_clients_keep_no_flush_waiting_however_few_threads_there_are() -> None:
    values = BrokerValues({"node.id": "1", "num.io.threads": "1"})
    threads = ThreadPoolExecutor(io_threads(values))
    nothing: Any = None
    platform = Platform(
        asyncio.get_running_loop(), World(RealDisk(), RealClock(), RealRandom()), threads, links=nothing
    )
    context = BrokerContext(platform, 1, values, nothing, ClusterImage("cluster"), give_up=lambda reason: None)
    checks = RecordChecks(context.in_thread)
    gate = Event()
    checked: list[int] = []

    def check() -> Any:
        gate.wait()

    try:
        searches = [asyncio.create_task(context.search(gate.wait)) for _ in range(10)]
        for number in range(10):
            checks.run([check], lambda verdicts, number=number: checked.append(number))  # type: ignore[misc]
        for _ in range(10):
            await asyncio.sleep(0)
        assert await asyncio.wait_for(context.run_blocking(lambda: "flushed"), 60) == "flushed"
    finally:
        gate.set()
    assert await asyncio.gather(*searches) == [True] * 10
    while len(checked) < 10:
        await asyncio.wait_for(context.run_blocking(lambda: None), 60)
    threads.shutdown()
