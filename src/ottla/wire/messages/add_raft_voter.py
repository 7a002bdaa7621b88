"""AddRaftVoter: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class Listener(Message):
    __slots__ = (
        "name",
        "host",
        "port",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("host", "string", default=""),
        Field("port", "uint16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class AddRaftVoterRequest(Root):
    __slots__ = (
        "cluster_id",
        "timeout_ms",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "ack_when_committed",
    )
    KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("cluster_id", "string", null_from=0, default=""),
        Field("timeout_ms", "int32", default=0),
        Field("voter_id", "int32", default=0),
        Field("voter_directory_id", "uuid", default=NO_ID),
        Field("listeners", Listener, array=True, default=()),
        Field("ack_when_committed", "bool", first=1, default=True),
    )

    def __init__(
        self,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        listeners: Sequence[Listener] = (),
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = listeners
        self.ack_when_committed = ack_when_committed


class AddRaftVoterResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
    )
    KEY = 80
    VERSIONS = (0, 1)
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
