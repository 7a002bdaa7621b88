"""Metadata, v0 to v13: brokers, topics, partitions, and creation of topics that are asked for.

A topic is created when both the request and `auto.create.topics.enable` allow it; this answer still says that it is
unknown, and the client asks again.

KIP-4; KIP-320 (v7: leader epochs), KIP-430 (v8: authorized operations), KIP-516 (v10: topic ids), KIP-1102 (v13: an
error of the whole answer).
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID
from ottla.broker.handlers.describe_cluster import ALL_CLUSTER_OPERATIONS, NOT_ASKED
from ottla.broker.handlers.describe_topic_partitions import ALL_TOPIC_OPERATIONS
from ottla.broker.topic_answers import Variant, described
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.metadata.names import topic_name_problem
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from ottla.broker.broker import Broker
    from ottla.wire.schema import Encoded

_FEW_PARTITIONS = 100
"""So many are described for one answer; more are taken from what was written before."""
AT_ONCE = 2000
"""Names that are looked up before other requests get their turn."""
FIRST_BY_ID = 12
FALL_SECONDS = 0.4
"""How long an answer that would name a leader that has just fallen waits for its successor."""


@in_portions(Lists(("topics",), ("topics",)), at_once=AT_ONCE)
async def handle(broker: "Broker", request: MetadataRequest, context: Context) -> MetadataResponse:
    # The oldest version has no null list: an empty one asks for everything.
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if context.version < FIRST_BY_ID and any(map(_names_an_id, request.topics or ())):
        return _refused(request)
    if not everything:
        _create_missing(broker, request, context)
        await _follow_a_fall(broker, request)
    image = broker.image
    reachable = frozenset(
        each.id for each in image.brokers.values() if not each.fenced and context.listener in each.listeners
    )
    operations = ALL_TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    found = image.topics.values() if everything else _found(image, request)
    topics: list[Any]
    if everything or sum(len(each.partitions) for each in found) > _FEW_PARTITIONS:
        variant = (context.version, reachable, operations)
        topics = await broker.dispatcher.in_steps(_encoded(broker, image, found, variant))
    else:
        topics = [described(each, reachable, operations) if isinstance(each, TopicImage) else each for each in found]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in broker.nodes(context.listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=broker.controller_id(),
        topics=topics,
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


async def _follow_a_fall(broker: "Broker", request: MetadataRequest) -> None:
    """A leader that this broker cannot reach since a moment will have a successor in another: clients that notice its
    fall ask at once, and one that is told of the fallen leader again may take seconds until it asks the next time."""
    deadline = broker.loop.time() + FALL_SECONDS
    while lost := broker.replicas.fetchers.just_lost():
        image = broker.image
        asked = [
            image.topics_by_id.get(each.topic_id) or image.topics.get(each.name or "") for each in request.topics or ()
        ]
        left = deadline - broker.loop.time()
        if left <= 0 or not any(partition.leader in lost for topic in asked if topic for partition in topic.partitions):
            return
        await broker.replicas.next_change(left)


def _names_an_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != NO_TOPIC_ID


def _refused(request: MetadataRequest) -> MetadataResponse:
    """The versions that carry a topic's id but do not look at it."""
    return MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id)
            for each in request.topics or ()
        ],
    )


def _encoded(
    broker: "Broker", image: ClusterImage, found: Collection[TopicImage | MetadataResponseTopic], variant: Variant
) -> "Generator[None, None, list[Encoded | MetadataResponseTopic]]":
    """Many topics, as they were written for the last who asked."""
    known = [each for each in found if isinstance(each, TopicImage)]
    made = iter((yield from broker.topic_answers.encoded(known, variant, image.topics)))
    return [next(made) if isinstance(each, TopicImage) else each for each in found]


def _found(image: ClusterImage, request: MetadataRequest) -> list[TopicImage | MetadataResponseTopic]:
    """What is asked for, or why it is not there; what is asked for twice is answered once."""
    asked = {(each.topic_id, each.name): each for each in request.topics or ()}
    return [_look_up(image, each) for each in asked.values()]


def _look_up(image: ClusterImage, asked: MetadataRequestTopic) -> TopicImage | MetadataResponseTopic:
    if asked.topic_id != NO_TOPIC_ID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return topic
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return topic
    invalid = topic_name_problem(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=error, name=name, topic_id=NO_TOPIC_ID)


def _create_missing(broker: "Broker", request: MetadataRequest, context: Context) -> None:
    allowed = request.allow_auto_topic_creation if context.version >= 4 else True
    if not allowed or not broker.values.boolean("auto.create.topics.enable"):
        return
    broker.auto_creation.create(
        asked.name
        for asked in request.topics or ()
        # Beside an id a name counts for nothing.
        if asked.name is not None
        and asked.topic_id == NO_TOPIC_ID
        and asked.name not in broker.image.topics
        and topic_name_problem(asked.name) is None
    )
