"""DescribeShareGroupOffsets: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class DescribeShareGroupOffsetsRequestTopic(Message):
    __slots__ = (
        "topic_name",
        "partitions",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


class DescribeShareGroupOffsetsRequestGroup(Message):
    __slots__ = (
        "group_id",
        "topics",
    )
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", DescribeShareGroupOffsetsRequestTopic, array=True, null_from=0, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class DescribeShareGroupOffsetsRequest(Root):
    __slots__ = ("groups",)
    KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("groups", DescribeShareGroupOffsetsRequestGroup, array=True, default=()),)

    def __init__(
        self,
        groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = (),
    ) -> None:
        self.groups = groups


class DescribeShareGroupOffsetsResponsePartition(Message):
    __slots__ = (
        "partition_index",
        "start_offset",
        "leader_epoch",
        "lag",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("start_offset", "int64", default=0),
        Field("leader_epoch", "int32", default=0),
        Field("lag", "int64", first=1, default=-1),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(Message):
    __slots__ = (
        "topic_name",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("topic_id", "uuid", default=NO_ID),
        Field("partitions", DescribeShareGroupOffsetsResponsePartition, array=True, default=()),
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = (),
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = partitions


class DescribeShareGroupOffsetsResponseGroup(Message):
    __slots__ = (
        "group_id",
        "topics",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", DescribeShareGroupOffsetsResponseTopic, array=True, default=()),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = (),
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "groups",
    )
    KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("groups", DescribeShareGroupOffsetsResponseGroup, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
