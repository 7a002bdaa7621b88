"""ListPartitionReassignments: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ListPartitionReassignmentsTopics(Message):
    __slots__ = (
        "name",
        "partition_indexes",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partition_indexes", "int32", array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class ListPartitionReassignmentsRequest(Root):
    __slots__ = (
        "timeout_ms",
        "topics",
    )
    KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("timeout_ms", "int32", default=60000),
        Field("topics", ListPartitionReassignmentsTopics, array=True, null_from=0),
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        topics: Sequence[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(Message):
    __slots__ = (
        "partition_index",
        "replicas",
        "adding_replicas",
        "removing_replicas",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("replicas", "int32", array=True, default=()),
        Field("adding_replicas", "int32", array=True, default=()),
        Field("removing_replicas", "int32", array=True, default=()),
    )

    def __init__(
        self,
        partition_index: int = 0,
        replicas: Sequence[int] = (),
        adding_replicas: Sequence[int] = (),
        removing_replicas: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
        self.adding_replicas = adding_replicas
        self.removing_replicas = removing_replicas


class OngoingTopicReassignment(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", OngoingPartitionReassignment, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OngoingPartitionReassignment] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListPartitionReassignmentsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "topics",
    )
    KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("topics", OngoingTopicReassignment, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Sequence[OngoingTopicReassignment] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics
