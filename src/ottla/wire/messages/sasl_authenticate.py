"""SaslAuthenticate: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Root


class SaslAuthenticateRequest(Root):
    __slots__ = ("auth_bytes",)
    KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (Field("auth_bytes", "bytes", default=b""),)

    def __init__(
        self,
        auth_bytes: ByteView = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Root):
    __slots__ = (
        "error_code",
        "error_message",
        "auth_bytes",
        "session_lifetime_ms",
    )
    KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("auth_bytes", "bytes", default=b""),
        Field("session_lifetime_ms", "int64", first=1, default=0),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: ByteView = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
