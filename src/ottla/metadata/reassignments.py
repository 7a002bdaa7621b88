"""Reassignments: partitions move to other brokers while they are in use.

Owns: AlterPartitionReassignments and ListPartitionReassignments, with Kafka's codes and words. Never knows: how the new
replicas catch up; `metadata.partition_change` ends a reassignment when all that stay are in sync.
Invariant: until then nobody leaves, so a cancelled reassignment goes back without loss.
"""

from collections.abc import Sequence

from ottla.base.errors import ErrorCode
from ottla.metadata import placement
from ottla.metadata.decision import MOST_FACTS, DecisionContext, MetadataDecision, Refusal
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.partitions import Elector, Found
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

NONE_IN_PROGRESS = Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
TWICE = Refusal(ErrorCode.INVALID_REQUEST, "Each partition must appear at most once.")


def alter(
    request: AlterPartitionReassignmentsRequest, context: DecisionContext
) -> MetadataDecision[AlterPartitionReassignmentsResponse]:
    """AlterPartitionReassignments: begin, change or, with null for replicas, cancel."""
    elector = Elector(context)
    done: set[tuple[str, int]] = set()
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        answers: list[ReassignablePartitionResponse] = []
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            found = _found(context.image, *key)
            refusal: Refusal | None = TWICE
            if key not in done:
                done.add(key)
                if isinstance(found, Refusal):
                    refusal = found
                else:
                    refusal = _reassign(wanted, found, context, elector, request.allow_replication_factor_change)
            error, message = (ErrorCode.NONE, None) if refusal is None else refusal
            answers.append(ReassignablePartitionResponse(wanted.partition_index, error, message))
        responses.append(ReassignableTopicResponse(topic.name, answers))
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    if len(elector.facts) > MOST_FACTS:
        return MetadataDecision(
            [], AlterPartitionReassignmentsResponse(error_code=ErrorCode.POLICY_VIOLATION, error_message=None)
        )
    return MetadataDecision(elector.facts, reply)


def _found(image: ClusterImage, name: str, number: int) -> Found | Refusal:
    topic = image.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = image.partition(name, number)
    if partition is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}.")
    return Found(topic, number, partition)


def _reassign(
    wanted: ReassignablePartition, found: Found, context: DecisionContext, elector: Elector, other_factor: bool
) -> Refusal | None:
    if wanted.replicas is None:
        return _cancel(found, elector)
    partition = found.partition
    refusal = placement.check_replicas(wanted.replicas, context.image.brokers, None)
    if refusal is not None:
        return refusal
    target = list(wanted.replicas)
    factor = len([replica for replica in partition.replicas if replica not in partition.removing])
    if not other_factor and factor != len(target):
        message = f"The replication factor is changed from {factor} to {len(target)}"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    original = [replica for replica in partition.replicas if replica not in partition.adding]
    change = elector.change(found)
    # What an earlier reassignment has brought and this one does not want goes like any other replica.
    change.removing = sorted(replica for replica in partition.replicas if replica not in target)
    change.adding = sorted(replica for replica in target if replica not in original)
    change.replicas = [*target, *change.removing]
    elector.decide(found, change)
    return None


def _cancel(found: Found, elector: Elector) -> Refusal | None:
    topic, number, partition = found
    if not partition.adding and not partition.removing:
        return NONE_IN_PROGRESS
    change = elector.change(found)
    change.replicas = [replica for replica in partition.replicas if replica not in partition.adding]
    change.in_sync = [replica for replica in partition.in_sync if replica not in partition.adding]
    change.adding = change.removing = ()
    if partition.in_sync and not change.in_sync:
        # Only the new replicas have everything: going back means to lose some of it.
        if not change.unclean or not any(change.may_lead(replica) for replica in change.replicas):
            message = (
                f"Unable to revert partition assignment for {topic.name}:{number} because it would require an "
                "unclean leader election."
            )
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        change.lost_records = partition.replicas
    elector.decide(found, change)
    return None


def in_progress(request: ListPartitionReassignmentsRequest, image: ClusterImage) -> ListPartitionReassignmentsResponse:
    """ListPartitionReassignments, of the partitions named or of all."""
    asked: list[tuple[TopicImage, Sequence[int]]] = []
    if request.topics is None:
        asked = [(topic, range(len(topic.partitions))) for topic in image.topics.values()]
    else:
        asked = [
            (image.topics[each.name], each.partition_indexes) for each in request.topics if each.name in image.topics
        ]
    topics: list[OngoingTopicReassignment] = []
    for topic, numbers in asked:
        known = len(topic.partitions)
        found = [
            _ongoing(number, topic.partitions[number])
            for number in numbers
            if 0 <= number < known and (topic.partitions[number].adding or topic.partitions[number].removing)
        ]
        if found:
            topics.append(OngoingTopicReassignment(topic.name, found))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _ongoing(number: int, partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        number, list(partition.replicas), list(partition.adding), list(partition.removing)
    )
