"""AddOffsetsToTxn: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.wire.schema import Field, Root


class AddOffsetsToTxnRequest(Root):
    __slots__ = (
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "group_id",
    )
    KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("transactional_id", "string", default=""),
        Field("producer_id", "int64", default=0),
        Field("producer_epoch", "int16", default=0),
        Field("group_id", "string", default=""),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
    )
    KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
