"""AddPartitionsToTxn: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class AddPartitionsToTxnTopic(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AddPartitionsToTxnTransaction(Message):
    __slots__ = (
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "verify_only",
        "topics",
    )
    FIELDS = (
        Field("transactional_id", "string", first=4, default=""),
        Field("producer_id", "int64", first=4, default=0),
        Field("producer_epoch", "int16", first=4, default=0),
        Field("verify_only", "bool", first=4, default=False),
        Field("topics", AddPartitionsToTxnTopic, array=True, first=4, default=()),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: Sequence[AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = topics


class AddPartitionsToTxnRequest(Root):
    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
    )
    KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("transactions", AddPartitionsToTxnTransaction, array=True, first=4, default=()),
        Field("v3_and_below_transactional_id", "string", last=3, default=""),
        Field("v3_and_below_producer_id", "int64", last=3, default=0),
        Field("v3_and_below_producer_epoch", "int16", last=3, default=0),
        Field("v3_and_below_topics", AddPartitionsToTxnTopic, array=True, last=3, default=()),
    )

    def __init__(
        self,
        transactions: Sequence[AddPartitionsToTxnTransaction] = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactions = transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = v3_and_below_topics


class AddPartitionsToTxnPartitionResult(Message):
    __slots__ = (
        "partition_index",
        "partition_error_code",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("partition_error_code", "int16", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Message):
    __slots__ = (
        "name",
        "results_by_partition",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("results_by_partition", AddPartitionsToTxnPartitionResult, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = (),
    ) -> None:
        self.name = name
        self.results_by_partition = results_by_partition


class AddPartitionsToTxnResult(Message):
    __slots__ = (
        "transactional_id",
        "topic_results",
    )
    FIELDS = (
        Field("transactional_id", "string", first=4, default=""),
        Field("topic_results", AddPartitionsToTxnTopicResult, array=True, first=4, default=()),
    )

    def __init__(
        self,
        transactional_id: str = "",
        topic_results: Sequence[AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = topic_results


class AddPartitionsToTxnResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "results_by_transaction",
        "results_by_topic_v3_and_below",
    )
    KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", first=4, default=0),
        Field("results_by_transaction", AddPartitionsToTxnResult, array=True, first=4, default=()),
        Field("results_by_topic_v3_and_below", AddPartitionsToTxnTopicResult, array=True, last=3, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: Sequence[AddPartitionsToTxnResult] = (),
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = results_by_transaction
        self.results_by_topic_v3_and_below = results_by_topic_v3_and_below
