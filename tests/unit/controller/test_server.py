"""What the controller's server learns from the connections of brokers."""

import asyncio
import struct
from concurrent.futures import Executor
from typing import Any, cast

from kit.machines.clusters import cluster
from kit.wire.connections import Client, frame
from ottla.controller.server import ControllerServer, ServerContext
from ottla.metadata.image import ClusterImage
from ottla.net.connections import ConnectionLimits
from ottla.net.dispatch import RequestLimits
from ottla.runtime.world import RealClock
from ottla.wire.codec import encode
from ottla.wire.links import LinkDown
from ottla.wire.messages.fetch import FetchRequest, ReplicaState

FETCH, VERSION = 1, 17


class Chief:
    """A controller of one broker, which it gives up when it is told to."""

    node_id = 100
    active = True

    def __init__(self) -> None:
        self.image: ClusterImage = cluster(1)
        self.lost: list[int] = []

    def when_leading(self, hear: Any) -> None:
        """It leads all the time."""

    def broker_lost(self, broker_id: int, why: str) -> None:
        self.lost.append(broker_id)


class Quorum:
    """Has nothing to tell: whoever fetches waits."""

    def __init__(self) -> None:
        self.asked = 0

    async def handle(self, request: object, version: int) -> Any:
        self.asked += 1
        await asyncio.Event().wait()


class NobodyListens:
    def link(self, host: str, port: int) -> "NobodyListens":
        return self

    async def ask(self, *question: object) -> Any:
        raise LinkDown("connection refused", refused=True)

    def close(self) -> None:
        """Nothing is open."""


async def test_a_broker_that_is_killed_while_it_waits_for_facts_is_missed_though_its_wait_is_not_over() -> None:
    chief, quorum = Chief(), Quorum()
    context = ServerContext(
        asyncio.get_running_loop(), cast(Executor, None), cast(Any, NobodyListens()), RealClock(), None
    )
    server = ControllerServer(
        context,
        cast(Any, chief),
        cast(Any, quorum),
        ConnectionLimits(10, 10, 600, 1 << 20),
        RequestLimits(1 << 20, 10, 60),
    )
    broker = Client(server.dispatcher)
    request = FetchRequest(replica_state=ReplicaState(replica_id=1), max_wait_ms=3_600_000)
    head = struct.pack(">hhih", FETCH, VERSION, 7, -1) + b"\0"
    await broker.send(frame(head + encode(request, VERSION)))
    await broker.until(lambda: quorum.asked == 1)
    broker.socket.close()
    await broker.until(lambda: chief.lost == [1])
    broker.close()
    await server.stop()
