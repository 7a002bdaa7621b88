"""ListConfigResources: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ListConfigResourcesRequest(Root):
    __slots__ = ("resource_types",)
    KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("resource_types", "int8", array=True, first=1, default=()),)

    def __init__(
        self,
        resource_types: Sequence[int] = (),
    ) -> None:
        self.resource_types = resource_types


class ConfigResource(Message):
    __slots__ = (
        "resource_name",
        "resource_type",
    )
    FIELDS = (
        Field("resource_name", "string", default=""),
        Field("resource_type", "int8", first=1, default=16),
    )

    def __init__(
        self,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "config_resources",
    )
    KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("config_resources", ConfigResource, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: Sequence[ConfigResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = config_resources
