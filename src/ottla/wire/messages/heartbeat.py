"""Heartbeat: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.wire.schema import Field, Root


class HeartbeatRequest(Root):
    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
    )
    KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("generation_id", "int32", default=0),
        Field("member_id", "string", default=""),
        Field("group_instance_id", "string", first=3, null_from=3),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
    )
    KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("error_code", "int16", default=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
