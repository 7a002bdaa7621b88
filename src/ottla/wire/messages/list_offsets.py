"""ListOffsets: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ListOffsetsPartition(Message):
    __slots__ = (
        "partition_index",
        "current_leader_epoch",
        "timestamp",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("current_leader_epoch", "int32", first=4, default=-1),
        Field("timestamp", "int64", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", ListOffsetsPartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ListOffsetsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsRequest(Root):
    __slots__ = (
        "replica_id",
        "isolation_level",
        "topics",
        "timeout_ms",
    )
    KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field("replica_id", "int32", default=0),
        Field("isolation_level", "int8", first=2, default=0),
        Field("topics", ListOffsetsTopic, array=True, default=()),
        Field("timeout_ms", "int32", first=10, default=0),
    )

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: Sequence[ListOffsetsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "timestamp",
        "offset",
        "leader_epoch",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("timestamp", "int64", first=1, default=-1),
        Field("offset", "int64", first=1, default=-1),
        Field("leader_epoch", "int32", first=4, default=-1),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", ListOffsetsPartitionResponse, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ListOffsetsPartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )
    KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field("throttle_time_ms", "int32", first=2, default=0),
        Field("topics", ListOffsetsTopicResponse, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[ListOffsetsTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
