"""AssignReplicasToDirs: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class PartitionData(Message):
    __slots__ = ("partition_index",)
    FIELDS = (Field("partition_index", "int32", default=0),)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class TopicData(Message):
    __slots__ = (
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic_id", "uuid", default=NO_ID),
        Field("partitions", PartitionData, array=True, default=()),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class DirectoryData(Message):
    __slots__ = (
        "id",
        "topics",
    )
    FIELDS = (
        Field("id", "uuid", default=NO_ID),
        Field("topics", TopicData, array=True, default=()),
    )

    def __init__(
        self,
        id: bytes = NO_ID,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.id = id
        self.topics = topics


class AssignReplicasToDirsRequest(Root):
    __slots__ = (
        "broker_id",
        "broker_epoch",
        "directories",
    )
    KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("broker_epoch", "int64", default=-1),
        Field("directories", DirectoryData, array=True, default=()),
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: Sequence[DirectoryData] = (),
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = directories


class ResponsePartitionData(Message):
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


class ResponseTopicData(Message):
    __slots__ = (
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic_id", "uuid", default=NO_ID),
        Field("partitions", ResponsePartitionData, array=True, default=()),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        partitions: Sequence[ResponsePartitionData] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class ResponseDirectoryData(Message):
    __slots__ = (
        "id",
        "topics",
    )
    FIELDS = (
        Field("id", "uuid", default=NO_ID),
        Field("topics", ResponseTopicData, array=True, default=()),
    )

    def __init__(
        self,
        id: bytes = NO_ID,
        topics: Sequence[ResponseTopicData] = (),
    ) -> None:
        self.id = id
        self.topics = topics


class AssignReplicasToDirsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "directories",
    )
    KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("directories", ResponseDirectoryData, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: Sequence[ResponseDirectoryData] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = directories
