"""The cluster as groups of the consumer protocol see it, read from the broker's image.

Owns: whether that protocol is offered at all. Every question is answered from the image of the moment.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.groups.cluster import Topic
from ottla.metadata.image import ResourceType, TopicImage

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


CONSUMER_PROTOCOL_FROM = 1
"""The level of the feature `group.version` that brings it."""


class ImageCluster:
    """See the module."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    @property
    def version(self) -> int:
        return self._broker.image.offset

    def topic(self, name: str) -> Topic | None:
        found = self._broker.image.topics.get(name)
        return None if found is None else self._topic(found)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        found = self._broker.image.topics_by_id.get(topic_id)
        return None if found is None else self._topic(found)

    def _topic(self, image: TopicImage) -> Topic:
        racks = {broker.id: broker.rack for broker in self._broker.image.brokers.values() if broker.rack is not None}
        of_partitions: tuple[frozenset[str], ...] = ()
        if racks:
            of_partitions = tuple(
                frozenset(racks[replica] for replica in partition.replicas if replica in racks)
                for partition in image.partitions
            )
        return Topic(image.name, image.topic_id, len(image.partitions), of_partitions)

    def matching(self, pattern: str) -> frozenset[str]:
        return self._broker.groups.topic_patterns.matching(pattern)

    def group_settings(self, group_id: str) -> Mapping[str, str]:
        return self._broker.image.config(ResourceType.GROUP, group_id)


def is_offered(broker: "Broker") -> bool:
    """Whether the cluster has agreed on the consumer protocol and the settings offer it."""
    agreed = broker.image.features.get("group.version", 0) >= CONSUMER_PROTOCOL_FROM
    return agreed and "consumer" in broker.values.listing("group.coordinator.rebalance.protocols")
