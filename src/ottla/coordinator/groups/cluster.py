"""The cluster as groups of the consumer protocol see it, read from the broker's image.

Owns: whether that protocol is offered at all. Every question is answered from the image of the moment.
"""

from collections.abc import Mapping

from ottla.coordinator.groups.topic_patterns import TopicPatterns
from ottla.groups.cluster import Topic
from ottla.metadata.image import ResourceType, TopicImage
from ottla.replicas.context import BrokerContext

CONSUMER_PROTOCOL_FROM = 1
"""The level of the feature `group.version` that brings it."""


class ImageCluster:
    """What a group machine asks about topics and brokers."""

    def __init__(self, context: BrokerContext, patterns: TopicPatterns) -> None:
        self._context = context
        self._patterns = patterns

    @property
    def version(self) -> int:
        return self._context.image.offset

    def topic(self, name: str) -> Topic | None:
        found = self._context.image.topics.get(name)
        return None if found is None else self._topic(found)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        found = self._context.image.topics_by_id.get(topic_id)
        return None if found is None else self._topic(found)

    def _topic(self, image: TopicImage) -> Topic:
        racks = {broker.id: broker.rack for broker in self._context.image.brokers.values() if broker.rack is not None}
        of_partitions: tuple[frozenset[str], ...] = ()
        if racks:
            of_partitions = tuple(
                frozenset(racks[replica] for replica in partition.replicas if replica in racks)
                for partition in image.partitions
            )
        return Topic(image.name, image.topic_id, len(image.partitions), of_partitions)

    def matching(self, pattern: str) -> frozenset[str]:
        return self._patterns.matching(pattern)

    def group_settings(self, group_id: str) -> Mapping[str, str]:
        return self._context.image.config(ResourceType.GROUP, group_id)


def is_offered(context: BrokerContext) -> bool:
    """Whether the consumer protocol is finalized (`group.version`) and the settings offer it."""
    finalized = context.image.features.get("group.version", 0) >= CONSUMER_PROTOCOL_FROM
    return finalized and "consumer" in context.values.listing("group.coordinator.rebalance.protocols")
