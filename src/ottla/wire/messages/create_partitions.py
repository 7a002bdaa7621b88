"""CreatePartitions: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class CreatePartitionsAssignment(Message):
    __slots__ = ("broker_ids",)
    FIELDS = (Field("broker_ids", "int32", array=True, default=()),)

    def __init__(
        self,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.broker_ids = broker_ids


class CreatePartitionsTopic(Message):
    __slots__ = (
        "name",
        "count",
        "assignments",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("count", "int32", default=0),
        Field("assignments", CreatePartitionsAssignment, array=True, null_from=0, default=()),
    )

    def __init__(
        self,
        name: str = "",
        count: int = 0,
        assignments: Sequence[CreatePartitionsAssignment] | None = (),
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(Root):
    __slots__ = (
        "topics",
        "timeout_ms",
        "validate_only",
    )
    KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("topics", CreatePartitionsTopic, array=True, default=()),
        Field("timeout_ms", "int32", default=0),
        Field("validate_only", "bool", default=False),
    )

    def __init__(
        self,
        topics: Sequence[CreatePartitionsTopic] = (),
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(Message):
    __slots__ = (
        "name",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
    )

    def __init__(
        self,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "results",
    )
    KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("results", CreatePartitionsTopicResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[CreatePartitionsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
