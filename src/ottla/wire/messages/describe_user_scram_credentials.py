"""DescribeUserScramCredentials: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class UserName(Message):
    __slots__ = ("name",)
    FIELDS = (Field("name", "string", default=""),)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(Root):
    __slots__ = ("users",)
    KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("users", UserName, array=True, null_from=0, default=()),)

    def __init__(
        self,
        users: Sequence[UserName] | None = (),
    ) -> None:
        self.users = users


class CredentialInfo(Message):
    __slots__ = (
        "mechanism",
        "iterations",
    )
    FIELDS = (
        Field("mechanism", "int8", default=0),
        Field("iterations", "int32", default=0),
    )

    def __init__(
        self,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Message):
    __slots__ = (
        "user",
        "error_code",
        "error_message",
        "credential_infos",
    )
    FIELDS = (
        Field("user", "string", default=""),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("credential_infos", CredentialInfo, array=True, default=()),
    )

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: Sequence[CredentialInfo] = (),
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = credential_infos


class DescribeUserScramCredentialsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "results",
    )
    KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("results", DescribeUserScramCredentialsResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: Sequence[DescribeUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results
