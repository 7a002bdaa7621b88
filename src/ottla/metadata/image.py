"""The cluster as the metadata log describes it, as immutable values.

Owns: topics, partitions, brokers, configs, features and the next producer id at one offset of the log. Never knows: how
they came about; `metadata.delta` makes the next image from this one and the facts that follow.
Invariants: nothing reachable from an image changes once it is made; a topic is in `topics` exactly when it is in
`topics_by_id`; the partitions of a topic are numbered without gaps from 0.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

NO_LEADER = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

ConfigKey = tuple[int, str]
"""A config resource: its type and its name."""


class ResourceType(IntEnum):
    """What configs can be attached to, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class PartitionImage(NamedTuple):
    """One partition: who holds it and who leads it."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    """Replicas outside the in-sync set that may still be elected without loss (Kafka's ELR)."""
    last_known: tuple[int, ...] = ()
    """The leader before the last one went (Kafka's last known ELR)."""
    recovering: bool = False
    """Whether the leader was elected uncleanly and has not yet said that it recovered."""


class TopicImage(NamedTuple):
    """One topic; partitions are indexed by their number."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class BrokerImage(NamedTuple):
    """One registered broker."""

    id: int
    epoch: int
    incarnation_id: bytes
    listeners: Mapping[str, tuple[str, int]]
    """Host and port by listener name."""
    protocols: Mapping[str, int]
    """Security protocol by listener name."""
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[bytes, ...]
    cordoned: tuple[bytes, ...]

    @property
    def active(self) -> bool:
        """Whether it may lead partitions."""
        return not (self.fenced or self.in_controlled_shutdown)


class ControllerImage(NamedTuple):
    """One registered controller."""

    id: int
    incarnation_id: bytes
    listeners: Mapping[str, tuple[str, int]]
    """Host and port by listener name."""
    protocols: Mapping[str, int]
    features: Mapping[str, tuple[int, int]]


class ClusterImage(NamedTuple):
    """Everything that is known at one offset of the metadata log (the offset of the last fact applied)."""

    cluster_id: str
    offset: int = -1
    epoch: int = 0
    topics: Mapping[str, TopicImage] = {}
    topics_by_id: Mapping[bytes, TopicImage] = {}
    brokers: Mapping[int, BrokerImage] = {}
    configs: Mapping[ConfigKey, Mapping[str, str]] = {}
    features: Mapping[str, int] = {}
    next_producer_id: int = 0
    alike: Mapping[str, tuple[str, ...]] = {}
    """Names of topics with a '.' or '_', by the name with every '.' made a '_': metric names cannot tell them apart."""
    controllers: Mapping[int, ControllerImage] = {}

    def partition(self, topic: str, number: int) -> PartitionImage | None:
        """One partition by name, or None."""
        found = self.topics.get(topic)
        if found is None or not 0 <= number < len(found.partitions):
            return None
        return found.partitions[number]

    def config(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """What is set on one resource."""
        return self.configs.get((kind, name), {})
