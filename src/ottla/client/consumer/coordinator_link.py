"""The way to a group's coordinator.

Owns: which broker it is, and two connections to it: one for membership, where a join may wait for minutes, and one for
offsets. Never knows: what is asked. Invariants: many askers look for the coordinator once; after `lost` the next
question looks for it anew.
"""

import asyncio
from enum import Enum
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.coordinators import CoordinatorKind, find_coordinator
from ottla.client.errors import ConnectionFailed, DeadlineExceeded
from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)


class Lane(Enum):
    """Which connection: what is asked on one waits for what was asked before."""

    MEMBERSHIP = "membership"
    OFFSETS = "offsets"


class CoordinatorLink:
    """One group's coordinator, found and asked."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._node: int | None = None
        self._connections: dict[Lane, tuple[int, Connection]] = {}
        """And which broker each goes to."""
        self._opening = {lane: asyncio.Lock() for lane in Lane}
        self._finding = asyncio.Lock()

    async def ask(self, lane: Lane, request: Root, answer: type[R], deadline: float, *, highest: int = LATEST) -> R:
        try:
            connection = self._standing(lane) or await self._open(lane, deadline)
            return await connection.ask(request, answer, deadline, highest=highest)
        except (ConnectionFailed, DeadlineExceeded):
            self.lost()
            raise

    def lost(self) -> None:
        """The coordinator is not there, or not the coordinator any more."""
        self._node = None

    def hang_up(self, lane: Lane) -> None:
        """Whatever waits on this connection waits no longer."""
        _, connection = self._connections.pop(lane, (0, None))
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for lane in Lane:
            self.hang_up(lane)

    def _standing(self, lane: Lane) -> Connection | None:
        node, connection = self._connections.get(lane, (0, None))
        return connection if connection is not None and node == self._node and not connection.closed else None

    async def _open(self, lane: Lane, deadline: float) -> Connection:
        async with self._opening[lane]:
            node = await self._find(deadline)
            connection = self._standing(lane)
            if connection is None:
                self.hang_up(lane)
                connection = await self._cluster.dedicated(node, deadline)
                self._connections[lane] = node, connection
            return connection

    async def _find(self, deadline: float) -> int:
        async with self._finding:
            if self._node is None:
                soon = min(deadline, self._cluster.deadline(self._cluster.settings.request_seconds))
                self._node = await find_coordinator(self._cluster, CoordinatorKind.GROUP, self._group_id, soon)
            return self._node
