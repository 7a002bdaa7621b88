"""GetTelemetrySubscriptions: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Root


class GetTelemetrySubscriptionsRequest(Root):
    __slots__ = ("client_instance_id",)
    KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("client_instance_id", "uuid", default=NO_ID),)

    def __init__(
        self,
        client_instance_id: bytes = NO_ID,
    ) -> None:
        self.client_instance_id = client_instance_id


class GetTelemetrySubscriptionsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
    )
    KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("client_instance_id", "uuid", default=NO_ID),
        Field("subscription_id", "int32", default=0),
        Field("accepted_compression_types", "int8", array=True, default=()),
        Field("push_interval_ms", "int32", default=0),
        Field("telemetry_max_bytes", "int32", default=0),
        Field("delta_temporality", "bool", default=False),
        Field("requested_metrics", "string", array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: bytes = NO_ID,
        subscription_id: int = 0,
        accepted_compression_types: Sequence[int] = (),
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: Sequence[str] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = requested_metrics
