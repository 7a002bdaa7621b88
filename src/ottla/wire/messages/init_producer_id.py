"""InitProducerId: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.wire.schema import Field, Root


class InitProducerIdRequest(Root):
    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable2_pc",
        "keep_prepared_txn",
    )
    KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("transactional_id", "string", null_from=0, default=""),
        Field("transaction_timeout_ms", "int32", default=0),
        Field("producer_id", "int64", first=3, default=-1),
        Field("producer_epoch", "int16", first=3, default=-1),
        Field("enable2_pc", "bool", first=6, default=False),
        Field("keep_prepared_txn", "bool", first=6, default=False),
    )

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )
    KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("producer_id", "int64", default=-1),
        Field("producer_epoch", "int16", default=0),
        Field("ongoing_txn_producer_id", "int64", first=6, default=-1),
        Field("ongoing_txn_producer_epoch", "int16", first=6, default=-1),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
