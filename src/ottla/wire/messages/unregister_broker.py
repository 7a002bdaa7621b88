"""UnregisterBroker: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.wire.schema import Field, Root


class UnregisterBrokerRequest(Root):
    __slots__ = ("broker_id",)
    KEY = 64
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("broker_id", "int32", default=0),)

    def __init__(
        self,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id


class UnregisterBrokerResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
    )
    KEY = 64
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
