"""StreamsGroupHeartbeat: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class KeyValue(Message):
    __slots__ = (
        "key",
        "value",
    )
    FIELDS = (
        Field("key", "string", default=""),
        Field("value", "string", default=""),
    )

    def __init__(
        self,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class TopicInfo(Message):
    __slots__ = (
        "name",
        "partitions",
        "replication_factor",
        "topic_configs",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("partitions", "int32", default=0),
        Field("replication_factor", "int16", default=0),
        Field("topic_configs", KeyValue, array=True, default=()),
    )

    def __init__(
        self,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: Sequence[KeyValue] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = topic_configs


class CopartitionGroup(Message):
    __slots__ = (
        "source_topics",
        "source_topic_regex",
        "repartition_source_topics",
    )
    FIELDS = (
        Field("source_topics", "int16", array=True, default=()),
        Field("source_topic_regex", "int16", array=True, default=()),
        Field("repartition_source_topics", "int16", array=True, default=()),
    )

    def __init__(
        self,
        source_topics: Sequence[int] = (),
        source_topic_regex: Sequence[int] = (),
        repartition_source_topics: Sequence[int] = (),
    ) -> None:
        self.source_topics = source_topics
        self.source_topic_regex = source_topic_regex
        self.repartition_source_topics = repartition_source_topics


class Subtopology(Message):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )
    FIELDS = (
        Field("subtopology_id", "string", default=""),
        Field("source_topics", "string", array=True, default=()),
        Field("source_topic_regex", "string", array=True, default=()),
        Field("state_changelog_topics", TopicInfo, array=True, default=()),
        Field("repartition_sink_topics", "string", array=True, default=()),
        Field("repartition_source_topics", TopicInfo, array=True, default=()),
        Field("copartition_groups", CopartitionGroup, array=True, default=()),
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: Sequence[str] = (),
        source_topic_regex: Sequence[str] = (),
        state_changelog_topics: Sequence[TopicInfo] = (),
        repartition_sink_topics: Sequence[str] = (),
        repartition_source_topics: Sequence[TopicInfo] = (),
        copartition_groups: Sequence[CopartitionGroup] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = source_topics
        self.source_topic_regex = source_topic_regex
        self.state_changelog_topics = state_changelog_topics
        self.repartition_sink_topics = repartition_sink_topics
        self.repartition_source_topics = repartition_source_topics
        self.copartition_groups = copartition_groups


class Topology(Message):
    __slots__ = (
        "epoch",
        "subtopologies",
    )
    FIELDS = (
        Field("epoch", "int32", default=0),
        Field("subtopologies", Subtopology, array=True, default=()),
    )

    def __init__(
        self,
        epoch: int = 0,
        subtopologies: Sequence[Subtopology] = (),
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class TaskIds(Message):
    __slots__ = (
        "subtopology_id",
        "partitions",
    )
    FIELDS = (
        Field("subtopology_id", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = partitions


class Endpoint(Message):
    __slots__ = (
        "host",
        "port",
    )
    FIELDS = (
        Field("host", "string", default=""),
        Field("port", "uint16", default=0),
    )

    def __init__(
        self,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class TaskOffset(Message):
    __slots__ = (
        "subtopology_id",
        "partition",
        "offset",
    )
    FIELDS = (
        Field("subtopology_id", "string", default=""),
        Field("partition", "int32", default=0),
        Field("offset", "int64", default=0),
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class StreamsGroupHeartbeatRequest(Root):
    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "endpoint_information_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "topology",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "shutdown_application",
    )
    KEY = 88
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_id", "string", default=""),
        Field("member_id", "string", default=""),
        Field("member_epoch", "int32", default=0),
        Field("endpoint_information_epoch", "int32", default=0),
        Field("instance_id", "string", null_from=0),
        Field("rack_id", "string", null_from=0),
        Field("rebalance_timeout_ms", "int32", default=-1),
        Field("topology", Topology, null_from=0),
        Field("active_tasks", TaskIds, array=True, null_from=0),
        Field("standby_tasks", TaskIds, array=True, null_from=0),
        Field("warmup_tasks", TaskIds, array=True, null_from=0),
        Field("process_id", "string", null_from=0),
        Field("user_endpoint", Endpoint, null_from=0),
        Field("client_tags", KeyValue, array=True, null_from=0),
        Field("task_offsets", TaskOffset, array=True, null_from=0),
        Field("task_end_offsets", TaskOffset, array=True, null_from=0),
        Field("shutdown_application", "bool", default=False),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: Sequence[TaskIds] | None = None,
        standby_tasks: Sequence[TaskIds] | None = None,
        warmup_tasks: Sequence[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: Sequence[KeyValue] | None = None,
        task_offsets: Sequence[TaskOffset] | None = None,
        task_end_offsets: Sequence[TaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class Status(Message):
    __slots__ = (
        "status_code",
        "status_detail",
    )
    FIELDS = (
        Field("status_code", "int8", default=0),
        Field("status_detail", "string", default=""),
    )

    def __init__(
        self,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class ResponseTaskIds(Message):
    __slots__ = (
        "subtopology_id",
        "partitions",
    )
    FIELDS = (
        Field("subtopology_id", "string", default=""),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = partitions


class ResponseEndpoint(Message):
    __slots__ = (
        "host",
        "port",
    )
    FIELDS = (
        Field("host", "string", default=""),
        Field("port", "uint16", default=0),
    )

    def __init__(
        self,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class TopicPartition(Message):
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


class EndpointToPartitions(Message):
    __slots__ = (
        "user_endpoint",
        "active_partitions",
        "standby_partitions",
    )
    FIELDS = (
        Field("user_endpoint", ResponseEndpoint),
        Field("active_partitions", TopicPartition, array=True, default=()),
        Field("standby_partitions", TopicPartition, array=True, default=()),
    )

    def __init__(
        self,
        user_endpoint: ResponseEndpoint | None = None,
        active_partitions: Sequence[TopicPartition] = (),
        standby_partitions: Sequence[TopicPartition] = (),
    ) -> None:
        self.user_endpoint: ResponseEndpoint = ResponseEndpoint() if user_endpoint is None else user_endpoint
        self.active_partitions = active_partitions
        self.standby_partitions = standby_partitions


class StreamsGroupHeartbeatResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "acceptable_recovery_lag",
        "task_offset_interval_ms",
        "status",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "endpoint_information_epoch",
        "partitions_by_user_endpoint",
    )
    KEY = 88
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("member_id", "string", default=""),
        Field("member_epoch", "int32", default=0),
        Field("heartbeat_interval_ms", "int32", default=0),
        Field("acceptable_recovery_lag", "int32", default=0),
        Field("task_offset_interval_ms", "int32", default=0),
        Field("status", Status, array=True, null_from=0, default=()),
        Field("active_tasks", ResponseTaskIds, array=True, null_from=0),
        Field("standby_tasks", ResponseTaskIds, array=True, null_from=0),
        Field("warmup_tasks", ResponseTaskIds, array=True, null_from=0),
        Field("endpoint_information_epoch", "int32", default=0),
        Field("partitions_by_user_endpoint", EndpointToPartitions, array=True, null_from=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: Sequence[Status] | None = (),
        active_tasks: Sequence[ResponseTaskIds] | None = None,
        standby_tasks: Sequence[ResponseTaskIds] | None = None,
        warmup_tasks: Sequence[ResponseTaskIds] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.task_offset_interval_ms = task_offset_interval_ms
        self.status = status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint
