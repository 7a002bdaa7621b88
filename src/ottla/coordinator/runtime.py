"""The machines of one kind that this broker runs: a shard for each partition of their internal topic that it leads.

Owns: which shard a name belongs to, the topic's creation on first use, loading and giving up shards. Never knows: what
the machines decide. Invariants: a name is served by the one shard it leads to, and only once that is loaded; a shard is
thrown away when its partition is led elsewhere, or here again in another epoch: the log alone says what the next begins
with.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.replicas.commits import Commits
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition
from ottla.wire.links import LinkDown
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

logger = logging.getLogger("ottla.broker")

MOST_REMEMBERED = 10_000
"""Names whose partition is kept at hand."""
CREATE_MS = 30_000
QUORUM = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")


class TopicPlan(NamedTuple):
    """How an internal topic is made: its name and the settings that say the rest."""

    name: str
    partitions: str
    replicas: str
    segment_bytes: str
    configs: Mapping[str, str]
    in_sync: str | None = None
    """The setting for the replicas that a write needs, where there is one of its own."""


class Shard(Protocol):
    """One led partition with its machine."""

    partition: Partition
    loaded: bool
    commit_seconds: float

    @property
    def leads(self) -> bool: ...

    def begin(self) -> None: ...

    def stop(self) -> None: ...


S = TypeVar("S", bound=Shard)
A = TypeVar("A")


class TopicCreator(Protocol):
    """Whoever creates topics: a controller, or the way to one."""

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse: ...


class CoordinatorRuntime(ABC, Generic[S]):
    """All shards of one kind on this broker: those of groups, or those of transactions."""

    plan: TopicPlan

    def __init__(self, context: BrokerContext, commits: Commits, controller: TopicCreator) -> None:
        self.context = context
        self.commits = commits
        self._controller = controller
        self._shards: dict[int, S] = {}
        self._opening: dict[int, Partition] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._creating: asyncio.Task[None] | None = None
        self._hashes: dict[str, int] = {}

    # --- what a kind of machine says ---

    @abstractmethod
    def _make(self, partition: Partition) -> S:
        """The shard of a partition, not loaded yet."""

    @abstractmethod
    async def _load(self, shard: S) -> bool:
        """Apply to the shard's machine what its log says; answers whether that worked."""

    # --- which shard ---

    def partition_of(self, name: str) -> int:
        """The number of the partition that holds a name."""
        topic = self.context.image.topics.get(self.plan.name)
        if topic is not None:
            count = len(topic.partitions)
        else:
            count = self.context.values.integer(self.plan.partitions)
        found = self._hashes.get(name)
        if found is None:
            if len(self._hashes) >= MOST_REMEMBERED:
                self._hashes.clear()
            found = self._hashes[name] = java_hash(name)
        return found % count

    def shard(self, name: str) -> S | ErrorCode:
        """The shard that serves a name, or why it cannot be asked here and now."""
        return self.shard_at(self.partition_of(name))

    def shard_at(self, index: int) -> S | ErrorCode:
        """The shard of a partition, or why it cannot be asked here and now."""
        shard = self._shards.get(index)
        if shard is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if index in self._opening else ErrorCode.NOT_COORDINATOR
        if not shard.leads:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def shards(self) -> Iterator[S | ErrorCode]:
        """All shards led here."""
        if self._opening:
            yield ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for shard in self._shards.values():
            if shard.leads:
                yield shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def settled(
        self, names: Iterable[str] | None, answer: A, refused: Callable[[ErrorCode], A]
    ) -> "A | asyncio.Future[A]":
        """An answer that tells of these names (None: of all), as soon as what it tells is committed."""
        from ottla.coordinator.shard import settled

        found = self.shards() if names is None else (self.shard(name) for name in names)
        return settled(self.commits, [shard for shard in found if not isinstance(shard, ErrorCode)], answer, refused)

    # --- the topic ---

    @property
    def topic_exists(self) -> bool:
        return self.plan.name in self.context.image.topics

    async def create_topic(self) -> None:
        """Try to make the topic unless it is there; everybody who asks meanwhile waits for the same creation."""
        if self.topic_exists:
            return
        if self._creating is None:
            self._creating = self.context.loop.create_task(self._create())
        await asyncio.shield(self._creating)

    async def _create(self) -> None:
        values = self.context.values
        plan = self.plan
        replicas = values.integer(plan.replicas)
        if values.own_text(plan.replicas) is None:
            replicas = max(1, min(replicas, self._expected_brokers()))
        configs = {**plan.configs, "segment.bytes": str(values.integer(plan.segment_bytes))}
        if plan.in_sync is not None:
            # More than there are would make the topic useless.
            configs["min.insync.replicas"] = str(min(values.integer(plan.in_sync), replicas))
        topic = CreatableTopic(
            name=plan.name,
            num_partitions=values.integer(plan.partitions),
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
        )
        try:
            answer = await self._controller.create_topics(CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_MS))
            for result in answer.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    logger.warning("%s is not made yet: %s", plan.name, result.error_message)
        except LinkDown as problem:
            logger.warning("%s is not made yet: %s", plan.name, problem)
        finally:
            self._creating = None

    def _expected_brokers(self) -> int:
        """More replicas than brokers make no topic: unless told otherwise, a node that is alone does with one.

        But a cluster that is just starting knows only some of its brokers, and would keep for ever what it begins
        with: where brokers are voters too, as many as there are voters will come.
        """
        values = self.context.values
        voters = 0
        if "controller" in values.listing("process.roles"):
            voters = max(len(values.listing(name)) for name in QUORUM)
        return max(len(self.context.image.brokers), voters)

    # --- what the replica manager tells ---

    def led(self, partition: Partition) -> None:
        """This broker leads a partition from now on."""
        if partition.name.topic != self.plan.name:
            return
        if not self._opening:
            # In the next turn of the loop, so that a node is ready before it has looked at its machines.
            self.context.loop.call_soon(self._open)
        self._opening[partition.index] = partition

    def unled(self, partition: Partition) -> None:
        """This broker no longer leads a partition, or not in the epoch that it did."""
        if partition.name.topic != self.plan.name:
            return
        self._opening.pop(partition.index, None)
        loading = self._loading.pop(partition.index, None)
        if loading is not None:
            loading.cancel()
        shard = self._shards.pop(partition.index, None)
        if shard is not None:
            shard.stop()

    def _open(self) -> None:
        opening, self._opening = self._opening, {}
        for index, partition in opening.items():
            log = partition.log
            if log is None or not partition.leads:
                continue
            shard = self._shards[index] = self._make(partition)
            if log.end_offset == log.start_offset:
                shard.begin()
            else:
                self._loading[index] = self.context.loop.create_task(self._load_and_begin(index, shard))

    async def _load_and_begin(self, index: int, shard: S) -> None:
        # All that is in the log: it is committed while this broker leads, or the shard goes; answers wait for that.
        loaded = await self._load(shard)
        if self._shards.get(index) is not shard:
            return
        del self._loading[index]
        if loaded and shard.leads:
            shard.begin()
        else:
            del self._shards[index]

    def removed(self, topic: str) -> None:
        """A topic is gone."""
        if topic == self.plan.name:
            self._give_up()

    # --- the end ---

    def _give_up(self) -> None:
        shards = list(self._shards.values())
        self._shards.clear()
        self._opening.clear()
        for task in self._loading.values():
            task.cancel()
        self._loading.clear()
        for shard in shards:
            shard.stop()

    async def stop(self) -> None:
        """Answer everybody who waits; what is stored is in the logs."""
        self._give_up()
        # The answers leave with the next turn of the loop.
        await asyncio.sleep(0)


def java_hash(text: str) -> int:
    """What Java makes of a string, without its sign: it decides which partition holds a name."""
    number = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        number = (31 * number + (data[position] << 8) + data[position + 1]) & 0xFFFFFFFF
    # Java's smallest number has no positive counterpart; Kafka takes zero for it.
    return number if number < 0x80000000 else (0x100000000 - number) & 0x7FFFFFFF
