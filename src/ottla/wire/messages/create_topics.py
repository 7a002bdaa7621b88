"""CreateTopics: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class CreatableReplicaAssignment(Message):
    __slots__ = (
        "partition_index",
        "broker_ids",
    )
    FIELDS = (
        Field("partition_index", "int32", default=0),
        Field("broker_ids", "int32", array=True, default=()),
    )

    def __init__(
        self,
        partition_index: int = 0,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = broker_ids


class CreatableTopicConfig(Message):
    __slots__ = (
        "name",
        "value",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("value", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value


class CreatableTopic(Message):
    __slots__ = (
        "name",
        "num_partitions",
        "replication_factor",
        "assignments",
        "configs",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("num_partitions", "int32", default=0),
        Field("replication_factor", "int16", default=0),
        Field("assignments", CreatableReplicaAssignment, array=True, default=()),
        Field("configs", CreatableTopicConfig, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: Sequence[CreatableReplicaAssignment] = (),
        configs: Sequence[CreatableTopicConfig] = (),
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = assignments
        self.configs = configs


class CreateTopicsRequest(Root):
    __slots__ = (
        "topics",
        "timeout_ms",
        "validate_only",
    )
    KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field("topics", CreatableTopic, array=True, default=()),
        Field("timeout_ms", "int32", default=60000),
        Field("validate_only", "bool", first=1, default=False),
    )

    def __init__(
        self,
        topics: Sequence[CreatableTopic] = (),
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopicConfigs(Message):
    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
    )
    FIELDS = (
        Field("name", "string", first=5, default=""),
        Field("value", "string", first=5, null_from=5, default=""),
        Field("read_only", "bool", first=5, default=False),
        Field("config_source", "int8", first=5, default=-1),
        Field("is_sensitive", "bool", first=5, default=False),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Message):
    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("topic_id", "uuid", first=7, default=NO_ID),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", first=1, null_from=0, default=""),
        Field("topic_config_error_code", "int16", first=5, tag=0, tag_from=5, default=0),
        Field("num_partitions", "int32", first=5, default=-1),
        Field("replication_factor", "int16", first=5, default=-1),
        Field("configs", CreatableTopicConfigs, array=True, first=5, null_from=5, default=()),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: Sequence[CreatableTopicConfigs] | None = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "topics",
    )
    KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field("throttle_time_ms", "int32", first=2, default=0),
        Field("topics", CreatableTopicResult, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[CreatableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
