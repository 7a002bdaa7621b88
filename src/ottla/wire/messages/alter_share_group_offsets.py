"""AlterShareGroupOffsets: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class AlterShareGroupOffsetsRequestPartition(Message):
    __slots__ = (
        "partition_index",
        "start_offset",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("start_offset", "int64", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(Message):
    __slots__ = (
        "topic_name",
        "partitions",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("partitions", AlterShareGroupOffsetsRequestPartition, array=True, default=()),
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


class AlterShareGroupOffsetsRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
    )
    KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", AlterShareGroupOffsetsRequestTopic, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[AlterShareGroupOffsetsRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class AlterShareGroupOffsetsResponsePartition(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(Message):
    __slots__ = (
        "topic_name",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("topic_id", "uuid", default=NO_ID),
        Field("partitions", AlterShareGroupOffsetsResponsePartition, array=True, default=()),
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = (),
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = partitions


class AlterShareGroupOffsetsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "responses",
    )
    KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("responses", AlterShareGroupOffsetsResponseTopic, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: Sequence[AlterShareGroupOffsetsResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses
