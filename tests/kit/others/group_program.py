"""A program in a group without records: the client's coordination, and positions that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Self

from ottla.base.vocabulary import TopicPartition
from ottla.client.address import parse_addresses
from ottla.client.cluster import Cluster, ClusterSettings
from ottla.client.consumer.coordination import GroupCoordination, Subscribed
from ottla.client.consumer.group_settings import GroupSettings
from ottla.client.consumer.seam import RebalanceListener
from ottla.client.groups.vocabulary import OffsetAndMetadata
from ottla.client.settings import load
from ottla.client.settings.tables import CONSUMER

SECONDS = 60.0
POLL = 0.02
QUICK = {"heartbeat_interval_ms": 100, "session_timeout_ms": 45_000, "metadata_max_age_ms": 300}
"""Sessions are long: a machine that stands still for some seconds is no reason to lose partitions."""


class GroupProgram:
    """It polls all the time in a task of its own, unless told to be silent."""

    def __init__(self, bootstrap: str, group: str, **settings: Any) -> None:
        quick: dict[str, Any] = dict(QUICK)
        if settings.get("group_protocol") == "consumer":
            quick = {"metadata_max_age_ms": 300}
        loaded = load(CONSUMER, None, {"bootstrap_servers": bootstrap, "group_id": group, **quick, **settings})
        self.cluster = Cluster(parse_addresses(bootstrap), ClusterSettings.of(loaded))
        self.group = GroupCoordination(self.cluster, GroupSettings.of(loaded), self)
        self.held: frozenset[TopicPartition] = frozenset()
        self.where: dict[TopicPartition, int] = {}
        self.events: list[tuple[str, frozenset[TopicPartition]]] = []
        self.silent = False
        self.failure: BaseException | None = None
        self._polling: asyncio.Task[None] | None = None

    # --- the consumer's side of the seam ---

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.held |= frozenset(partitions)
        self.events.append(("assigned", frozenset(partitions)))

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.held -= frozenset(partitions)
        self.events.append(("revoked", frozenset(partitions)))

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.held -= frozenset(partitions)
        self.events.append(("lost", frozenset(partitions)))

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {each: OffsetAndMetadata(self.where[each]) for each in self.held if each in self.where}

    def committed_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.events.append(("committed", frozenset(offsets)))

    def wake(self) -> None:
        """It never waits."""

    # --- the program ---

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.held}

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, partitions in self.events if partitions]

    async def start(self, topics: Subscribed, listener: RebalanceListener | None = None) -> Self:
        await self.cluster.connect(self.cluster.deadline(SECONDS))
        self.group.subscribe(topics, listener)
        self._polling = asyncio.create_task(self._poll())
        return self

    async def _poll(self) -> None:
        while True:
            if not self.silent:
                try:
                    await self.group.poll(self.cluster.deadline(1))
                except Exception as failure:
                    self.failure = failure
                    return
            await asyncio.sleep(POLL)

    async def crash(self) -> None:
        """Without a word to anybody."""
        await self._stop()
        for task in self.group._tasks:
            task.cancel()
        self.group._link.close()
        await self.cluster.close()

    async def close(self) -> None:
        await self._stop()
        await self.group.close(self.cluster.deadline(SECONDS))
        await self.cluster.close()

    async def _stop(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


async def eventually(condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Until the condition holds; AssertionError after a while."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not in {seconds} s: {what}"
        await asyncio.sleep(POLL)


def shared(programs: Collection[GroupProgram], partitions: int) -> bool:
    """Whether each partition has one holder and the shares are even, as they are when a change is over."""
    held = [partition for program in programs for partition in program.held]
    shares = [len(program.held) for program in programs]
    return len(held) == len(set(held)) == partitions and 0 < min(shares) >= max(shares) - 1
