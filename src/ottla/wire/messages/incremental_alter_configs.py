"""IncrementalAlterConfigs: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class AlterableConfig(Message):
    __slots__ = (
        "name",
        "config_operation",
        "value",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("config_operation", "int8", default=0),
        Field("value", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        name: str = "",
        config_operation: int = 0,
        value: str | None = "",
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class AlterConfigsResource(Message):
    __slots__ = (
        "resource_type",
        "resource_name",
        "configs",
    )
    FIELDS = (
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
        Field("configs", AlterableConfig, array=True, default=()),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[AlterableConfig] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class IncrementalAlterConfigsRequest(Root):
    __slots__ = (
        "resources",
        "validate_only",
    )
    KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("resources", AlterConfigsResource, array=True, default=()),
        Field("validate_only", "bool", default=False),
    )

    def __init__(
        self,
        resources: Sequence[AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only


class AlterConfigsResourceResponse(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "responses",
    )
    KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("responses", AlterConfigsResourceResponse, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: Sequence[AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses
