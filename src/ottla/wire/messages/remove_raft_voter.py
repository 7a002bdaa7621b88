"""RemoveRaftVoter: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Root


class RemoveRaftVoterRequest(Root):
    __slots__ = (
        "cluster_id",
        "voter_id",
        "voter_directory_id",
    )
    KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("cluster_id", "string", null_from=0, default=""),
        Field("voter_id", "int32", default=0),
        Field("voter_directory_id", "uuid", default=NO_ID),
    )

    def __init__(
        self,
        cluster_id: str | None = "",
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class RemoveRaftVoterResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
    )
    KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
