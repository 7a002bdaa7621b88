"""JoinGroup: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Message, Root


class JoinGroupRequestProtocol(Message):
    __slots__ = (
        "name",
        "metadata",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("metadata", "bytes", default=b""),
    )

    def __init__(
        self,
        name: str = "",
        metadata: ByteView = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(Root):
    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )
    KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("session_timeout_ms", "int32", default=0),
        Field("rebalance_timeout_ms", "int32", first=1, default=-1),
        Field("member_id", "string", default=""),
        Field("group_instance_id", "string", first=5, null_from=5),
        Field("protocol_type", "string", default=""),
        Field("protocols", JoinGroupRequestProtocol, array=True, default=()),
        Field("reason", "string", first=8, null_from=8),
    )

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: Sequence[JoinGroupRequestProtocol] = (),
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.reason = reason


class JoinGroupResponseMember(Message):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "metadata",
    )
    FIELDS = (
        Field("member_id", "string", default=""),
        Field("group_instance_id", "string", first=5, null_from=5),
        Field("metadata", "bytes", default=b""),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: ByteView = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )
    KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field("throttle_time_ms", "int32", first=2, default=0),
        Field("error_code", "int16", default=0),
        Field("generation_id", "int32", default=-1),
        Field("protocol_type", "string", first=7, null_from=7),
        Field("protocol_name", "string", null_from=7, default=""),
        Field("leader", "string", default=""),
        Field("skip_assignment", "bool", first=9, default=False),
        Field("member_id", "string", default=""),
        Field("members", JoinGroupResponseMember, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: Sequence[JoinGroupResponseMember] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = members
