"""WriteTxnMarkers: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class WritableTxnMarkerTopic(Message):
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


class WritableTxnMarker(Message):
    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )
    FIELDS = (
        Field("producer_id", "int64", default=0),
        Field("producer_epoch", "int16", default=0),
        Field("transaction_result", "bool", default=False),
        Field("topics", WritableTxnMarkerTopic, array=True, default=()),
        Field("coordinator_epoch", "int32", default=0),
        Field("transaction_version", "int8", first=2, default=0),
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: Sequence[WritableTxnMarkerTopic] = (),
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(Root):
    __slots__ = ("markers",)
    KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (Field("markers", WritableTxnMarker, array=True, default=()),)

    def __init__(
        self,
        markers: Sequence[WritableTxnMarker] = (),
    ) -> None:
        self.markers = markers


class WritableTxnMarkerPartitionResult(Message):
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


class WritableTxnMarkerTopicResult(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", WritableTxnMarkerPartitionResult, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[WritableTxnMarkerPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class WritableTxnMarkerResult(Message):
    __slots__ = (
        "producer_id",
        "topics",
    )
    FIELDS = (
        Field("producer_id", "int64", default=0),
        Field("topics", WritableTxnMarkerTopicResult, array=True, default=()),
    )

    def __init__(
        self,
        producer_id: int = 0,
        topics: Sequence[WritableTxnMarkerTopicResult] = (),
    ) -> None:
        self.producer_id = producer_id
        self.topics = topics


class WriteTxnMarkersResponse(Root):
    __slots__ = ("markers",)
    KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 1
    FIELDS = (Field("markers", WritableTxnMarkerResult, array=True, default=()),)

    def __init__(
        self,
        markers: Sequence[WritableTxnMarkerResult] = (),
    ) -> None:
        self.markers = markers
