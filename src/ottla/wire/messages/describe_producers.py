"""DescribeProducers: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class TopicRequest(Message):
    __slots__ = (
        "name",
        "partition_indexes",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partition_indexes", "int32", array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class DescribeProducersRequest(Root):
    __slots__ = ("topics",)
    KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("topics", TopicRequest, array=True, default=()),)

    def __init__(
        self,
        topics: Sequence[TopicRequest] = (),
    ) -> None:
        self.topics = topics


class ProducerState(Message):
    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )
    FIELDS = (
        Field("producer_id", "int64", default=0),
        Field("producer_epoch", "int32", default=0),
        Field("last_sequence", "int32", default=-1),
        Field("last_timestamp", "int64", default=-1),
        Field("coordinator_epoch", "int32", default=0),
        Field("current_txn_start_offset", "int64", default=-1),
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "active_producers",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("active_producers", ProducerState, array=True, default=()),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: Sequence[ProducerState] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = active_producers


class TopicResponse(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", PartitionResponse, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[PartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DescribeProducersResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )
    KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("topics", TopicResponse, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[TopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
