"""StreamsGroupDescribe: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class StreamsGroupDescribeRequest(Root):
    __slots__ = (
        "group_ids",
        "include_authorized_operations",
    )
    KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("group_ids", "string", array=True, default=()),
        Field("include_authorized_operations", "bool", default=False),
    )

    def __init__(
        self,
        group_ids: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


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


class Subtopology(Message):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "repartition_sink_topics",
        "state_changelog_topics",
        "repartition_source_topics",
    )
    FIELDS = (
        Field("subtopology_id", "string", default=""),
        Field("source_topics", "string", array=True, default=()),
        Field("repartition_sink_topics", "string", array=True, default=()),
        Field("state_changelog_topics", TopicInfo, array=True, default=()),
        Field("repartition_source_topics", TopicInfo, array=True, default=()),
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: Sequence[str] = (),
        repartition_sink_topics: Sequence[str] = (),
        state_changelog_topics: Sequence[TopicInfo] = (),
        repartition_source_topics: Sequence[TopicInfo] = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = source_topics
        self.repartition_sink_topics = repartition_sink_topics
        self.state_changelog_topics = state_changelog_topics
        self.repartition_source_topics = repartition_source_topics


class Topology(Message):
    __slots__ = (
        "epoch",
        "subtopologies",
    )
    FIELDS = (
        Field("epoch", "int32", default=0),
        Field("subtopologies", Subtopology, array=True, null_from=0),
    )

    def __init__(
        self,
        epoch: int = 0,
        subtopologies: Sequence[Subtopology] | None = None,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


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


class Assignment(Message):
    __slots__ = (
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
    )
    FIELDS = (
        Field("active_tasks", TaskIds, array=True, default=()),
        Field("standby_tasks", TaskIds, array=True, default=()),
        Field("warmup_tasks", TaskIds, array=True, default=()),
    )

    def __init__(
        self,
        active_tasks: Sequence[TaskIds] = (),
        standby_tasks: Sequence[TaskIds] = (),
        warmup_tasks: Sequence[TaskIds] = (),
    ) -> None:
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks


class Member(Message):
    __slots__ = (
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "topology_epoch",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "assignment",
        "target_assignment",
        "is_classic",
    )
    FIELDS = (
        Field("member_id", "string", default=""),
        Field("member_epoch", "int32", default=0),
        Field("instance_id", "string", null_from=0),
        Field("rack_id", "string", null_from=0),
        Field("client_id", "string", default=""),
        Field("client_host", "string", default=""),
        Field("topology_epoch", "int32", default=0),
        Field("process_id", "string", default=""),
        Field("user_endpoint", Endpoint, null_from=0),
        Field("client_tags", KeyValue, array=True, default=()),
        Field("task_offsets", TaskOffset, array=True, default=()),
        Field("task_end_offsets", TaskOffset, array=True, default=()),
        Field("assignment", Assignment),
        Field("target_assignment", Assignment),
        Field("is_classic", "bool", default=False),
    )

    def __init__(
        self,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: Sequence[KeyValue] = (),
        task_offsets: Sequence[TaskOffset] = (),
        task_end_offsets: Sequence[TaskOffset] = (),
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.assignment: Assignment = Assignment() if assignment is None else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is None else target_assignment
        self.is_classic = is_classic


class DescribedGroup(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "topology",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0),
        Field("group_id", "string", default=""),
        Field("group_state", "string", default=""),
        Field("group_epoch", "int32", default=0),
        Field("assignment_epoch", "int32", default=0),
        Field("topology", Topology, null_from=0),
        Field("members", Member, array=True, default=()),
        Field("authorized_operations", "int32", default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: Sequence[Member] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = members
        self.authorized_operations = authorized_operations


class StreamsGroupDescribeResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "groups",
    )
    KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("groups", DescribedGroup, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
