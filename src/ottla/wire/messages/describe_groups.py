"""DescribeGroups: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Message, Root


class DescribeGroupsRequest(Root):
    __slots__ = (
        "groups",
        "include_authorized_operations",
    )
    KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field("groups", "string", array=True, default=()),
        Field("include_authorized_operations", "bool", first=3, default=False),
    )

    def __init__(
        self,
        groups: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(Message):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "member_metadata",
        "member_assignment",
    )
    FIELDS = (
        Field("member_id", "string", default=""),
        Field("group_instance_id", "string", first=4, null_from=4),
        Field("client_id", "string", default=""),
        Field("client_host", "string", default=""),
        Field("member_metadata", "bytes", default=b""),
        Field("member_assignment", "bytes", default=b""),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: ByteView = b"",
        member_assignment: ByteView = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", first=6, null_from=6),
        Field("group_id", "string", default=""),
        Field("group_state", "string", default=""),
        Field("protocol_type", "string", default=""),
        Field("protocol_data", "string", default=""),
        Field("members", DescribedGroupMember, array=True, default=()),
        Field("authorized_operations", "int32", first=3, default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: Sequence[DescribedGroupMember] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "groups",
    )
    KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("groups", DescribedGroup, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
