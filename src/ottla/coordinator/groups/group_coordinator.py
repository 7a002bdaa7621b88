"""The groups this broker coordinates: a shard for each partition of `__consumer_offsets` that it leads."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.coordinator.groups.topic_patterns import TopicPatterns
from ottla.coordinator.runtime import CoordinatorRuntime, TopicCreator, TopicPlan
from ottla.replicas.commits import Commits
from ottla.replicas.context import BrokerContext
from ottla.replicas.partitions import Partition

if TYPE_CHECKING:
    from ottla.base.settings.values import BrokerValues
    from ottla.coordinator.groups.shard import GroupShard
    from ottla.groups.decision import GroupLimits

OFFSETS_TOPIC = "__consumer_offsets"


class GroupCoordinator(CoordinatorRuntime["GroupShard"]):
    """The groups that this broker coordinates."""

    plan = TopicPlan(
        OFFSETS_TOPIC,
        partitions="offsets.topic.num.partitions",
        replicas="offsets.topic.replication.factor",
        segment_bytes="offsets.topic.segment.bytes",
        configs={"cleanup.policy": "compact", "compression.type": "producer"},
    )

    rebalances = 0
    """Generations that began in groups coordinated here."""

    def __init__(self, context: BrokerContext, commits: Commits, controller: TopicCreator) -> None:
        super().__init__(context, commits, controller)
        self.topic_patterns = TopicPatterns(lambda: context.image.topics)

    def _make(self, partition: Partition) -> "GroupShard":
        from ottla.coordinator.groups.shard import GroupShard

        return GroupShard(self, partition, limits(self.context.values))

    async def _load(self, shard: "GroupShard") -> bool:
        from ottla.coordinator.groups.loading import load

        return await load(self.context, shard.partition, shard.machine)

    def take_settings(self) -> None:
        """Settings were changed at run time."""
        for shard in self._shards.values():
            shard.machine.limits = limits(self.context.values)

    def removed(self, topic: str) -> None:
        """A topic is gone, and with it the offsets that groups have in it."""
        super().removed(topic)
        for shard in self._shards.values():
            if shard.loaded:
                shard.carry_out_in_portions(shard.machine.decide_topics_removed([topic]).facts)


def limits(values: "BrokerValues") -> "GroupLimits":
    """What the broker's settings say about groups."""
    from ottla.groups.assignors import ASSIGNORS
    from ottla.groups.decision import CONSUMER_DEFAULTS, GroupLimits

    integer: Callable[[str], int] = values.integer
    return GroupLimits(
        min_session_ms=integer("group.min.session.timeout.ms"),
        max_session_ms=integer("group.max.session.timeout.ms"),
        initial_delay_ms=integer("group.initial.rebalance.delay.ms"),
        max_size=integer("group.max.size"),
        metadata_bytes=integer("offset.metadata.max.bytes"),
        retention_ms=integer("offsets.retention.minutes") * 60_000,
        retention_check_ms=integer("offsets.retention.check.interval.ms"),
        consumer_max_size=integer("group.consumer.max.size"),
        assignors=tuple(name for name in values.listing("group.consumer.assignors") if name in ASSIGNORS),
        consumer={name: integer(f"group.consumer.{name}.ms") for name in CONSUMER_DEFAULTS},
        migration=values.text("group.consumer.migration.policy").lower(),
    )
