"""OffsetCommit: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class OffsetCommitRequestPartition(Message):
    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "committed_metadata",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("committed_offset", "int64", default=0),
        Field("committed_leader_epoch", "int32", first=6, default=-1),
        Field("committed_metadata", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(Message):
    __slots__ = (
        "name",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", last=9, default=""),
        Field("topic_id", "uuid", first=10, default=NO_ID),
        Field("partitions", OffsetCommitRequestPartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[OffsetCommitRequestPartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetCommitRequest(Root):
    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    )
    KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("generation_id_or_member_epoch", "int32", first=1, default=-1),
        Field("member_id", "string", first=1, default=""),
        Field("group_instance_id", "string", first=7, null_from=7),
        Field("retention_time_ms", "int64", first=2, last=4, default=-1),
        Field("topics", OffsetCommitRequestTopic, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: Sequence[OffsetCommitRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = topics


class OffsetCommitResponsePartition(Message):
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


class OffsetCommitResponseTopic(Message):
    __slots__ = (
        "name",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", last=9, default=""),
        Field("topic_id", "uuid", first=10, default=NO_ID),
        Field("partitions", OffsetCommitResponsePartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[OffsetCommitResponsePartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetCommitResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )
    KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_FROM = 8
    FIELDS = (
        Field("throttle_time_ms", "int32", first=3, default=0),
        Field("topics", OffsetCommitResponseTopic, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
