"""The clients that are connected: accepted within limits, dropped when idle.

Owns: the set of connections and their limits. Never knows: requests. Invariant: a connection is counted from its
acceptance until it is closed, by whichever side.
"""

import logging
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import NamedTuple

from ottla.net.busy_poll import BusyPoll
from ottla.net.connection import Connection, Service, Shared
from ottla.net.gather import PageCache
from ottla.net.hangups import Hangups
from ottla.net.intake import Intake
from ottla.net.turns import Turns

logger = logging.getLogger("ottla.net")


class ConnectionLimits(NamedTuple):
    most: int
    most_per_address: int
    idle_seconds: float
    """Without a limit where it is negative."""
    unfinished_bytes: int
    """What all unfinished requests together may hold in memory."""


class Connections:
    """Every connection of a broker."""

    def __init__(self, loop: AbstractEventLoop, limits: ConnectionLimits, now: Callable[[], float]) -> None:
        self._now = now
        self.limits = limits
        self._shared = Shared(
            loop, Intake(limits.unfinished_bytes, loop), PageCache(), BusyPoll(loop), Hangups(loop), Turns(loop), now
        )
        self.accepted: dict[str, int] = {}
        """How many came so far, by listener."""
        self._all: dict[Connection, None] = {}  # in the order of their coming
        self._per_address: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._all)

    def accept(self, accepted: socket.socket, peer: str, listener: str, service: Service) -> None:
        count = self._per_address.get(peer, 0)
        if len(self._all) >= self.limits.most or count >= self.limits.most_per_address:
            accepted.close()
            logger.warning("refused a connection from %s: there are %d, %d of its address", peer, len(self._all), count)
            return
        self._per_address[peer] = count + 1
        self.accepted[listener] = self.accepted.get(listener, 0) + 1
        self._all[Connection(accepted, peer, listener, self._shared, service)] = None

    def by_listener(self) -> dict[str, int]:
        """How many are open, by listener."""
        counts = dict.fromkeys(self.accepted, 0)
        for connection in self._all:
            counts[connection.listener] += 1
        return counts

    def closed(self, connection: Connection, reason: str) -> None:
        self._all.pop(connection, None)
        count = self._per_address.pop(connection.peer, 1) - 1
        if count > 0:
            self._per_address[connection.peer] = count
        if reason:
            logger.info("closed the connection from %s: %s", connection.peer, reason)

    def drop_idle(self) -> None:
        """Close connections on which no byte came or left for too long, as Kafka does, also of those that wait for an
        answer."""
        if self.limits.idle_seconds < 0:
            return
        oldest = self._now() - self.limits.idle_seconds
        for connection in tuple(self._all):
            if connection.last_moved < oldest:
                connection.drop("idle for too long")

    def close(self) -> None:
        for connection in tuple(self._all):
            connection.drop("")
        self._shared.hangups.close()
