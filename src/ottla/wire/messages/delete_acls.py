"""DeleteAcls: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class DeleteAclsFilter(Message):
    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    FIELDS = (
        Field("resource_type_filter", "int8", default=0),
        Field("resource_name_filter", "string", null_from=0, default=""),
        Field("pattern_type_filter", "int8", first=1, default=3),
        Field("principal_filter", "string", null_from=0, default=""),
        Field("host_filter", "string", null_from=0, default=""),
        Field("operation", "int8", default=0),
        Field("permission_type", "int8", default=0),
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(Root):
    __slots__ = ("filters",)
    KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (Field("filters", DeleteAclsFilter, array=True, default=()),)

    def __init__(
        self,
        filters: Sequence[DeleteAclsFilter] = (),
    ) -> None:
        self.filters = filters


class DeleteAclsMatchingAcl(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
        Field("pattern_type", "int8", first=1, default=3),
        Field("principal", "string", default=""),
        Field("host", "string", default=""),
        Field("operation", "int8", default=0),
        Field("permission_type", "int8", default=0),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "matching_acls",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("matching_acls", DeleteAclsMatchingAcl, array=True, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: Sequence[DeleteAclsMatchingAcl] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = matching_acls


class DeleteAclsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "filter_results",
    )
    KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("filter_results", DeleteAclsFilterResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        filter_results: Sequence[DeleteAclsFilterResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = filter_results
