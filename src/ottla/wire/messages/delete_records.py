"""DeleteRecords: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class DeleteRecordsPartition(Message):
    __slots__ = (
        "partition_index",
        "offset",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("offset", "int64", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", DeleteRecordsPartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsRequest(Root):
    __slots__ = (
        "topics",
        "timeout_ms",
    )
    KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("topics", DeleteRecordsTopic, array=True, default=()),
        Field("timeout_ms", "int32", default=0),
    )

    def __init__(
        self,
        topics: Sequence[DeleteRecordsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(Message):
    __slots__ = (
        "partition_index",
        "low_watermark",
        "error_code",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("low_watermark", "int64", default=0),
        Field("error_code", "int16", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", DeleteRecordsPartitionResult, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )
    KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("topics", DeleteRecordsTopicResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[DeleteRecordsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
