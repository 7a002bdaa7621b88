"""DeleteGroups: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class DeleteGroupsRequest(Root):
    __slots__ = ("groups_names",)
    KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (Field("groups_names", "string", array=True, default=()),)

    def __init__(
        self,
        groups_names: Sequence[str] = (),
    ) -> None:
        self.groups_names = groups_names


class DeletableGroupResult(Message):
    __slots__ = (
        "group_id",
        "error_code",
    )
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("error_code", "int16", default=0),
    )

    def __init__(
        self,
        group_id: str = "",
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "results",
    )
    KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("results", DeletableGroupResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[DeletableGroupResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
