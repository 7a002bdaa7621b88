"""SyncGroup: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.wire.schema import Field, Message, Root


class SyncGroupRequestAssignment(Message):
    __slots__ = (
        "member_id",
        "assignment",
    )
    FIELDS = (
        Field("member_id", "string", default=""),
        Field("assignment", "bytes", default=b""),
    )

    def __init__(
        self,
        member_id: str = "",
        assignment: ByteView = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(Root):
    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )
    KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("generation_id", "int32", default=0),
        Field("member_id", "string", default=""),
        Field("group_instance_id", "string", first=3, null_from=3),
        Field("protocol_type", "string", first=5, null_from=5),
        Field("protocol_name", "string", first=5, null_from=5),
        Field("assignments", SyncGroupRequestAssignment, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Sequence[SyncGroupRequestAssignment] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments


class SyncGroupResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "protocol_type",
        "protocol_name",
        "assignment",
    )
    KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("error_code", "int16", default=0),
        Field("protocol_type", "string", first=5, null_from=5),
        Field("protocol_name", "string", first=5, null_from=5),
        Field("assignment", "bytes", default=b""),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: ByteView = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
