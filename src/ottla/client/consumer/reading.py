"""The machinery behind a consumer: what it holds, what is buffered, and the tasks that fill the buffer.

Owns: putting fetcher, locator and buffer together, and what one tells the other. Never knows: the program's calls,
groups (it is the `Holder` that a coordination talks to). Invariants: failures that a program must hear are kept until
it does, one of each kind and subject; records are taken in the order in which they arrived.
"""

import asyncio
from collections.abc import Collection, Mapping
from re import Pattern
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.ports import Clock, Random
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Cluster, ClusterSettings, Opener
from ottla.client.connection import open_connection
from ottla.client.consumer.buffer import Buffer, Chunk, Read
from ottla.client.consumer.fetcher import Fetcher, FetcherParts
from ottla.client.consumer.in_hand import InHand
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.limits import FetchLimits
from ottla.client.consumer.locator import Locator, Topics
from ottla.client.consumer.positions import Held, Holdings
from ottla.client.errors import ClientError, fresh
from ottla.client.groups.vocabulary import OffsetAndMetadata
from ottla.client.settings import Settings
from ottla.records.record import ConsumedRecord
from ottla.runtime.world import RealClock, RealRandom

if TYPE_CHECKING:
    from ottla.records.columns import ColumnReader

_KEPT_FAILURES = 100


class World(NamedTuple):
    """What a consumer takes from outside: the machine's, or a simulation's."""

    clock: Clock
    random: Random
    opener: Opener = open_connection


def real_world() -> World:
    return World(RealClock(), RealRandom())


class Reading:
    """Needs a running event loop; `close` it at the end."""

    def __init__(self, settings: Settings, world: World, interceptors: Interceptors, read: Read | None) -> None:
        self.cluster = Cluster(settings.addresses(), ClusterSettings.of(settings), world.random, world.opener)
        self.limits = FetchLimits.of(settings)
        self.holdings = Holdings()
        self.in_hand = InHand()
        self.buffer = Buffer(self._drained, self.limits.max_bytes // 2)
        reach = FetcherParts(self.cluster, self.holdings, self.buffer, self.limits)
        self.fetcher = Fetcher(reach, self)
        self.locator = Locator(reach, self, world.clock)
        self.alone: Topics = ()
        """Topics that are read whole, without a group."""
        self._interceptors = interceptors
        self._read = read
        self._woken = asyncio.Event()
        self._failures: dict[str, ClientError] = {}

    async def close(self) -> None:
        for partition in self.holdings.partitions():
            self.holdings.remove(partition)
        await self.fetcher.close()
        await self.locator.close()
        await self.cluster.close()

    # --- what is held -------------------------------------------------------------------------------------------------

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in sorted(partitions):  # they are asked for in this order, and a set has another in every process
            if partition not in self.holdings:
                self.holdings.add(partition)
        self.locator.doubt()
        self.wake()

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.holdings.remove(partition)
        self.buffer.sweep()

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.revoked(partitions)

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """These and no others; those held before go on where they were."""
        self.revoked(self.holdings.partitions().difference(partitions))
        self.assigned(partitions)

    def read_alone(self, topics: Topics) -> None:
        """All partitions of these topics, also those that come later."""
        self.alone = self.locator.wanted = topics
        self.locator.doubt()

    def topics_seen(self) -> None:
        alone = self.alone
        known = self.cluster.topics
        if isinstance(alone, Pattern):
            too = self.limits.internal_topics
            names = [name for name, topic in known.items() if alone.fullmatch(name) and (too or not topic.internal)]
        else:
            names = [name for name in alone if name in known]
        for name in names:
            for row in known[name].partitions:
                partition = TopicPartition(name, row.number)
                if partition not in self.holdings:
                    self.holdings.add(partition)

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {
            held.partition: OffsetAndMetadata(held.position, "", held.epoch)
            for held in self.holdings
            if held.position >= 0
        }

    def committed_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._interceptors.on_commit(offsets)

    # --- what the tasks tell ------------------------------------------------------------------------------------------

    def wake(self) -> None:
        self._woken.set()

    def arrived(self) -> None:
        self._woken.set()

    def failed(self, failure: ClientError) -> None:
        if len(self._failures) < _KEPT_FAILURES:
            self._failures[str(failure)] = failure
        self._woken.set()

    def leader_doubtful(self, held: Held) -> None:
        self.locator.doubt()

    def trouble(self, held: Held, failure: ClientError) -> None:
        self.fetcher.trouble(held, failure)

    def out_of_range(self, held: Held) -> None:
        self.locator.out_of_range(held)

    def located(self) -> None:
        self.fetcher.wake()
        self._woken.set()

    def _drained(self) -> None:
        self.fetcher.drained()

    # --- taking -------------------------------------------------------------------------------------------------------

    def raise_failure(self) -> None:
        """What the program has not heard yet."""
        if self._failures:
            raise fresh(self._failures.pop(next(iter(self._failures))))

    async def wait(self, deadline: float | None) -> bool:
        """Until something has changed; False when the deadline came first."""
        self._woken.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True

    def first(self) -> Chunk | None:
        """The chunk to go on with; it has records at hand. Raises when they cannot be had."""
        buffer = self.buffer
        while True:
            chunk = buffer.first()
            if chunk is None or chunk.load(self._read):
                return chunk
            buffer.remove_first()

    def take(self, limit: int) -> list[ConsumedRecord]:
        """Up to so many records; what fails is raised once those before it were handed over."""
        taken: list[ConsumedRecord] = []
        while len(taken) < limit:
            try:
                chunk = self.first()
            except ClientError as failure:
                if taken:
                    break
                raise fresh(failure) from failure.__cause__
            if chunk is None:
                break
            self.in_hand.part(chunk.held)
            taken.extend(chunk.take(limit - len(taken)))
        return taken

    def take_columns(self, columns: "ColumnReader", max_rows: int, max_bytes: int) -> None:
        """What is buffered, up to the limits; bytes are counted in the fullest column, after each partition's part."""
        buffer = self.buffer
        while columns.rows < max_rows and columns.size < max_bytes:
            chunk = buffer.first()
            if chunk is None:
                return
            self.in_hand.part(chunk.held)
            begun = chunk.held.position
            try:
                if chunk.add_to(columns, begun + max_rows - columns.rows):
                    buffer.remove_first()
                elif chunk.held.position == begun:
                    return  # the columns can hold no more
            except ClientError:
                if columns.rows:
                    return
                raise
