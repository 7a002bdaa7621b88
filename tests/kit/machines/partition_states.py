"""Images with one partition in a chosen state, for tests of what becomes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from kit.machines.clusters import applied, cluster, directory_id
from ottla.base.settings.values import BrokerValues
from ottla.metadata.decision import DecisionContext
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage, PartitionImage, ResourceType
from ottla.wire.stored.metadata import ConfigRecord, FeatureLevelRecord, PartitionRecord, TopicRecord

TOPIC = "orders"
TOPIC_ID = b"orders----------"


def partition_facts(number: int = 0, **state: Any) -> list[Fact]:
    """The fact of a partition; what is not said is as in a healthy one."""
    replicas = state.get("replicas", (1, 2, 3))
    fields = {
        "isr": replicas,
        "leader": replicas[0],
        "leader_epoch": 5,
        "partition_epoch": 10,
        "directories": [directory_id(replica) for replica in replicas],
        **state,
        "replicas": replicas,
    }
    return [PartitionRecord(partition_id=number, topic_id=TOPIC_ID, **fields)]


def with_partition(
    image: ClusterImage | None = None,
    *,
    brokers: int = 3,
    fenced: Sequence[int] = (),
    eligible: bool = True,
    configs: Mapping[str, str] | None = None,
    **state: Any,
) -> ClusterImage:
    """A cluster and a topic with one partition."""
    facts: list[Fact] = [TopicRecord(name=TOPIC, topic_id=TOPIC_ID), *partition_facts(**state)]
    if eligible:
        facts.append(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    facts += [ConfigRecord(ResourceType.TOPIC, TOPIC, name, value) for name, value in (configs or {}).items()]
    return applied(facts, cluster(brokers, fenced=fenced) if image is None else image)


def place(image: ClusterImage) -> DecisionContext:
    return DecisionContext(image, BrokerValues({}).with_dynamic({}, image.config(ResourceType.BROKER, "")))


def after(facts: Sequence[Fact], image: ClusterImage) -> PartitionImage:
    """The partition when the facts are applied."""
    return applied(facts, image).topics[TOPIC].partitions[0]
