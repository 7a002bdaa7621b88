"""Produce: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class PartitionProduceData(Message):
    __slots__ = (
        "index",
        "records",
    )
    FIELDS = (
        Field("index", "int32", default=0),
        Field("records", "records", null_from=0, default=b""),
    )

    def __init__(
        self,
        index: int = 0,
        records: ByteView | None = b"",
    ) -> None:
        self.index = index
        self.records = records


class TopicProduceData(Message):
    __slots__ = (
        "name",
        "topic_id",
        "partition_data",
    )
    FIELDS = (
        Field("name", "string", last=12, default=""),
        Field("topic_id", "uuid", first=13, default=NO_ID),
        Field("partition_data", PartitionProduceData, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        partition_data: Sequence[PartitionProduceData] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = partition_data


class ProduceRequest(Root):
    __slots__ = (
        "transactional_id",
        "acks",
        "timeout_ms",
        "topic_data",
    )
    KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field("transactional_id", "string", first=3, null_from=3),
        Field("acks", "int16", default=0),
        Field("timeout_ms", "int32", default=0),
        Field("topic_data", TopicProduceData, array=True, default=()),
    )

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: Sequence[TopicProduceData] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data


class BatchIndexAndErrorMessage(Message):
    __slots__ = (
        "batch_index",
        "batch_index_error_message",
    )
    FIELDS = (
        Field("batch_index", "int32", first=8, default=0),
        Field("batch_index_error_message", "string", first=8, null_from=8),
    )

    def __init__(
        self,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Message):
    __slots__ = (
        "leader_id",
        "leader_epoch",
    )
    FIELDS = (
        Field("leader_id", "int32", first=10, default=-1),
        Field("leader_epoch", "int32", first=10, default=-1),
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(Message):
    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )
    FIELDS = (
        Field("index", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("base_offset", "int64", default=0),
        Field("log_append_time_ms", "int64", first=2, default=-1),
        Field("log_start_offset", "int64", first=5, default=-1),
        Field("record_errors", BatchIndexAndErrorMessage, array=True, first=8, default=()),
        Field("error_message", "string", first=8, null_from=8),
        Field("current_leader", LeaderIdAndEpoch, first=10, tag=0, tag_from=10),
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[BatchIndexAndErrorMessage] = (),
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is None else current_leader


class TopicProduceResponse(Message):
    __slots__ = (
        "name",
        "topic_id",
        "partition_responses",
    )
    FIELDS = (
        Field("name", "string", last=12, default=""),
        Field("topic_id", "uuid", first=13, default=NO_ID),
        Field("partition_responses", PartitionProduceResponse, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        partition_responses: Sequence[PartitionProduceResponse] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = partition_responses


class NodeEndpoint(Message):
    __slots__ = (
        "node_id",
        "host",
        "port",
        "rack",
    )
    FIELDS = (
        Field("node_id", "int32", first=10, default=0),
        Field("host", "string", first=10, default=""),
        Field("port", "int32", first=10, default=0),
        Field("rack", "string", first=10, null_from=10),
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


class ProduceResponse(Root):
    __slots__ = (
        "responses",
        "throttle_time_ms",
        "node_endpoints",
    )
    KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field("responses", TopicProduceResponse, array=True, default=()),
        Field("throttle_time_ms", "int32", first=1, default=0),
        Field("node_endpoints", NodeEndpoint, array=True, first=10, tag=0, tag_from=10, default=()),
    )

    def __init__(
        self,
        responses: Sequence[TopicProduceResponse] = (),
        throttle_time_ms: int = 0,
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = node_endpoints
