"""DescribeCluster: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class DescribeClusterRequest(Root):
    __slots__ = (
        "include_cluster_authorized_operations",
        "endpoint_type",
        "include_fenced_brokers",
    )
    KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("include_cluster_authorized_operations", "bool", default=False),
        Field("endpoint_type", "int8", first=1, default=1),
        Field("include_fenced_brokers", "bool", first=2, default=False),
    )

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterBroker(Message):
    __slots__ = (
        "broker_id",
        "host",
        "port",
        "rack",
        "is_fenced",
    )
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("host", "string", default=""),
        Field("port", "int32", default=0),
        Field("rack", "string", null_from=0),
        Field("is_fenced", "bool", first=2, default=False),
    )

    def __init__(
        self,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )
    KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("endpoint_type", "int8", first=1, default=1),
        Field("cluster_id", "string", default=""),
        Field("controller_id", "int32", default=-1),
        Field("brokers", DescribeClusterBroker, array=True, default=()),
        Field("cluster_authorized_operations", "int32", default=-2147483648),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: Sequence[DescribeClusterBroker] = (),
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.cluster_authorized_operations = cluster_authorized_operations
