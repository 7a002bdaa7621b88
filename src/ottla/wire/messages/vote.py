"""Vote: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class PartitionData(Message):
    __slots__ = (
        "partition_index",
        "replica_epoch",
        "replica_id",
        "replica_directory_id",
        "voter_directory_id",
        "last_offset_epoch",
        "last_offset",
        "pre_vote",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("replica_epoch", "int32", default=0),
        Field("replica_id", "int32", default=0),
        Field("replica_directory_id", "uuid", first=1, default=NO_ID),
        Field("voter_directory_id", "uuid", first=1, default=NO_ID),
        Field("last_offset_epoch", "int32", default=0),
        Field("last_offset", "int64", default=0),
        Field("pre_vote", "bool", first=2, default=False),
    )

    def __init__(
        self,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: bytes = NO_ID,
        voter_directory_id: bytes = NO_ID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote


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


class VoteRequest(Root):
    __slots__ = (
        "cluster_id",
        "voter_id",
        "topics",
    )
    KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("cluster_id", "string", null_from=0),
        Field("voter_id", "int32", first=1, default=-1),
        Field("topics", TopicData, array=True, default=()),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = topics


class ResponsePartitionData(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "leader_id",
        "leader_epoch",
        "vote_granted",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("leader_id", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
        Field("vote_granted", "bool", default=False),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        vote_granted: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.vote_granted = vote_granted


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


class VoteResponse(Root):
    __slots__ = (
        "error_code",
        "topics",
        "node_endpoints",
    )
    KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
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
