"""ControllerRegistration: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class Listener(Message):
    __slots__ = (
        "name",
        "host",
        "port",
        "security_protocol",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("host", "string", default=""),
        Field("port", "uint16", default=0),
        Field("security_protocol", "int16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class Feature(Message):
    __slots__ = (
        "name",
        "min_supported_version",
        "max_supported_version",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("min_supported_version", "int16", default=0),
        Field("max_supported_version", "int16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class ControllerRegistrationRequest(Root):
    __slots__ = (
        "controller_id",
        "incarnation_id",
        "zk_migration_ready",
        "listeners",
        "features",
    )
    KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("controller_id", "int32", default=0),
        Field("incarnation_id", "uuid", default=NO_ID),
        Field("zk_migration_ready", "bool", default=False),
        Field("listeners", Listener, array=True, default=()),
        Field("features", Feature, array=True, default=()),
    )

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = NO_ID,
        zk_migration_ready: bool = False,
        listeners: Sequence[Listener] = (),
        features: Sequence[Feature] = (),
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = listeners
        self.features = features


class ControllerRegistrationResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
    )
    KEY = 70
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
