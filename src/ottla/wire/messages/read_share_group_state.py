"""ReadShareGroupState: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

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


class ReadStateData(Message):
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


class ReadShareGroupStateRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
    )
    KEY = 84
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", ReadStateData, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[ReadStateData] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


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


class PartitionResult(Message):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
        "state_epoch",
        "start_offset",
        "state_batches",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("state_epoch", "int32", default=0),
        Field("start_offset", "int64", default=0),
        Field("state_batches", StateBatch, array=True, default=()),
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: Sequence[StateBatch] = (),
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches = state_batches


class ReadStateResult(Message):
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


class ReadShareGroupStateResponse(Root):
    __slots__ = ("results",)
    KEY = 84
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("results", ReadStateResult, array=True, default=()),)

    def __init__(
        self,
        results: Sequence[ReadStateResult] = (),
    ) -> None:
        self.results = results
