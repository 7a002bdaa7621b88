"""TxnOffsetCommit: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class TxnOffsetCommitRequestPartition(Message):
    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "committed_metadata",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("committed_offset", "int64", default=0),
        Field("committed_leader_epoch", "int32", first=2, default=-1),
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


class TxnOffsetCommitRequestTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", TxnOffsetCommitRequestPartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[TxnOffsetCommitRequestPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class TxnOffsetCommitRequest(Root):
    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
    )
    KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("transactional_id", "string", default=""),
        Field("group_id", "string", default=""),
        Field("producer_id", "int64", default=0),
        Field("producer_epoch", "int16", default=0),
        Field("generation_id", "int32", first=3, default=-1),
        Field("member_id", "string", first=3, default=""),
        Field("group_instance_id", "string", first=3, null_from=3),
        Field("topics", TxnOffsetCommitRequestTopic, array=True, default=()),
    )

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: Sequence[TxnOffsetCommitRequestTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics


class TxnOffsetCommitResponsePartition(Message):
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


class TxnOffsetCommitResponseTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", TxnOffsetCommitResponsePartition, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[TxnOffsetCommitResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class TxnOffsetCommitResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )
    KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("topics", TxnOffsetCommitResponseTopic, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[TxnOffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
