"""DeleteTopics: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class DeleteTopicState(Message):
    __slots__ = (
        "name",
        "topic_id",
    )
    FIELDS = (
        Field("name", "string", first=6, null_from=6),
        Field("topic_id", "uuid", first=6, default=NO_ID),
    )

    def __init__(
        self,
        name: str | None = None,
        topic_id: bytes = NO_ID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(Root):
    __slots__ = (
        "topics",
        "topic_names",
        "timeout_ms",
    )
    KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("topics", DeleteTopicState, array=True, first=6, default=()),
        Field("topic_names", "string", array=True, last=5, default=()),
        Field("timeout_ms", "int32", default=0),
    )

    def __init__(
        self,
        topics: Sequence[DeleteTopicState] = (),
        topic_names: Sequence[str] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.topic_names = topic_names
        self.timeout_ms = timeout_ms


class DeletableTopicResult(Message):
    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("name", "string", null_from=6, default=""),
        Field("topic_id", "uuid", first=6, default=NO_ID),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", first=5, null_from=5),
    )

    def __init__(
        self,
        name: str | None = "",
        topic_id: bytes = NO_ID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "responses",
    )
    KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("responses", DeletableTopicResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: Sequence[DeletableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses
