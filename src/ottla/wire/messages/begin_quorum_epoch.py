"""BeginQuorumEpoch: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class PartitionData(Message):
    __slots__ = (
        "partition_index",
        "voter_directory_id",
        "leader_id",
        "leader_epoch",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("voter_directory_id", "uuid", first=1, default=NO_ID),
        Field("leader_id", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        voter_directory_id: bytes = NO_ID,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class TopicData(Message):
    __slots__ = (
        "topic_name",
        "partitions",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("partitions", PartitionData, array=True, default=()),
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


class LeaderEndpoint(Message):
    __slots__ = (
        "name",
        "host",
        "port",
    )
    FIELDS = (
        Field("name", "string", first=1, default=""),
        Field("host", "string", first=1, default=""),
        Field("port", "uint16", first=1, default=0),
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


class BeginQuorumEpochRequest(Root):
    __slots__ = (
        "cluster_id",
        "voter_id",
        "topics",
        "leader_endpoints",
    )
    KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("cluster_id", "string", null_from=0),
        Field("voter_id", "int32", first=1, default=-1),
        Field("topics", TopicData, array=True, default=()),
        Field("leader_endpoints", LeaderEndpoint, array=True, first=1, default=()),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: Sequence[TopicData] = (),
        leader_endpoints: Sequence[LeaderEndpoint] = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = topics
        self.leader_endpoints = leader_endpoints


class ResponsePartitionData(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "leader_id",
        "leader_epoch",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("leader_id", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ResponseTopicData(Message):
    __slots__ = (
        "topic_name",
        "partitions",
    )
    FIELDS = (
        Field("topic_name", "string", default=""),
        Field("partitions", ResponsePartitionData, array=True, default=()),
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: Sequence[ResponsePartitionData] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


class NodeEndpoint(Message):
    __slots__ = (
        "node_id",
        "host",
        "port",
    )
    FIELDS = (
        Field("node_id", "int32", first=1, default=0),
        Field("host", "string", first=1, default=""),
        Field("port", "uint16", first=1, default=0),
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class BeginQuorumEpochResponse(Root):
    __slots__ = (
        "error_code",
        "topics",
        "node_endpoints",
    )
    KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("topics", ResponseTopicData, array=True, default=()),
        Field("node_endpoints", NodeEndpoint, array=True, first=1, tag=0, tag_from=1, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        topics: Sequence[ResponseTopicData] = (),
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.error_code = error_code
        self.topics = topics
        self.node_endpoints = node_endpoints
