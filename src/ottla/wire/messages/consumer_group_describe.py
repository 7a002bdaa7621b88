"""ConsumerGroupDescribe: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class ConsumerGroupDescribeRequest(Root):
    __slots__ = (
        "group_ids",
        "include_authorized_operations",
    )
    KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_ids", "string", array=True, default=()),
        Field("include_authorized_operations", "bool", default=False),
    )

    def __init__(
        self,
        group_ids: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


class TopicPartitions(Message):
    __slots__ = (
        "topic_id",
        "topic_name",
        "partitions",
    )
    FIELDS = (
        Field("topic_id", "uuid", default=NO_ID),
        Field("topic_name", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        topic_name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = partitions


class Assignment(Message):
    __slots__ = ("topic_partitions",)
    FIELDS = (Field("topic_partitions", TopicPartitions, array=True, default=()),)

    def __init__(
        self,
        topic_partitions: Sequence[TopicPartitions] = (),
    ) -> None:
        self.topic_partitions = topic_partitions


class Member(Message):
    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )
    FIELDS = (
        Field("member_id", "string", default=""),
        Field("instance_id", "string", null_from=0),
        Field("rack_id", "string", null_from=0),
        Field("member_epoch", "int32", default=0),
        Field("client_id", "string", default=""),
        Field("client_host", "string", default=""),
        Field("subscribed_topic_names", "string", array=True, default=()),
        Field("subscribed_topic_regex", "string", null_from=0),
        Field("assignment", Assignment),
        Field("target_assignment", Assignment),
        Field("member_type", "int8", first=1, default=-1),
    )

    def __init__(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Sequence[str] = (),
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment: Assignment = Assignment() if assignment is None else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is None else target_assignment
        self.member_type = member_type


class DescribedGroup(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("group_id", "string", default=""),
        Field("group_state", "string", default=""),
        Field("group_epoch", "int32", default=0),
        Field("assignment_epoch", "int32", default=0),
        Field("assignor_name", "string", default=""),
        Field("members", Member, array=True, default=()),
        Field("authorized_operations", "int32", default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: Sequence[Member] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = members
        self.authorized_operations = authorized_operations


class ConsumerGroupDescribeResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "groups",
    )
    KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("groups", DescribedGroup, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
