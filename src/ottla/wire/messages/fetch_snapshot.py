"""FetchSnapshot: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class SnapshotId(Message):
    __slots__ = (
        "end_offset",
        "epoch",
    )
    FIELDS = (
        Field("end_offset", "int64", default=0),
        Field("epoch", "int32", default=0),
    )

    def __init__(
        self,
        end_offset: int = 0,
        epoch: int = 0,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class PartitionSnapshot(Message):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "snapshot_id",
        "position",
        "replica_directory_id",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("current_leader_epoch", "int32", default=0),
        Field("snapshot_id", SnapshotId),
        Field("position", "int64", default=0),
        Field("replica_directory_id", "uuid", first=1, tag=0, tag_from=1, default=NO_ID),
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId | None = None,
        position: int = 0,
        replica_directory_id: bytes = NO_ID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is None else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class TopicSnapshot(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", PartitionSnapshot, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[PartitionSnapshot] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class FetchSnapshotRequest(Root):
    __slots__ = (
        "cluster_id",
        "replica_id",
        "max_bytes",
        "topics",
    )
    KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("cluster_id", "string", null_from=0, tag=0),
        Field("replica_id", "int32", default=-1),
        Field("max_bytes", "int32", default=2147483647),
        Field("topics", TopicSnapshot, array=True, default=()),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: Sequence[TopicSnapshot] = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = topics


class ResponseSnapshotId(Message):
    __slots__ = (
        "end_offset",
        "epoch",
    )
    FIELDS = (
        Field("end_offset", "int64", default=0),
        Field("epoch", "int32", default=0),
    )

    def __init__(
        self,
        end_offset: int = 0,
        epoch: int = 0,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class LeaderIdAndEpoch(Message):
    __slots__ = (
        "leader_id",
        "leader_epoch",
    )
    FIELDS = (
        Field("leader_id", "int32", default=0),
        Field("leader_epoch", "int32", default=0),
    )

    def __init__(
        self,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ResponsePartitionSnapshot(Message):
    __slots__ = (
        "index",
        "error_code",
        "snapshot_id",
        "current_leader",
        "size",
        "position",
        "unaligned_records",
    )
    FIELDS = (
        Field("index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("snapshot_id", ResponseSnapshotId),
        Field("current_leader", LeaderIdAndEpoch, tag=0),
        Field("size", "int64", default=0),
        Field("position", "int64", default=0),
        Field("unaligned_records", "records", default=b""),
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: ResponseSnapshotId | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        size: int = 0,
        position: int = 0,
        unaligned_records: ByteView = b"",
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id: ResponseSnapshotId = ResponseSnapshotId() if snapshot_id is None else snapshot_id
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class ResponseTopicSnapshot(Message):
    __slots__ = (
        "name",
        "partitions",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", ResponsePartitionSnapshot, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ResponsePartitionSnapshot] = (),
    ) -> None:
        self.name = name
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


class FetchSnapshotResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "topics",
        "node_endpoints",
    )
    KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("topics", ResponseTopicSnapshot, array=True, default=()),
        Field("node_endpoints", NodeEndpoint, array=True, first=1, tag=0, tag_from=1, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: Sequence[ResponseTopicSnapshot] = (),
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = topics
        self.node_endpoints = node_endpoints
