"""A real broker that is not started: for tests of one of its parts, on their own loop and an empty disk of its own."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, TypeVar

from ottla.base.settings.values import BrokerValues
from ottla.broker.broker import Broker
from ottla.broker.ports import ControllerPort
from ottla.client.links import NodeLinks
from ottla.log.files import World
from ottla.log.store import LogStore
from ottla.replicas.context import Platform
from ottla.sim.disk import SimDisk
from ottla.sim.world import SimClock, SimRandom

T = TypeVar("T")


class NoThreads(Executor):
    """Work is done by whoever hands it in."""

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


def idle_broker(controller: ControllerPort, settings: Mapping[str, str] | None = None, *, node_id: int = 1) -> Broker:
    """Its logs are loaded, and it follows nobody."""
    loop = asyncio.get_running_loop()
    random = Random(node_id)
    clock = SimClock(loop.time, 0)
    world = World(SimDisk(random, clock.now_ms), clock, SimRandom(random))
    values = BrokerValues({"node.id": str(node_id), "log.dirs": "/data", **(settings or {})})
    store = LogStore(values.listing("log.dirs"), world)
    store.open(node_id, controller.image.cluster_id)
    broker = Broker(Platform(loop, world, NoThreads(), NodeLinks()), node_id, values, store, controller, _give_up)
    store.load(lambda name: broker.replicas.settings_of(broker.image, name.topic))
    return broker


def _give_up(reason: str) -> None:
    raise AssertionError(reason)
