"""Topics as Metadata tells of them, written once for each change of a topic instead of once for each client.

Owns: encoded topics, by the version of the API, by what is reachable and by whether operations are told. Never knows:
requests. Invariants: an encoded topic is used only for the very image it was made of; at most `MOST_VARIANTS` forms of
the cluster are kept, those used last.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import TypeAlias

from ottla.base.errors import ErrorCode
from ottla.metadata.image import NO_LEADER, PartitionImage, TopicImage
from ottla.wire.codec import stepper
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.schema import Encoded

MOST_VARIANTS = 8
_SLACK = 100

Variant: TypeAlias = tuple[int, frozenset[int], int]
"""The version of the API, the brokers that clients of the listener can talk to, and the operations told."""


class TopicAnswers:
    """The written form of every topic that was asked for."""

    def __init__(self) -> None:
        self._variants: dict[Variant, dict[str, tuple[TopicImage, Encoded]]] = {}

    def encoded(
        self, topics: Iterable[TopicImage], variant: Variant, present: Mapping[str, TopicImage]
    ) -> Generator[None, None, list[Encoded]]:
        """These topics in a form that is written as it is; pauses after each, and within those made anew."""
        known = self._variants.pop(variant, {})
        self._variants[variant] = known
        while len(self._variants) > MOST_VARIANTS:
            del self._variants[next(iter(self._variants))]
        if len(known) > len(present) + _SLACK:
            for gone in known.keys() - present.keys():
                del known[gone]
        answers: list[Encoded] = []
        for topic in topics:
            found = known.get(topic.name)
            if found is None or found[0] is not topic:
                made = yield from _encode(topic, variant)
                found = known[topic.name] = (topic, made)
            answers.append(found[1])
            yield
        return answers


def _encode(topic: TopicImage, variant: Variant) -> Generator[None, None, Encoded]:
    version, reachable, operations = variant
    partitions: list[MetadataResponsePartition] = []
    for index, partition in enumerate(topic.partitions):
        partitions.append(_partition(index, partition, reachable))
        yield
    answer = _topic(topic, partitions, operations)
    out = bytearray()
    flexible = version >= MetadataResponse.FLEXIBLE_FROM
    yield from stepper(MetadataResponseTopic, version, flexible)(out, answer)
    return Encoded(bytes(out), [each.error_code for each in partitions if each.error_code])


def described(topic: TopicImage, reachable: frozenset[int], operations: int) -> MetadataResponseTopic:
    """One topic for one answer."""
    partitions = [_partition(index, partition, reachable) for index, partition in enumerate(topic.partitions)]
    return _topic(topic, partitions, operations)


def _topic(topic: TopicImage, partitions: list[MetadataResponsePartition], operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partition(index: int, partition: PartitionImage, reachable: frozenset[int]) -> MetadataResponsePartition:
    leader = partition.leader if partition.leader in reachable else NO_LEADER
    return MetadataResponsePartition(
        0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        index,
        leader,
        partition.leader_epoch,
        partition.replicas,
        partition.in_sync,
        [replica for replica in partition.replicas if replica not in reachable],
    )
