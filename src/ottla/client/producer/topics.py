"""What a producer knows of its topics, kept up to date.

Owns: the routes, asking the cluster for topics that are wanted or old, and telling who waits. Never knows: records,
requests that carry them. Invariants: one question is under way at a time; a topic that is wanted is asked for until its
partitions have leaders or until it can never be had; a route is never thrown away, its sequence numbers go on.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.client.cluster import Cluster, Topic
from ottla.client.errors import BrokerError, ClientError
from ottla.client.producer.routes import Choice, Route
from ottla.client.retry import pause_before


class Ages(NamedTuple):
    """Seconds: when knowledge is old, when a topic that nobody uses is forgotten, how long one question may take."""

    old: float
    idle: float
    question: float


class Topics:
    """Started by its first wish; `close` ends it."""

    def __init__(self, cluster: Cluster, choice: Choice, ages: Ages, changed: Callable[[], None]) -> None:
        self.routes: dict[str, Route] = {}
        self.failures: dict[str, ClientError] = {}
        """Why a topic that is wanted is not here yet."""
        self._cluster = cluster
        self._choice = choice
        self._ages = ages
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._resting: dict[str, Route] = {}
        self._wanted: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(ages.old, self._grow_old)

    def want(self, topic: str) -> None:
        """Ask for a topic; `changed` is called when there is news."""
        self._wanted[topic] = None
        if self._task is None:
            self._task = self._loop.create_task(self._ask())

    def forget(self, topic: str) -> None:
        """Nobody waits for the topic any more."""
        self._wanted.pop(topic, None)
        self.failures.pop(topic, None)

    async def close(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        attempt = 0
        try:
            while self._wanted:
                wanted = list(self._wanted)
                try:
                    deadline = self._loop.time() + self._ages.question
                    self._take(wanted, await self._cluster.refresh(wanted, deadline, create=True))
                except ClientError as failure:
                    for name in wanted:
                        self.failures[name] = failure
                self._changed()
                if not self._wanted:
                    return
                attempt += 1
                await asyncio.sleep(pause_before(attempt, self._cluster.random, self._cluster.settings.pauses))
        finally:
            self._task = None

    def _take(self, wanted: list[str], found: dict[str, Topic | BrokerError]) -> None:
        for name in wanted:
            topic = found.get(name) or BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
            if isinstance(topic, BrokerError):
                self.failures[name] = topic
                if not topic.retriable:
                    self._wanted.pop(name, None)
                continue
            route = self.routes.get(name) or self._resting.pop(name, None) or Route(name, self._choice)
            route.learn(topic)
            self.routes[name] = route
            self.failures.pop(name, None)
            if all(part.leader in self._cluster.brokers for part in topic.partitions):
                self._wanted.pop(name, None)

    def _grow_old(self) -> None:
        self._timer = self._loop.call_later(self._ages.old, self._grow_old)
        horizon = self._loop.time() - self._ages.idle
        for name, route in list(self.routes.items()):
            if any(queue.used > horizon or queue.waiting or queue.flying for queue in route.queues):
                self.want(name)
            else:
                self._resting[name] = self.routes.pop(name)
