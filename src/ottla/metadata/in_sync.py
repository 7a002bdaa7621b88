"""AlterPartition: a leader says who is in sync with it.

Owns: the checks, with Kafka's codes, and the fact that follows. Never knows: how the leader found out.
Invariants: only the leader of the current epoch is believed, and only about the state it has seen; nobody gets in sync
who is not alive in the very registration that the leader fetched from, or whose replica lies in a directory that its
broker does not have: it could not lead.
"""

from ottla.base.errors import ErrorCode
from ottla.metadata.brokers import is_current
from ottla.metadata.decision import DecisionContext, MetadataDecision
from ottla.metadata.delta import UNCHANGED_LEADER
from ottla.metadata.image import BrokerImage, ClusterImage, PartitionImage
from ottla.metadata.partition_change import RECOVERED, RECOVERING
from ottla.metadata.partitions import Elector, Found, directory_on, is_online
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.wire.stored.metadata import PartitionChangeRecord

ANY_EPOCH = -1


def alter(request: AlterPartitionRequest, context: DecisionContext) -> MetadataDecision[AlterPartitionResponse]:
    """AlterPartition."""
    image = context.image
    if not is_current(request.broker_id, request.broker_epoch, image):
        return MetadataDecision([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    elector = Elector(context)
    done: set[tuple[bytes, int]] = set()
    topics: list[ResponseTopicData] = []
    for wanted in request.topics:
        topic = image.topics_by_id.get(wanted.topic_id)
        answers: list[ResponsePartitionData] = []
        for data in wanted.partitions:
            number = data.partition_index
            error = ErrorCode.UNKNOWN_TOPIC_ID
            if topic is not None:
                error = _refusal(data, request.broker_id, image.partition(topic.name, number), image)
                if error == ErrorCode.NONE and (wanted.topic_id, number) in done:
                    # The first of the two has moved the epoch on.
                    error = ErrorCode.INVALID_UPDATE_VERSION
            if topic is None or error != ErrorCode.NONE:
                answers.append(ResponsePartitionData(partition_index=number, error_code=error))
                continue
            done.add((wanted.topic_id, number))
            answers.append(_alter(data, request.broker_id, Found(topic, number, topic.partitions[number]), elector))
        topics.append(ResponseTopicData(wanted.topic_id, answers))
    return MetadataDecision(elector.facts, AlterPartitionResponse(topics=topics))


def _members(data: PartitionData) -> list[BrokerState]:
    """The set that is asked for; before version 3 it came without broker epochs."""
    return list(data.new_isr_with_epochs) or [BrokerState(broker_id, ANY_EPOCH) for broker_id in data.new_isr]


def _refusal(data: PartitionData, broker_id: int, partition: PartitionImage | None, image: ClusterImage) -> ErrorCode:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        # The leader has seen more than this controller, which therefore is no controller any more.
        return ErrorCode.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = _members(data)
    ids = [member.broker_id for member in members]
    if len(set(ids)) != len(ids) or broker_id not in ids or any(each not in partition.replicas for each in ids):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state == RECOVERING and (len(ids) > 1 or not partition.recovering):
        return ErrorCode.INVALID_REQUEST
    if not all(_may_join(member, image.brokers.get(member.broker_id), partition) for member in members):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _may_join(member: BrokerState, broker: BrokerImage | None, partition: PartitionImage) -> bool:
    if broker is None or not broker.active or member.broker_epoch not in (ANY_EPOCH, broker.epoch):
        return False
    return broker.id in partition.in_sync or is_online(directory_on(partition, broker.id), broker)


def _alter(data: PartitionData, broker_id: int, found: Found, elector: Elector) -> ResponsePartitionData:
    change = elector.change(found)
    change.in_sync = [member.broker_id for member in _members(data)]
    change.recovering = data.leader_recovery_state == RECOVERING
    before = found.partition
    fact: PartitionChangeRecord | None = None
    if elector.decide(found, change):
        last = elector.facts[-1]
        assert isinstance(last, PartitionChangeRecord)
        fact = last
    if fact is not None and fact.leader not in (UNCHANGED_LEADER, broker_id):
        # The change ended a reassignment that takes the leader away: it has to look at the metadata first.
        return ResponsePartitionData(partition_index=found.number, error_code=ErrorCode.NEW_LEADER_ELECTED)
    led_anew = fact is not None and fact.leader != UNCHANGED_LEADER
    in_sync = before.in_sync if fact is None or fact.isr is None else fact.isr
    return ResponsePartitionData(
        partition_index=found.number,
        leader_id=broker_id,
        leader_epoch=before.leader_epoch + led_anew,
        isr=list(in_sync),
        leader_recovery_state=RECOVERING if change.recovering else RECOVERED,
        partition_epoch=before.partition_epoch + (fact is not None),
    )
