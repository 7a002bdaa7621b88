"""How a node is watched from outside: whether it lives, whether it serves, and its numbers.

Owns: what `/healthz`, `/readyz` and `/metrics` answer. Never knows: HTTP itself. Invariants: a node that is alive says
so even while it starts or waits for others; it is ready when clients can use it, until it is told to stop.
"""

from ottla.base.ports import Clock
from ottla.node.assembly import Assembly
from ottla.node.http import HttpServer, Reply
from ottla.node.metrics.exposition import CONTENT_TYPE
from ottla.node.metrics.scrape import Scrape

NOT_READY = 503


class Watching:
    """The answers of one node. `start` as soon as there is a loop, `stop` at the very end."""

    def __init__(self, assembly: Assembly, clock: Clock) -> None:
        self._assembly = assembly
        self._scrape = Scrape(assembly, clock)
        self._server = HttpServer({"/metrics": self._metrics, "/healthz": self._alive, "/readyz": self._ready})

    async def start(self, host: str, port: int) -> int:
        """Listen; answers the port. Raises OSError."""
        return await self._server.start(host, port)

    def leaving(self) -> None:
        """The node was told to stop."""
        self._scrape.leaving = True

    def stop(self) -> None:
        self._server.stop()

    async def _metrics(self) -> Reply:
        return Reply(200, await self._scrape.page(), CONTENT_TYPE)

    async def _alive(self) -> Reply:
        return Reply(200, "alive\n")

    async def _ready(self) -> Reply:
        obstacle = "it was told to stop" if self._scrape.leaving else _obstacle(self._assembly)
        return Reply(200, "ready\n") if obstacle is None else Reply(NOT_READY, f"not ready: {obstacle}\n")


def _obstacle(assembly: Assembly) -> str | None:
    """Why clients, or the nodes that this controller serves, cannot use this node yet."""
    if not assembly.cluster_id:
        return "it reads its data directories"
    if assembly.roles.broker:
        if assembly.broker is None:
            return "it joins the cluster and loads its logs"
        return "the controller has fenced it" if assembly.broker.lifecycle.fenced else None
    return "the quorum has no leader" if assembly.quorum.leader[0] < 0 else None
