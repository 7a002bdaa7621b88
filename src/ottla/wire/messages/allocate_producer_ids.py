"""AllocateProducerIds: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.wire.schema import Field, Root


class AllocateProducerIdsRequest(Root):
    __slots__ = (
        "broker_id",
        "broker_epoch",
    )
    KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("broker_epoch", "int64", default=-1),
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AllocateProducerIdsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id_start",
        "producer_id_len",
    )
    KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("producer_id_start", "int64", default=0),
        Field("producer_id_len", "int32", default=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len
