"""OffsetFetch: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class OffsetFetchRequestTopic(Message):
    __slots__ = (
        "name",
        "partition_indexes",
    )
    FIELDS = (
        Field("name", "string", last=7, default=""),
        Field("partition_indexes", "int32", array=True, last=7, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class OffsetFetchRequestTopics(Message):
    __slots__ = (
        "name",
        "topic_id",
        "partition_indexes",
    )
    FIELDS = (
        Field("name", "string", first=8, last=9, default=""),
        Field("topic_id", "uuid", first=10, default=NO_ID),
        Field("partition_indexes", "int32", array=True, first=8, default=()),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = partition_indexes


class OffsetFetchRequestGroup(Message):
    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "topics",
    )
    FIELDS = (
        Field("group_id", "string", first=8, default=""),
        Field("member_id", "string", first=9, null_from=9),
        Field("member_epoch", "int32", first=9, default=-1),
        Field("topics", OffsetFetchRequestTopics, array=True, first=8, null_from=8, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: Sequence[OffsetFetchRequestTopics] | None = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
        "groups",
        "require_stable",
    )
    KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field("group_id", "string", last=7, default=""),
        Field("topics", OffsetFetchRequestTopic, array=True, last=7, null_from=2, default=()),
        Field("groups", OffsetFetchRequestGroup, array=True, first=8, default=()),
        Field("require_stable", "bool", first=7, default=False),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetFetchRequestTopic] | None = (),
        groups: Sequence[OffsetFetchRequestGroup] = (),
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = groups
        self.require_stable = require_stable


class OffsetFetchResponsePartition(Message):
    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "metadata",
        "error_code",
    )
    FIELDS = (
        Field("partition_index", "int32", last=7, default=0),
        Field("committed_offset", "int64", last=7, default=0),
        Field("committed_leader_epoch", "int32", first=5, last=7, default=-1),
        Field("metadata", "string", last=7, null_from=0, default=""),
        Field("error_code", "int16", last=7, default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", last=7, default=""),
        Field("partitions", OffsetFetchResponsePartition, array=True, last=7, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetFetchResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetFetchResponsePartitions(Message):
    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "metadata",
        "error_code",
    )
    FIELDS = (
        Field("partition_index", "int32", first=8, default=0),
        Field("committed_offset", "int64", first=8, default=0),
        Field("committed_leader_epoch", "int32", first=8, default=-1),
        Field("metadata", "string", first=8, null_from=8, default=""),
        Field("error_code", "int16", first=8, default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Message):
    __slots__ = (
        "name",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", first=8, last=9, default=""),
        Field("topic_id", "uuid", first=10, default=NO_ID),
        Field("partitions", OffsetFetchResponsePartitions, array=True, first=8, default=()),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[OffsetFetchResponsePartitions] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetFetchResponseGroup(Message):
    __slots__ = (
        "group_id",
        "topics",
        "error_code",
    )
    FIELDS = (
        Field("group_id", "string", first=8, default=""),
        Field("topics", OffsetFetchResponseTopics, array=True, first=8, default=()),
        Field("error_code", "int16", first=8, default=0),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetFetchResponseTopics] = (),
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.error_code = error_code


class OffsetFetchResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
        "error_code",
        "groups",
    )
    KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field("throttle_time_ms", "int32", first=3, default=0),
        Field("topics", OffsetFetchResponseTopic, array=True, last=7, default=()),
        Field("error_code", "int16", first=2, last=7, default=0),
        Field("groups", OffsetFetchResponseGroup, array=True, first=8, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetFetchResponseTopic] = (),
        error_code: int = 0,
        groups: Sequence[OffsetFetchResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.error_code = error_code
        self.groups = groups
