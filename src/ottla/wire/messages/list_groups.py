"""ListGroups: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ListGroupsRequest(Root):
    __slots__ = (
        "states_filter",
        "types_filter",
    )
    KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("states_filter", "string", array=True, first=4, default=()),
        Field("types_filter", "string", array=True, first=5, default=()),
    )

    def __init__(
        self,
        states_filter: Sequence[str] = (),
        types_filter: Sequence[str] = (),
    ) -> None:
        self.states_filter = states_filter
        self.types_filter = types_filter


class ListedGroup(Message):
    __slots__ = (
        "group_id",
        "protocol_type",
        "group_state",
        "group_type",
    )
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("protocol_type", "string", default=""),
        Field("group_state", "string", first=4, default=""),
        Field("group_type", "string", first=5, default=""),
    )

    def __init__(
        self,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "groups",
    )
    KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("error_code", "int16", default=0),
        Field("groups", ListedGroup, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: Sequence[ListedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = groups
