"""The records of `__transaction_state`. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import LATEST, Field, Message, Root


class TransactionLogKey(Root):
    __slots__ = ("transactional_id",)
    KEY = 0
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("transactional_id", "string", last=0, default=""),)

    def __init__(
        self,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id


class PartitionsSchema(Message):
    __slots__ = (
        "topic",
        "partition_ids",
    )
    FIELDS = (
        Field("topic", "string", default=""),
        Field("partition_ids", "int32", array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partition_ids: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partition_ids = partition_ids


class TransactionLogValue(Root):
    __slots__ = (
        "producer_id",
        "previous_producer_id",
        "next_producer_id",
        "producer_epoch",
        "next_producer_epoch",
        "transaction_timeout_ms",
        "transaction_status",
        "transaction_partitions",
        "transaction_last_update_timestamp_ms",
        "transaction_start_timestamp_ms",
        "client_transaction_version",
    )
    KEY = 0
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("producer_id", "int64", default=0),
        Field("previous_producer_id", "int64", first=1, tag=0, tag_from=1, default=-1),
        Field("next_producer_id", "int64", first=1, tag=1, tag_from=1, default=-1),
        Field("producer_epoch", "int16", default=0),
        Field("next_producer_epoch", "int16", first=1, tag=3, tag_from=1, default=-1),
        Field("transaction_timeout_ms", "int32", default=0),
        Field("transaction_status", "int8", default=0),
        Field("transaction_partitions", PartitionsSchema, array=True, null_from=0, default=()),
        Field("transaction_last_update_timestamp_ms", "int64", default=0),
        Field("transaction_start_timestamp_ms", "int64", default=0),
        Field("client_transaction_version", "int16", first=1, tag=2, tag_from=1, default=0),
    )

    def __init__(
        self,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: Sequence[PartitionsSchema] | None = (),
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.next_producer_epoch = next_producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version
