"""Request and response headers. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.wire.schema import Field, Root


class RequestHeader(Root):
    __slots__ = (
        "request_api_key",
        "request_api_version",
        "correlation_id",
        "client_id",
    )
    KEY = -1
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("request_api_key", "int16", default=0),
        Field("request_api_version", "int16", default=0),
        Field("correlation_id", "int32", default=0),
        Field("client_id", "string", first=1, null_from=1, default="", legacy=True),
    )

    def __init__(
        self,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


class ResponseHeader(Root):
    __slots__ = ("correlation_id",)
    KEY = -1
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (Field("correlation_id", "int32", default=0),)

    def __init__(
        self,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id
