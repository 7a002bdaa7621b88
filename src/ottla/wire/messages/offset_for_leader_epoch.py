"""OffsetForLeaderEpoch: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class OffsetForLeaderPartition(Message):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "leader_epoch",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("current_leader_epoch", "int32", first=2, default=-1),
        Field("leader_epoch", "int32", default=0),
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Message):
    __slots__ = (
        "topic",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", default=""),
        Field("partitions", OffsetForLeaderPartition, array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[OffsetForLeaderPartition] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochRequest(Root):
    __slots__ = (
        "replica_id",
        "topics",
    )
    KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("replica_id", "int32", first=3, default=-2),
        Field("topics", OffsetForLeaderTopic, array=True, default=()),
    )

    def __init__(
        self,
        replica_id: int = -2,
        topics: Sequence[OffsetForLeaderTopic] = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = topics


class EpochEndOffset(Message):
    __slots__ = (
        "error_code",
        "partition",
        "leader_epoch",
        "end_offset",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("partition", "int32", default=0),
        Field("leader_epoch", "int32", first=1, default=-1),
        Field("end_offset", "int64", default=-1),
    )

    def __init__(
        self,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Message):
    __slots__ = (
        "topic",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", default=""),
        Field("partitions", EpochEndOffset, array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[EpochEndOffset] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )
    KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", first=2, default=0),
        Field("topics", OffsetForLeaderTopicResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetForLeaderTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
