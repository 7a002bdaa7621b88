"""The brokers a producer sends to.

Owns: a connection to each and when the next attempt to open one may be made. Never knows: what is sent.
Invariant: one attempt a broker at a time; after failures the pauses grow.
"""

import asyncio
from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.retry import Pauses, pause_before


class ProducerNode:
    """One broker."""

    __slots__ = ("connection", "failures", "flights", "node_id", "not_before", "opening")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.connection: Connection | None = None
        self.opening: asyncio.Task[None] | None = None
        self.flights = 0
        """Requests on their way to it."""
        self.failures = 0
        self.not_before = 0.0


class Nodes:
    """`news` is called with None when a broker is connected, and with the topic it was wanted for when it cannot be."""

    def __init__(self, cluster: Cluster, pauses: Pauses, seconds: float, news: Callable[[str | None], None]) -> None:
        self._cluster = cluster
        self._pauses = pauses
        self._seconds = seconds
        self._news = news
        self._nodes: dict[int, ProducerNode] = {}

    def node(self, node_id: int) -> ProducerNode:
        found = self._nodes.get(node_id)
        if found is None:
            found = self._nodes[node_id] = ProducerNode(node_id)
        return found

    def open(self, node: ProducerNode, topic: str, now: float) -> float:
        """See to it that the broker will be connected; the answer is when to come again if nobody calls before."""
        if node.opening is not None:
            return float("inf")
        if node.not_before > now:
            return node.not_before
        node.opening = asyncio.get_running_loop().create_task(self._open(node, topic))
        return float("inf")

    async def close(self) -> None:
        tasks = [node.opening for node in self._nodes.values() if node.opening is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, node: ProducerNode, topic: str) -> None:
        loop = asyncio.get_running_loop()
        wanted: str | None = None
        try:
            node.connection = await self._cluster.connection(node.node_id, loop.time() + self._seconds)
            node.failures = 0
        except ClientError:  # whatever waits for the broker waits until its own time is over
            node.failures += 1
            node.not_before = loop.time() + pause_before(node.failures, self._cluster.random, self._pauses)
            wanted = topic
        finally:
            node.opening = None
        self._news(wanted)
