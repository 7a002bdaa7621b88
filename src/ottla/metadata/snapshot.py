"""An image as facts: applied to nothing, they give the very same image.

Owns: which facts those are, in Kafka's order. Never knows: where they are stored. Invariant: the history of the image
leaves no trace in them; two equal images give facts that make equal images.
"""

from collections.abc import Iterator

from ottla.metadata.facts import Fact
from ottla.metadata.image import BrokerImage, ClusterImage, ControllerImage, PartitionImage
from ottla.wire.stored.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)


def facts_of(image: ClusterImage) -> Iterator[Fact]:
    """Everything the image says; made one by one, so that a large image can be written in portions."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for number, partition in enumerate(topic.partitions):
            yield _partition(topic.topic_id, number, partition)
    for (kind, resource), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _broker(broker: BrokerImage) -> Fact:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name, host, port, broker.protocols[name]) for name, (host, port) in broker.listeners.items()
        ],
        features=[BrokerFeature(name, first, last) for name, (first, last) in broker.features.items()],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned) or None,
    )


def _controller(controller: ControllerImage) -> Fact:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            ControllerEndpoint(name, host, port, controller.protocols[name])
            for name, (host, port) in controller.listeners.items()
        ],
        features=[ControllerFeature(name, first, last) for name, (first, last) in controller.features.items()],
    )


def _partition(topic_id: bytes, number: int, partition: PartitionImage) -> Fact:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.in_sync,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=int(partition.recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible or None,
        last_known_elr=partition.last_known or None,
    )
