"""Envelope: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Root


class EnvelopeRequest(Root):
    __slots__ = (
        "request_data",
        "request_principal",
        "client_host_address",
    )
    KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("request_data", "bytes", default=b""),
        Field("request_principal", "bytes", null_from=0, default=b""),
        Field("client_host_address", "bytes", default=b""),
    )

    def __init__(
        self,
        request_data: ByteView = b"",
        request_principal: ByteView | None = b"",
        client_host_address: ByteView = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(Root):
    __slots__ = (
        "response_data",
        "error_code",
    )
    KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("response_data", "bytes", null_from=0),
        Field("error_code", "int16", default=0),
    )

    def __init__(
        self,
        response_data: ByteView | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code
