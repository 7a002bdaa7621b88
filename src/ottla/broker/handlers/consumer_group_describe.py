"""ConsumerGroupDescribe, v0 and v1: state, members and assignments of groups of the consumer protocol.

KIP-848; KIP-1099 (v1: of which protocol a member is).
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.describe_groups import ALL_OPERATIONS
from ottla.coordinator.groups.cluster import is_offered
from ottla.groups.modern import ConsumerGroup
from ottla.groups.modern import ConsumerMember as GroupMember
from ottla.metadata.image import ClusterImage
from ottla.net.dispatch import Context
from ottla.net.portions import in_portions
from ottla.wire.lists import Lists
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from asyncio import Future

    from ottla.broker.broker import Broker

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


@in_portions(Lists(("group_ids",), ("groups",)))
def handle(
    broker: "Broker", request: ConsumerGroupDescribeRequest, context: Context
) -> "ConsumerGroupDescribeResponse | Future[ConsumerGroupDescribeResponse]":
    groups = [_answer(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
    names = request.group_ids
    return broker.groups.settled(
        names,
        ConsumerGroupDescribeResponse(groups=groups),
        lambda error: ConsumerGroupDescribeResponse(groups=[DescribedGroup(error, group_id=name) for name in names]),
    )


def _answer(broker: "Broker", group_id: str) -> DescribedGroup:
    if not is_offered(broker.context):
        return DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    shard = broker.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return DescribedGroup(shard, group_id=group_id)
    group = shard.machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        assignors = shard.machine.limits.assignors
        return _described(group, broker.image, group.preferred_assignor() or assignors[0])
    found = "Group {} not found." if group is None else "Group {} is not a consumer group."
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, found.format(group_id), group_id)


def _described(group: ConsumerGroup, image: ClusterImage, assignor: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor,
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: GroupMember, image: ClusterImage) -> Member:
    said = member.subscription
    return Member(
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.current.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=sorted(said.topics),
        subscribed_topic_regex=said.pattern,
        assignment=_assignment(member.held(), image),
        target_assignment=_assignment(group.target_of(member.member_id), image),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Collection[int]], image: ClusterImage) -> Assignment:
    """Topics that are gone have no name to be told by."""
    return Assignment(
        [
            TopicPartitions(topic_id, image.topics_by_id[topic_id].name, sorted(numbers))
            for topic_id, numbers in partitions.items()
            if topic_id in image.topics_by_id
        ]
    )
