"""DescribeTransactions: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class DescribeTransactionsRequest(Root):
    __slots__ = ("transactional_ids",)
    KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("transactional_ids", "string", array=True, default=()),)

    def __init__(
        self,
        transactional_ids: Sequence[str] = (),
    ) -> None:
        self.transactional_ids = transactional_ids


class TopicData(Message):
    __slots__ = (
        "topic",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class TransactionState(Message):
    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("transactional_id", "string", default=""),
        Field("transaction_state", "string", default=""),
        Field("transaction_timeout_ms", "int32", default=0),
        Field("transaction_start_time_ms", "int64", default=0),
        Field("producer_id", "int64", default=0),
        Field("producer_epoch", "int16", default=0),
        Field("topics", TopicData, array=True, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = topics


class DescribeTransactionsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "transaction_states",
    )
    KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("transaction_states", TransactionState, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = transaction_states
