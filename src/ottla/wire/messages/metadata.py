"""Metadata: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class MetadataRequestTopic(Message):
    __slots__ = (
        "topic_id",
        "name",
    )
    FIELDS = (
        Field("topic_id", "uuid", first=10, default=NO_ID),
        Field("name", "string", null_from=10, default=""),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        name: str | None = "",
    ) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(Root):
    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )
    KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field("topics", MetadataRequestTopic, array=True, null_from=1, default=()),
        Field("allow_auto_topic_creation", "bool", first=4, default=True),
        Field("include_cluster_authorized_operations", "bool", first=8, last=10, default=False),
        Field("include_topic_authorized_operations", "bool", first=8, default=False),
    )

    def __init__(
        self,
        topics: Sequence[MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataResponseBroker(Message):
    __slots__ = (
        "node_id",
        "host",
        "port",
        "rack",
    )
    FIELDS = (
        Field("node_id", "int32", default=0),
        Field("host", "string", default=""),
        Field("port", "int32", default=0),
        Field("rack", "string", first=1, null_from=1),
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(Message):
    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("partition_index", "int32", default=0),
        Field("leader_id", "int32", default=0),
        Field("leader_epoch", "int32", first=7, default=-1),
        Field("replica_nodes", "int32", array=True, default=()),
        Field("isr_nodes", "int32", array=True, default=()),
        Field("offline_replicas", "int32", array=True, first=5, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.offline_replicas = offline_replicas


class MetadataResponseTopic(Message):
    __slots__ = (
        "error_code",
        "name",
        "topic_id",
        "is_internal",
        "partitions",
        "topic_authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("name", "string", null_from=12, default=""),
        Field("topic_id", "uuid", first=10, default=NO_ID),
        Field("is_internal", "bool", first=1, default=False),
        Field("partitions", MetadataResponsePartition, array=True, default=()),
        Field("topic_authorized_operations", "int32", first=8, default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = NO_ID,
        is_internal: bool = False,
        partitions: Sequence[MetadataResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )
    KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field("throttle_time_ms", "int32", first=3, default=0),
        Field("brokers", MetadataResponseBroker, array=True, default=()),
        Field("cluster_id", "string", first=2, null_from=2),
        Field("controller_id", "int32", first=1, default=-1),
        Field("topics", MetadataResponseTopic, array=True, default=()),
        Field("cluster_authorized_operations", "int32", first=8, last=10, default=-2147483648),
        Field("error_code", "int16", first=13, default=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: Sequence[MetadataResponseBroker] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: Sequence[MetadataResponseTopic] = (),
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code
