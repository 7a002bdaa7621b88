"""DescribeLogDirs: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class DescribableLogDirTopic(Message):
    __slots__ = (
        "topic",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class DescribeLogDirsRequest(Root):
    __slots__ = ("topics",)
    KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (Field("topics", DescribableLogDirTopic, array=True, null_from=0, default=()),)

    def __init__(
        self,
        topics: Sequence[DescribableLogDirTopic] | None = (),
    ) -> None:
        self.topics = topics


class DescribeLogDirsPartition(Message):
    __slots__ = (
        "partition_index",
        "partition_size",
        "offset_lag",
        "is_future_key",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("partition_size", "int64", default=0),
        Field("offset_lag", "int64", default=0),
        Field("is_future_key", "bool", default=False),
    )

    def __init__(
        self,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", DescribeLogDirsPartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DescribeLogDirsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DescribeLogDirsResult(Message):
    __slots__ = (
        "error_code",
        "log_dir",
        "topics",
        "total_bytes",
        "usable_bytes",
        "is_cordoned",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("log_dir", "string", default=""),
        Field("topics", DescribeLogDirsTopic, array=True, default=()),
        Field("total_bytes", "int64", first=4, default=-1),
        Field("usable_bytes", "int64", first=4, default=-1),
        Field("is_cordoned", "bool", first=5, default=False),
    )

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: Sequence[DescribeLogDirsTopic] = (),
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "results",
    )
    KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", first=3, default=0),
        Field("results", DescribeLogDirsResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: Sequence[DescribeLogDirsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = results
