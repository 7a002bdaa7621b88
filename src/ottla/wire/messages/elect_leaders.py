"""ElectLeaders: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class TopicPartitions(Message):
    __slots__ = (
        "topic",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class ElectLeadersRequest(Root):
    __slots__ = (
        "election_type",
        "topic_partitions",
        "timeout_ms",
    )
    KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("election_type", "int8", first=1, default=0),
        Field("topic_partitions", TopicPartitions, array=True, null_from=0, default=()),
        Field("timeout_ms", "int32", default=60000),
    )

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: Sequence[TopicPartitions] | None = (),
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms


class PartitionResult(Message):
    __slots__ = (
        "partition_id",
        "error_code",
        "error_message",
    )
    FIELDS = (
        Field("partition_id", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Message):
    __slots__ = (
        "topic",
        "partition_result",
    )
    FIELDS = (
        Field("topic", "string", default=""),
        Field("partition_result", PartitionResult, array=True, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partition_result: Sequence[PartitionResult] = (),
    ) -> None:
        self.topic = topic
        self.partition_result = partition_result


class ElectLeadersResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "replica_election_results",
    )
    KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", first=1, default=0),
        Field("replica_election_results", ReplicaElectionResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: Sequence[ReplicaElectionResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = replica_election_results
