"""Eligible leader replicas (KIP-966) when what they rest on changes: min.insync.replicas, and the feature's level.

Owns: who stays eligible then, and what has to be committed before elections can go by eligible replicas. Never knows:
how a partition changes otherwise (`metadata.partition_change`). Invariants: below the least number of in-sync replicas,
and without a leader, nothing is acknowledged, so whoever was eligible stays so; whoever may lack what a leader could
acknowledge from here on is eligible no longer; no change of a setting or of the level takes from a partition without a
leader the last replica that could lead it.
"""

from collections.abc import Sequence

from ottla.base.settings.values import BrokerValues
from ottla.metadata.decision import DecisionContext
from ottla.metadata.facts import Fact
from ottla.metadata.image import NO_LEADER, ClusterImage, ResourceType
from ottla.metadata.partition_change import ELIGIBLE_LEADERS, MIN_IN_SYNC
from ottla.metadata.partitions import find, rules_of
from ottla.wire.stored.metadata import ConfigRecord, PartitionChangeRecord


# When eligible replicas are forgotten, and when not: design/0024.
def after_settings(facts: Sequence[Fact], context: DecisionContext) -> list[Fact]:
    """What follows from changes of settings: where a leader may now acknowledge alone what others had to have."""
    if context.image.features.get(ELIGIBLE_LEADERS, 0) == 0:
        return []
    if not any(isinstance(fact, ConfigRecord) and fact.name == MIN_IN_SYNC for fact in facts):
        return []
    image = context.after(facts).image
    return outdated(
        DecisionContext(
            image, context.values.with_dynamic(context.values.dynamic, image.config(ResourceType.BROKER, ""))
        )
    )


def outdated(context: DecisionContext) -> list[Fact]:
    """Where a leader has enough in sync to acknowledge without those who were eligible below that number.

    A decision leaves nothing so, but settings may also have been changed where a controller only reads them.
    """
    return [
        _changed(found.topic.topic_id, found.number)
        for found in find(context.image, lambda partition: bool(partition.eligible) and partition.leader != NO_LEADER)
        if len(found.partition.in_sync)
        >= min(rules_of(found.topic, context).least_in_sync, len(found.partition.replicas))
    ]


def after_level(level: int, image: ClusterImage, values: BrokerValues) -> list[Fact]:
    """What follows from another level of the feature, 0 being none."""
    facts: list[Fact] = one_number(image, values) if level > 0 else []
    for topic, number, partition in find(image, lambda each: bool(each.eligible)):
        if partition.in_sync:
            # Without the feature a leader acknowledges by rules that leave the eligible ones behind.
            facts.append(_changed(topic.topic_id, number))
        elif level == 0:
            # They have all that was ever acknowledged, and without the feature only in-sync replicas can say so.
            facts.append(_changed(topic.topic_id, number, in_sync=partition.eligible))
    return facts


def one_number(image: ClusterImage, values: BrokerValues) -> list[Fact]:
    """One min.insync.replicas for all brokers is what elections of eligible replicas go by."""
    facts: list[Fact] = []
    if MIN_IN_SYNC not in image.config(ResourceType.BROKER, ""):
        least = BrokerValues(values.static).integer(MIN_IN_SYNC)
        facts.append(_setting("", str(least)))
    facts += [
        _setting(name, None)
        for (kind, name), configs in image.configs.items()
        if kind == ResourceType.BROKER and name and MIN_IN_SYNC in configs
    ]
    return facts


def _setting(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_IN_SYNC, value=value)


def _changed(topic_id: bytes, number: int, in_sync: Sequence[int] | None = None) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        partition_id=number,
        topic_id=topic_id,
        isr=None if in_sync is None else list(in_sync),
        eligible_leader_replicas=[],
    )
