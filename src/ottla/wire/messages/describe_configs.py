"""DescribeConfigs: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class DescribeConfigsResource(Message):
    __slots__ = (
        "resource_type",
        "resource_name",
        "configuration_keys",
    )
    FIELDS = (
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
        Field("configuration_keys", "string", array=True, null_from=0, default=()),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: Sequence[str] | None = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


class DescribeConfigsRequest(Root):
    __slots__ = (
        "resources",
        "include_synonyms",
        "include_documentation",
    )
    KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("resources", DescribeConfigsResource, array=True, default=()),
        Field("include_synonyms", "bool", first=1, default=False),
        Field("include_documentation", "bool", first=3, default=False),
    )

    def __init__(
        self,
        resources: Sequence[DescribeConfigsResource] = (),
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(Message):
    __slots__ = (
        "name",
        "value",
        "source",
    )
    FIELDS = (
        Field("name", "string", first=1, default=""),
        Field("value", "string", first=1, null_from=0, default=""),
        Field("source", "int8", first=1, default=0),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(Message):
    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("value", "string", null_from=0, default=""),
        Field("read_only", "bool", default=False),
        Field("config_source", "int8", first=1, default=-1),
        Field("is_sensitive", "bool", default=False),
        Field("synonyms", DescribeConfigsSynonym, array=True, first=1, default=()),
        Field("config_type", "int8", first=3, default=0),
        Field("documentation", "string", first=3, null_from=0, default=""),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: Sequence[DescribeConfigsSynonym] = (),
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "configs",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
        Field("configs", DescribeConfigsResourceResult, array=True, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[DescribeConfigsResourceResult] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class DescribeConfigsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "results",
    )
    KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("results", DescribeConfigsResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[DescribeConfigsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
