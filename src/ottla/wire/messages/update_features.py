"""UpdateFeatures: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class FeatureUpdateKey(Message):
    __slots__ = (
        "feature",
        "max_version_level",
        "allow_downgrade",
        "upgrade_type",
    )
    FIELDS = (
        Field("feature", "string", default=""),
        Field("max_version_level", "int16", default=0),
        Field("allow_downgrade", "bool", last=0, default=False),
        Field("upgrade_type", "int8", first=1, default=1),
    )

    def __init__(
        self,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(Root):
    __slots__ = (
        "timeout_ms",
        "feature_updates",
        "validate_only",
    )
    KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("timeout_ms", "int32", default=60000),
        Field("feature_updates", FeatureUpdateKey, array=True, default=()),
        Field("validate_only", "bool", first=1, default=False),
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        feature_updates: Sequence[FeatureUpdateKey] = (),
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = feature_updates
        self.validate_only = validate_only


class UpdatableFeatureResult(Message):
    __slots__ = (
        "feature",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("feature", "string", default=""),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "results",
    )
    KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("results", UpdatableFeatureResult, array=True, last=1, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: Sequence[UpdatableFeatureResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results
