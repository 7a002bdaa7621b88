"""The groups this broker coordinates: a shard for each partition of `__consumer_offsets` that it leads.

Owns: which shard a group belongs to, the topic's creation on first use, loading and giving up shards. Never knows: what
groups do. Invariants: a group is served by the one shard its id leads to, and only once that is loaded.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.partitions import Partition
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.base.settings.values import BrokerValues
    from ottla.broker.broker import Broker
    from ottla.broker.group_shard import GroupShard
    from ottla.groups.decision import Limits

OFFSETS_TOPIC = "__consumer_offsets"
MOST_REMEMBERED = 10_000
"""Groups whose partition is kept at hand."""
CREATE_MS = 30_000


class GroupHost:
    """See the module."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._shards: dict[int, GroupShard] = {}
        self._opening: list[Partition] = []
        self._loading: set[asyncio.Task[None]] = set()
        self._creating: asyncio.Task[None] | None = None
        self._hashes: dict[str, int] = {}

    # --- which shard ---

    def partition_of(self, group_id: str) -> int:
        """The number of the partition that holds a group."""
        topic = self._broker.image.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            count = len(topic.partitions)
        else:
            count = self._broker.values.integer("offsets.topic.num.partitions")
        found = self._hashes.get(group_id)
        if found is None:
            if len(self._hashes) >= MOST_REMEMBERED:
                self._hashes.clear()
            found = self._hashes[group_id] = java_hash(group_id)
        return found % count

    def shard(self, group_id: str) -> "GroupShard | ErrorCode":
        """The shard that serves a group, or why it cannot be asked here and now."""
        shard = self._shards.get(self.partition_of(group_id))
        if shard is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._opening else ErrorCode.NOT_COORDINATOR
        if shard.partition.log is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def shards(self) -> "Iterator[GroupShard | ErrorCode]":
        """All shards led here."""
        if self._opening:
            yield ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for shard in self._shards.values():
            if shard.partition.log is not None:
                yield shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    # --- the topic ---

    @property
    def topic_exists(self) -> bool:
        return OFFSETS_TOPIC in self._broker.image.topics

    async def create_topic(self) -> None:
        """Make the topic unless it is there; everybody who asks meanwhile waits for the same creation."""
        if self.topic_exists:
            return
        if self._creating is None:
            self._creating = self._broker.loop.create_task(self._create())
        await asyncio.shield(self._creating)

    async def _create(self) -> None:
        values = self._broker.values
        live = sum(broker.active for broker in self._broker.image.brokers.values())
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(values.integer("offsets.topic.segment.bytes")),
        }
        topic = CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=values.integer("offsets.topic.num.partitions"),
            replication_factor=max(1, min(values.integer("offsets.topic.replication.factor"), live)),
            configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
        )
        try:
            await self._broker.controller.create_topics(CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_MS))
        finally:
            self._creating = None

    # --- what the publisher tells ---

    def led(self, partition: Partition) -> None:
        """This broker leads a partition from now on."""
        if partition.name.topic != OFFSETS_TOPIC:
            return
        if not self._opening:
            # In the next turn of the loop, so that a node is ready before it has looked at its groups.
            self._broker.loop.call_soon(self._open)
        self._opening.append(partition)

    def _open(self) -> None:
        from ottla.broker.group_shard import GroupShard

        opening, self._opening = self._opening, []
        allowed = limits(self._broker.values)
        for partition in opening:
            log = partition.log
            if log is None:
                continue
            shard = self._shards[partition.index] = GroupShard(self._broker, partition, allowed)
            if log.high_watermark == log.start_offset:
                shard.begin()
                continue
            task = self._broker.loop.create_task(self._load(shard))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def _load(self, shard: "GroupShard") -> None:
        from ottla.broker.group_loading import load

        loaded = await load(self._broker, shard.partition, shard.machine)
        if self._shards.get(shard.partition.index) is not shard:
            return
        if loaded:
            shard.begin()
        else:
            del self._shards[shard.partition.index]

    def removed(self, topic: str) -> None:
        """A topic is gone, and with it the offsets that groups have in it."""
        if topic == OFFSETS_TOPIC:
            self._give_up()
            return
        for shard in self._shards.values():
            if shard.loaded:
                shard.carry_out_in_portions(shard.machine.decide_topics_removed([topic]).facts)

    # --- the end ---

    def _give_up(self) -> None:
        shards = list(self._shards.values())
        self._shards.clear()
        self._opening.clear()
        for shard in shards:
            shard.stop()

    async def stop(self) -> None:
        """Answer everybody who waits; what is stored is in the logs."""
        for task in tuple(self._loading):
            task.cancel()
        self._give_up()
        # The answers leave with the next turn of the loop.
        await asyncio.sleep(0)


def java_hash(text: str) -> int:
    """What Java makes of a string, without its sign: it decides which partition holds a group."""
    number = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        number = (31 * number + (data[position] << 8) + data[position + 1]) & 0xFFFFFFFF
    # Java's smallest number has no positive counterpart; Kafka takes zero for it.
    return number if number < 0x80000000 else (0x100000000 - number) & 0x7FFFFFFF


def limits(values: "BrokerValues") -> "Limits":
    """What the broker's settings say about groups."""
    from ottla.groups.decision import Limits

    integer: Callable[[str], int] = values.integer
    return Limits(
        min_session_ms=integer("group.min.session.timeout.ms"),
        max_session_ms=integer("group.max.session.timeout.ms"),
        initial_delay_ms=integer("group.initial.rebalance.delay.ms"),
        max_size=integer("group.max.size"),
        metadata_bytes=integer("offset.metadata.max.bytes"),
        retention_ms=integer("offsets.retention.minutes") * 60_000,
        retention_check_ms=integer("offsets.retention.check.interval.ms"),
    )
