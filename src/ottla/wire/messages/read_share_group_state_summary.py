"""ReadShareGroupStateSummary: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class PartitionData(Message):
    __slots__ = (
        "partition",
        "leader_epoch",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
    )

    def __init__(
        self,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateSummaryData(Message):
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


class ReadShareGroupStateSummaryRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
    )
    KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", ReadStateSummaryData, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[ReadStateSummaryData] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class PartitionResult(Message):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("state_epoch", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
        Field("start_offset", "int64", default=0),
        Field("delivery_complete_count", "int32", first=1, default=-1),
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count


class ReadStateSummaryResult(Message):
    __slots__ = (
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic_id", "uuid", default=NO_ID),
        Field("partitions", PartitionResult, array=True, default=()),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        partitions: Sequence[PartitionResult] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class ReadShareGroupStateSummaryResponse(Root):
    __slots__ = ("results",)
    KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("results", ReadStateSummaryResult, array=True, default=()),)

    def __init__(
        self,
        results: Sequence[ReadStateSummaryResult] = (),
    ) -> None:
        self.results = results
