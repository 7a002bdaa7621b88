"""WriteShareGroupState: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class StateBatch(Message):
    __slots__ = (
        "first_offset",
        "last_offset",
        "delivery_state",
        "delivery_count",
    )
    FIELDS = (
        Field("first_offset", "int64", default=0),
        Field("last_offset", "int64", default=0),
        Field("delivery_state", "int8", default=0),
        Field("delivery_count", "int16", default=0),
    )

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class PartitionData(Message):
    __slots__ = (
        "partition",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
        "state_batches",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("state_epoch", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
        Field("start_offset", "int64", default=0),
        Field("delivery_complete_count", "int32", first=1, default=-1),
        Field("state_batches", StateBatch, array=True, default=()),
    )

    def __init__(
        self,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: Sequence[StateBatch] = (),
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches = state_batches


class WriteStateData(Message):
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


class WriteShareGroupStateRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
    )
    KEY = 85
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", WriteStateData, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[WriteStateData] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class PartitionResult(Message):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class WriteStateResult(Message):
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


class WriteShareGroupStateResponse(Root):
    __slots__ = ("results",)
    KEY = 85
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("results", WriteStateResult, array=True, default=()),)

    def __init__(
        self,
        results: Sequence[WriteStateResult] = (),
    ) -> None:
        self.results = results
