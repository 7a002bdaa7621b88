"""DescribeQuorum: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class PartitionData(Message):
    __slots__ = ("partition_index",)
    FIELDS = (Field("partition_index", "int32", default=0),)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


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


class DescribeQuorumRequest(Root):
    __slots__ = ("topics",)
    KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("topics", TopicData, array=True, default=()),)

    def __init__(
        self,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.topics = topics


class ReplicaState(Message):
    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )
    FIELDS = (
        Field("replica_id", "int32", default=0),
        Field("replica_directory_id", "uuid", first=2, default=NO_ID),
        Field("log_end_offset", "int64", default=0),
        Field("last_fetch_timestamp", "int64", first=1, default=-1),
        Field("last_caught_up_timestamp", "int64", first=1, default=-1),
    )

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: bytes = NO_ID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class ResponsePartitionData(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", first=2, null_from=2, default=""),
        Field("leader_id", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
        Field("high_watermark", "int64", default=0),
        Field("current_voters", ReplicaState, array=True, default=()),
        Field("observers", ReplicaState, array=True, default=()),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: Sequence[ReplicaState] = (),
        observers: Sequence[ReplicaState] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = current_voters
        self.observers = observers


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


class Listener(Message):
    __slots__ = (
        "name",
        "host",
        "port",
    )
    FIELDS = (
        Field("name", "string", first=2, default=""),
        Field("host", "string", first=2, default=""),
        Field("port", "uint16", first=2, default=0),
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


class Node(Message):
    __slots__ = (
        "node_id",
        "listeners",
    )
    FIELDS = (
        Field("node_id", "int32", first=2, default=0),
        Field("listeners", Listener, array=True, first=2, default=()),
    )

    def __init__(
        self,
        node_id: int = 0,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.node_id = node_id
        self.listeners = listeners


class DescribeQuorumResponse(Root):
    __slots__ = (
        "error_code",
        "error_message",
        "topics",
        "nodes",
    )
    KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", first=2, null_from=2, default=""),
        Field("topics", ResponseTopicData, array=True, default=()),
        Field("nodes", Node, array=True, first=2, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Sequence[ResponseTopicData] = (),
        nodes: Sequence[Node] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics
        self.nodes = nodes
