"""DescribeTopicPartitions: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class TopicRequest(Message):
    __slots__ = ("name",)
    FIELDS = (Field("name", "string", default=""),)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class Cursor(Message):
    __slots__ = (
        "topic_name",
        "partition_index",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("partition_index", "int32", default=0),
    )

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(Root):
    __slots__ = (
        "topics",
        "response_partition_limit",
        "cursor",
    )
    KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("topics", TopicRequest, array=True, default=()),
        Field("response_partition_limit", "int32", default=2000),
        Field("cursor", Cursor, null_from=0),
    )

    def __init__(
        self,
        topics: Sequence[TopicRequest] = (),
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(Message):
    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("partition_index", "int32", default=0),
        Field("leader_id", "int32", default=0),
        Field("leader_epoch", "int32", default=-1),
        Field("replica_nodes", "int32", array=True, default=()),
        Field("isr_nodes", "int32", array=True, default=()),
        Field("eligible_leader_replicas", "int32", array=True, null_from=0),
        Field("last_known_elr", "int32", array=True, null_from=0),
        Field("offline_replicas", "int32", array=True, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = offline_replicas


class DescribeTopicPartitionsResponseTopic(Message):
    __slots__ = (
        "error_code",
        "name",
        "topic_id",
        "is_internal",
        "partitions",
        "topic_authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("name", "string", null_from=0, default=""),
        Field("topic_id", "uuid", default=NO_ID),
        Field("is_internal", "bool", default=False),
        Field("partitions", DescribeTopicPartitionsResponsePartition, array=True, default=()),
        Field("topic_authorized_operations", "int32", default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = NO_ID,
        is_internal: bool = False,
        partitions: Sequence[DescribeTopicPartitionsResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


class ResponseCursor(Message):
    __slots__ = (
        "topic_name",
        "partition_index",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("partition_index", "int32", default=0),
    )

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
        "next_cursor",
    )
    KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("topics", DescribeTopicPartitionsResponseTopic, array=True, default=()),
        Field("next_cursor", ResponseCursor, null_from=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[DescribeTopicPartitionsResponseTopic] = (),
        next_cursor: ResponseCursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.next_cursor = next_cursor
