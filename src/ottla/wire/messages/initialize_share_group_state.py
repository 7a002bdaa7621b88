"""InitializeShareGroupState: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class PartitionData(Message):
    __slots__ = (
        "partition",
        "state_epoch",
        "start_offset",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("state_epoch", "int32", default=0),
        Field("start_offset", "int64", default=0),
    )

    def __init__(
        self,
        partition: int = 0,
        state_epoch: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.start_offset = start_offset


class InitializeStateData(Message):
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


class InitializeShareGroupStateRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
    )
    KEY = 83
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", InitializeStateData, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[InitializeStateData] = (),
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


class InitializeStateResult(Message):
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


class InitializeShareGroupStateResponse(Root):
    __slots__ = ("results",)
    KEY = 83
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("results", InitializeStateResult, array=True, default=()),)

    def __init__(
        self,
        results: Sequence[InitializeStateResult] = (),
    ) -> None:
        self.results = results
