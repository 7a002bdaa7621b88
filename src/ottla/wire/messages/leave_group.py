"""LeaveGroup: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class MemberIdentity(Message):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "reason",
    )
    FIELDS = (
        Field("member_id", "string", first=3, default=""),
        Field("group_instance_id", "string", first=3, null_from=3),
        Field("reason", "string", first=5, null_from=5),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(Root):
    __slots__ = (
        "group_id",
        "member_id",
        "members",
    )
    KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("member_id", "string", last=2, default=""),
        Field("members", MemberIdentity, array=True, first=3, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        members: Sequence[MemberIdentity] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = members


class MemberResponse(Message):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "error_code",
    )
    FIELDS = (
        Field("member_id", "string", first=3, default=""),
        Field("group_instance_id", "string", first=3, null_from=3, default=""),
        Field("error_code", "int16", first=3, default=0),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "members",
    )
    KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("error_code", "int16", default=0),
        Field("members", MemberResponse, array=True, first=3, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: Sequence[MemberResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = members
