"""ApiVersions: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ApiVersionsRequest(Root):
    __slots__ = (
        "client_software_name",
        "client_software_version",
    )
    KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("client_software_name", "string", first=3, default=""),
        Field("client_software_version", "string", first=3, default=""),
    )

    def __init__(
        self,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version


class ApiVersion(Message):
    __slots__ = (
        "api_key",
        "min_version",
        "max_version",
    )
    FIELDS = (
        Field("api_key", "int16", default=0),
        Field("min_version", "int16", default=0),
        Field("max_version", "int16", default=0),
    )

    def __init__(
        self,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Message):
    __slots__ = (
        "name",
        "min_version",
        "max_version",
    )
    FIELDS = (
        Field("name", "string", first=3, default=""),
        Field("min_version", "int16", first=3, default=0),
        Field("max_version", "int16", first=3, default=0),
    )

    def __init__(
        self,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Message):
    __slots__ = (
        "name",
        "max_version_level",
        "min_version_level",
    )
    FIELDS = (
        Field("name", "string", first=3, default=""),
        Field("max_version_level", "int16", first=3, default=0),
        Field("min_version_level", "int16", first=3, default=0),
    )

    def __init__(
        self,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(Root):
    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )
    KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("api_keys", ApiVersion, array=True, default=()),
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("supported_features", SupportedFeatureKey, array=True, first=3, tag=0, tag_from=3, default=()),
        Field("finalized_features_epoch", "int64", first=3, tag=1, tag_from=3, default=-1),
        Field("finalized_features", FinalizedFeatureKey, array=True, first=3, tag=2, tag_from=3, default=()),
        Field("zk_migration_ready", "bool", first=3, tag=3, tag_from=3, default=False),
    )

    def __init__(
        self,
        error_code: int = 0,
        api_keys: Sequence[ApiVersion] = (),
        throttle_time_ms: int = 0,
        supported_features: Sequence[SupportedFeatureKey] = (),
        finalized_features_epoch: int = -1,
        finalized_features: Sequence[FinalizedFeatureKey] = (),
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = finalized_features
        self.zk_migration_ready = zk_migration_ready
