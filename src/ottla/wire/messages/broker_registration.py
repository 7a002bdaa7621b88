"""BrokerRegistration: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

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


class BrokerRegistrationRequest(Root):
    __slots__ = (
        "broker_id",
        "cluster_id",
        "incarnation_id",
        "listeners",
        "features",
        "rack",
        "is_migrating_zk_broker",
        "log_dirs",
        "previous_broker_epoch",
    )
    KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("cluster_id", "string", default=""),
        Field("incarnation_id", "uuid", default=NO_ID),
        Field("listeners", Listener, array=True, default=()),
        Field("features", Feature, array=True, default=()),
        Field("rack", "string", null_from=0, default=""),
        Field("is_migrating_zk_broker", "bool", first=1, default=False),
        Field("log_dirs", "uuid", array=True, first=2, default=()),
        Field("previous_broker_epoch", "int64", first=3, default=-1),
    )

    def __init__(
        self,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = NO_ID,
        listeners: Sequence[Listener] = (),
        features: Sequence[Feature] = (),
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: Sequence[bytes] = (),
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = listeners
        self.features = features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class BrokerRegistrationResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "broker_epoch",
    )
    KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("broker_epoch", "int64", default=-1),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch
