"""FindCoordinator: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class FindCoordinatorRequest(Root):
    __slots__ = (
        "key",
        "key_type",
        "coordinator_keys",
    )
    KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("key", "string", last=3, default=""),
        Field("key_type", "int8", first=1, default=0),
        Field("coordinator_keys", "string", array=True, first=4, default=()),
    )

    def __init__(
        self,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: Sequence[str] = (),
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = coordinator_keys


class Coordinator(Message):
    __slots__ = (
        "key",
        "node_id",
        "host",
        "port",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("key", "string", first=4, default=""),
        Field("node_id", "int32", first=4, default=0),
        Field("host", "string", first=4, default=""),
        Field("port", "int32", first=4, default=0),
        Field("error_code", "int16", first=4, default=0),
        Field("error_message", "string", first=4, null_from=4, default=""),
    )

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "node_id",
        "host",
        "port",
        "coordinators",
    )
    KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("error_code", "int16", last=3, default=0),
        Field("error_message", "string", first=1, last=3, null_from=1, default=""),
        Field("node_id", "int32", last=3, default=0),
        Field("host", "string", last=3, default=""),
        Field("port", "int32", last=3, default=0),
        Field("coordinators", Coordinator, array=True, first=4, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: Sequence[Coordinator] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = coordinators
