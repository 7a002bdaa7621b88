"""CreateDelegationToken: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Message, Root


class CreatableRenewers(Message):
    __slots__ = (
        "principal_type",
        "principal_name",
    )
    FIELDS = (
        Field("principal_type", "string", default=""),
        Field("principal_name", "string", default=""),
    )

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class CreateDelegationTokenRequest(Root):
    __slots__ = (
        "owner_principal_type",
        "owner_principal_name",
        "renewers",
        "max_lifetime_ms",
    )
    KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("owner_principal_type", "string", first=3, null_from=3, default=""),
        Field("owner_principal_name", "string", first=3, null_from=3, default=""),
        Field("renewers", CreatableRenewers, array=True, default=()),
        Field("max_lifetime_ms", "int64", default=0),
    )

    def __init__(
        self,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: Sequence[CreatableRenewers] = (),
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreateDelegationTokenResponse(Root):
    __slots__ = (
        "error_code",
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "token_id",
        "hmac",
        "throttle_time_ms",
    )
    KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("principal_type", "string", default=""),
        Field("principal_name", "string", default=""),
        Field("token_requester_principal_type", "string", first=3, default=""),
        Field("token_requester_principal_name", "string", first=3, default=""),
        Field("issue_timestamp_ms", "int64", default=0),
        Field("expiry_timestamp_ms", "int64", default=0),
        Field("max_timestamp_ms", "int64", default=0),
        Field("token_id", "string", default=""),
        Field("hmac", "bytes", default=b""),
        Field("throttle_time_ms", "int32", default=0),
    )

    def __init__(
        self,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: ByteView = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms
