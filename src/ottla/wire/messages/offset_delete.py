"""OffsetDelete: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import LATEST, Field, Message, Root


class OffsetDeleteRequestPartition(Message):
    __slots__ = ("partition_index",)
    FIELDS = (Field("partition_index", "int32", default=0),)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", OffsetDeleteRequestPartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetDeleteRequestPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
    )
    KEY = 47
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", OffsetDeleteRequestTopic, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetDeleteRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class OffsetDeleteResponsePartition(Message):
    __slots__ = (
        "partition_index",
        "error_code",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", OffsetDeleteResponsePartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetDeleteResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteResponse(Root):
    __slots__ = (
        "error_code",
        "throttle_time_ms",
        "topics",
    )
    KEY = 47
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("throttle_time_ms", "int32", default=0),
        Field("topics", OffsetDeleteResponseTopic, array=True, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetDeleteResponseTopic] = (),
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
