"""CreateAcls: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class AclCreation(Message):
    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    FIELDS = (
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
        Field("resource_pattern_type", "int8", first=1, default=3),
        Field("principal", "string", default=""),
        Field("host", "string", default=""),
        Field("operation", "int8", default=0),
        Field("permission_type", "int8", default=0),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(Root):
    __slots__ = ("creations",)
    KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (Field("creations", AclCreation, array=True, default=()),)

    def __init__(
        self,
        creations: Sequence[AclCreation] = (),
    ) -> None:
        self.creations = creations


class AclCreationResult(Message):
    __slots__ = (
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "results",
    )
    KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("results", AclCreationResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[AclCreationResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
