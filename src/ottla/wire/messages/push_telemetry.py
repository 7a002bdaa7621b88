"""PushTelemetry: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Root


class PushTelemetryRequest(Root):
    __slots__ = (
        "client_instance_id",
        "subscription_id",
        "terminating",
        "compression_type",
        "metrics",
    )
    KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("client_instance_id", "uuid", default=NO_ID),
        Field("subscription_id", "int32", default=0),
        Field("terminating", "bool", default=False),
        Field("compression_type", "int8", default=0),
        Field("metrics", "bytes", default=b""),
    )

    def __init__(
        self,
        client_instance_id: bytes = NO_ID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: ByteView = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
    )
    KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
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
