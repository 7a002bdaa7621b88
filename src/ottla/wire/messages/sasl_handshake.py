"""SaslHandshake: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import LATEST, Field, Root


class SaslHandshakeRequest(Root):
    __slots__ = ("mechanism",)
    KEY = 17
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("mechanism", "string", default=""),)

    def __init__(
        self,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Root):
    __slots__ = (
        "error_code",
        "mechanisms",
    )
    KEY = 17
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("mechanisms", "string", array=True, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        mechanisms: Sequence[str] = (),
    ) -> None:
        self.error_code = error_code
        self.mechanisms = mechanisms
