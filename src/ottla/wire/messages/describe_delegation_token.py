"""DescribeDelegationToken: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Message, Root


class DescribeDelegationTokenOwner(Message):
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


class DescribeDelegationTokenRequest(Root):
    __slots__ = ("owners",)
    KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (Field("owners", DescribeDelegationTokenOwner, array=True, null_from=0, default=()),)

    def __init__(
        self,
        owners: Sequence[DescribeDelegationTokenOwner] | None = (),
    ) -> None:
        self.owners = owners


class DescribedDelegationTokenRenewer(Message):
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


class DescribedDelegationToken(Message):
    __slots__ = (
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
        "token_id",
        "hmac",
        "renewers",
    )
    FIELDS = (
        Field("principal_type", "string", default=""),
        Field("principal_name", "string", default=""),
        Field("token_requester_principal_type", "string", first=3, default=""),
        Field("token_requester_principal_name", "string", first=3, default=""),
        Field("issue_timestamp", "int64", default=0),
        Field("expiry_timestamp", "int64", default=0),
        Field("max_timestamp", "int64", default=0),
        Field("token_id", "string", default=""),
        Field("hmac", "bytes", default=b""),
        Field("renewers", DescribedDelegationTokenRenewer, array=True, default=()),
    )

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: ByteView = b"",
        renewers: Sequence[DescribedDelegationTokenRenewer] = (),
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = renewers


class DescribeDelegationTokenResponse(Root):
    __slots__ = (
        "error_code",
        "tokens",
        "throttle_time_ms",
    )
    KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("tokens", DescribedDelegationToken, array=True, default=()),
        Field("throttle_time_ms", "int32", default=0),
    )

    def __init__(
        self,
        error_code: int = 0,
        tokens: Sequence[DescribedDelegationToken] = (),
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = tokens
        self.throttle_time_ms = throttle_time_ms
