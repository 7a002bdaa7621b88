"""AlterUserScramCredentials: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Message, Root


class ScramCredentialDeletion(Message):
    __slots__ = (
        "name",
        "mechanism",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("mechanism", "int8", default=0),
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Message):
    __slots__ = (
        "name",
        "mechanism",
        "iterations",
        "salt",
        "salted_password",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("mechanism", "int8", default=0),
        Field("iterations", "int32", default=0),
        Field("salt", "bytes", default=b""),
        Field("salted_password", "bytes", default=b""),
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: ByteView = b"",
        salted_password: ByteView = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(Root):
    __slots__ = (
        "deletions",
        "upsertions",
    )
    KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("deletions", ScramCredentialDeletion, array=True, default=()),
        Field("upsertions", ScramCredentialUpsertion, array=True, default=()),
    )

    def __init__(
        self,
        deletions: Sequence[ScramCredentialDeletion] = (),
        upsertions: Sequence[ScramCredentialUpsertion] = (),
    ) -> None:
        self.deletions = deletions
        self.upsertions = upsertions


class AlterUserScramCredentialsResult(Message):
    __slots__ = (
        "user",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("user", "string", default=""),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "results",
    )
    KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("results", AlterUserScramCredentialsResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[AlterUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
