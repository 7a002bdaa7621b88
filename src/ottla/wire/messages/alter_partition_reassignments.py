"""AlterPartitionReassignments: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ReassignablePartition(Message):
    __slots__ = (
        "partition_index",
        "replicas",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("replicas", "int32", array=True, null_from=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        replicas: Sequence[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", ReassignablePartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ReassignablePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AlterPartitionReassignmentsRequest(Root):
    __slots__ = (
        "timeout_ms",
        "allow_replication_factor_change",
        "topics",
    )
    KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("timeout_ms", "int32", default=60000),
        Field("allow_replication_factor_change", "bool", first=1, default=True),
        Field("topics", ReassignableTopic, array=True, default=()),
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: Sequence[ReassignableTopic] = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = topics


class ReassignablePartitionResponse(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", ReassignablePartitionResponse, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ReassignablePartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AlterPartitionReassignmentsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "allow_replication_factor_change",
        "error_code",
        "error_message",
        "responses",
    )
    KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("allow_replication_factor_change", "bool", first=1, default=True),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("responses", ReassignableTopicResponse, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: Sequence[ReassignableTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses
