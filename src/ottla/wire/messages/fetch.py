"""Fetch: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class ReplicaState(Message):
    __slots__ = (
        "replica_id",
        "replica_epoch",
    )
    FIELDS = (
        Field("replica_id", "int32", first=15, default=-1),
        Field("replica_epoch", "int64", first=15, default=-1),
    )

    def __init__(
        self,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchPartition(Message):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("current_leader_epoch", "int32", first=9, default=-1),
        Field("fetch_offset", "int64", default=0),
        Field("last_fetched_epoch", "int32", first=12, default=-1),
        Field("log_start_offset", "int64", first=5, default=-1),
        Field("partition_max_bytes", "int32", default=0),
        Field("replica_directory_id", "uuid", first=17, tag=0, tag_from=17, default=NO_ID),
        Field("high_watermark", "int64", first=18, tag=1, tag_from=18, default=9223372036854775807),
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = NO_ID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(Message):
    __slots__ = (
        "topic",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", last=12, default=""),
        Field("topic_id", "uuid", first=13, default=NO_ID),
        Field("partitions", FetchPartition, array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[FetchPartition] = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class ForgottenTopic(Message):
    __slots__ = (
        "topic",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", first=7, last=12, default=""),
        Field("topic_id", "uuid", first=13, default=NO_ID),
        Field("partitions", "int32", array=True, first=7, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class FetchRequest(Root):
    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
    )
    KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field("cluster_id", "string", first=12, null_from=12, tag=0, tag_from=12),
        Field("replica_id", "int32", last=14, default=-1),
        Field("replica_state", ReplicaState, first=15, tag=1, tag_from=15),
        Field("max_wait_ms", "int32", default=0),
        Field("min_bytes", "int32", default=0),
        Field("max_bytes", "int32", first=3, default=2147483647),
        Field("isolation_level", "int8", first=4, default=0),
        Field("session_id", "int32", first=7, default=0),
        Field("session_epoch", "int32", first=7, default=-1),
        Field("topics", FetchTopic, array=True, default=()),
        Field("forgotten_topics_data", ForgottenTopic, array=True, first=7, default=()),
        Field("rack_id", "string", first=11, default=""),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: Sequence[FetchTopic] = (),
        forgotten_topics_data: Sequence[ForgottenTopic] = (),
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state: ReplicaState = ReplicaState() if replica_state is None else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data
        self.rack_id = rack_id


class EpochEndOffset(Message):
    __slots__ = (
        "epoch",
        "end_offset",
    )
    FIELDS = (
        Field("epoch", "int32", first=12, default=-1),
        Field("end_offset", "int64", first=12, default=-1),
    )

    def __init__(
        self,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Message):
    __slots__ = (
        "leader_id",
        "leader_epoch",
    )
    FIELDS = (
        Field("leader_id", "int32", first=12, default=-1),
        Field("leader_epoch", "int32", first=12, default=-1),
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Message):
    __slots__ = (
        "end_offset",
        "epoch",
    )
    FIELDS = (
        Field("end_offset", "int64", default=-1),
        Field("epoch", "int32", default=-1),
    )

    def __init__(
        self,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(Message):
    __slots__ = (
        "producer_id",
        "first_offset",
    )
    FIELDS = (
        Field("producer_id", "int64", first=4, default=0),
        Field("first_offset", "int64", first=4, default=0),
    )

    def __init__(
        self,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class PartitionData(Message):
    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("high_watermark", "int64", default=0),
        Field("last_stable_offset", "int64", first=4, default=-1),
        Field("log_start_offset", "int64", first=5, default=-1),
        Field("diverging_epoch", EpochEndOffset, first=12, tag=0, tag_from=12),
        Field("current_leader", LeaderIdAndEpoch, first=12, tag=1, tag_from=12),
        Field("snapshot_id", SnapshotId, first=12, tag=2, tag_from=12),
        Field("aborted_transactions", AbortedTransaction, array=True, first=4, null_from=4, default=()),
        Field("preferred_read_replica", "int32", first=11, default=-1),
        Field("records", "records", null_from=0, default=b""),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: Sequence[AbortedTransaction] | None = (),
        preferred_read_replica: int = -1,
        records: ByteView | None = b"",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch: EpochEndOffset = EpochEndOffset() if diverging_epoch is None else diverging_epoch
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is None else snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(Message):
    __slots__ = (
        "topic",
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", last=12, default=""),
        Field("topic_id", "uuid", first=13, default=NO_ID),
        Field("partitions", PartitionData, array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = NO_ID,
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class NodeEndpoint(Message):
    __slots__ = (
        "node_id",
        "host",
        "port",
        "rack",
    )
    FIELDS = (
        Field("node_id", "int32", first=16, default=0),
        Field("host", "string", first=16, default=""),
        Field("port", "int32", first=16, default=0),
        Field("rack", "string", first=16, null_from=16),
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


class FetchResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "session_id",
        "responses",
        "node_endpoints",
    )
    KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("error_code", "int16", first=7, default=0),
        Field("session_id", "int32", first=7, default=0),
        Field("responses", FetchableTopicResponse, array=True, default=()),
        Field("node_endpoints", NodeEndpoint, array=True, first=16, tag=0, tag_from=16, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: Sequence[FetchableTopicResponse] = (),
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints = node_endpoints
