"""DeleteShareGroupOffsets: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class DeleteShareGroupOffsetsRequestTopic(Message):
    __slots__ = ("topic_name",)
    FIELDS = (Field("topic_name", "string", default=""),)

    def __init__(
        self,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(Root):
    __slots__ = (
        "group_id",
        "topics",
    )
    KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("topics", DeleteShareGroupOffsetsRequestTopic, array=True, default=()),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class DeleteShareGroupOffsetsResponseTopic(Message):
    __slots__ = (
        "topic_name",
        "topic_id",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("topic_id", "uuid", default=NO_ID),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = NO_ID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "responses",
    )
    KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("responses", DeleteShareGroupOffsetsResponseTopic, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses
