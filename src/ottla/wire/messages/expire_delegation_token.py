"""ExpireDelegationToken: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Root


class ExpireDelegationTokenRequest(Root):
    __slots__ = (
        "hmac",
        "expiry_time_period_ms",
    )
    KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("hmac", "bytes", default=b""),
        Field("expiry_time_period_ms", "int64", default=0),
    )

    def __init__(
        self,
        hmac: ByteView = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms


class ExpireDelegationTokenResponse(Root):
    __slots__ = (
        "error_code",
        "expiry_timestamp_ms",
        "throttle_time_ms",
    )
    KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("expiry_timestamp_ms", "int64", default=0),
        Field("throttle_time_ms", "int32", default=0),
    )

    def __init__(
        self,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
