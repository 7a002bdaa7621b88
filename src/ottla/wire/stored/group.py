"""The records of `__consumer_offsets`. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import LATEST, Field, Message, Root


class ConsumerGroupCurrentMemberAssignmentKey(Root):
    __slots__ = (
        "group_id",
        "member_id",
    )
    KEY = 8
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("group_id", "string", last=0, default=""),
        Field("member_id", "string", last=0, default=""),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class TopicPartitions(Message):
    __slots__ = (
        "topic_id",
        "partitions",
        "assignment_epochs",
    )
    FIELDS = (
        Field("topic_id", "uuid", default=NO_ID),
        Field("partitions", "int32", array=True, default=()),
        Field("assignment_epochs", "int32", array=True, null_from=0, tag=0, default=()),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        partitions: Sequence[int] = (),
        assignment_epochs: Sequence[int] | None = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.assignment_epochs = assignment_epochs


class ConsumerGroupCurrentMemberAssignmentValue(Root):
    __slots__ = (
        "member_epoch",
        "previous_member_epoch",
        "state",
        "assigned_partitions",
        "partitions_pending_revocation",
    )
    KEY = 8
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("member_epoch", "int32", default=0),
        Field("previous_member_epoch", "int32", default=0),
        Field("state", "int8", default=0),
        Field("assigned_partitions", TopicPartitions, array=True, default=()),
        Field("partitions_pending_revocation", TopicPartitions, array=True, default=()),
    )

    def __init__(
        self,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: Sequence[TopicPartitions] = (),
        partitions_pending_revocation: Sequence[TopicPartitions] = (),
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = assigned_partitions
        self.partitions_pending_revocation = partitions_pending_revocation


class ConsumerGroupMemberMetadataKey(Root):
    __slots__ = (
        "group_id",
        "member_id",
    )
    KEY = 5
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("group_id", "string", last=0, default=""),
        Field("member_id", "string", last=0, default=""),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ClassicProtocol(Message):
    __slots__ = (
        "name",
        "metadata",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("metadata", "bytes", default=b""),
    )

    def __init__(
        self,
        name: str = "",
        metadata: ByteView = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class ClassicMemberMetadata(Message):
    __slots__ = (
        "session_timeout_ms",
        "supported_protocols",
    )
    FIELDS = (
        Field("session_timeout_ms", "int32", default=0),
        Field("supported_protocols", ClassicProtocol, array=True, default=()),
    )

    def __init__(
        self,
        session_timeout_ms: int = 0,
        supported_protocols: Sequence[ClassicProtocol] = (),
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = supported_protocols


class ConsumerGroupMemberMetadataValue(Root):
    __slots__ = (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "rebalance_timeout_ms",
        "server_assignor",
        "classic_member_metadata",
    )
    KEY = 5
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("instance_id", "string", null_from=0, default=""),
        Field("rack_id", "string", null_from=0, default=""),
        Field("client_id", "string", default=""),
        Field("client_host", "string", default=""),
        Field("subscribed_topic_names", "string", array=True, default=()),
        Field("subscribed_topic_regex", "string", null_from=0, default=""),
        Field("rebalance_timeout_ms", "int32", default=-1),
        Field("server_assignor", "string", null_from=0, default=""),
        Field("classic_member_metadata", ClassicMemberMetadata, null_from=0, tag=0),
    )

    def __init__(
        self,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Sequence[str] = (),
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = classic_member_metadata


class ConsumerGroupMetadataKey(Root):
    __slots__ = ("group_id",)
    KEY = 3
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("group_id", "string", last=0, default=""),)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupMetadataValue(Root):
    __slots__ = (
        "epoch",
        "metadata_hash",
    )
    KEY = 3
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("epoch", "int32", default=0),
        Field("metadata_hash", "int64", tag=0, default=0),
    )

    def __init__(
        self,
        epoch: int = 0,
        metadata_hash: int = 0,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash


class ConsumerGroupPartitionMetadataKey(Root):
    __slots__ = ("group_id",)
    KEY = 4
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("group_id", "string", last=0, default=""),)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class PartitionMetadata(Message):
    __slots__ = (
        "partition",
        "racks",
    )
    FIELDS = (
        Field("partition", "int32", default=0),
        Field("racks", "string", array=True, default=()),
    )

    def __init__(
        self,
        partition: int = 0,
        racks: Sequence[str] = (),
    ) -> None:
        self.partition = partition
        self.racks = racks


class TopicMetadata(Message):
    __slots__ = (
        "topic_id",
        "topic_name",
        "num_partitions",
        "partition_metadata",
    )
    FIELDS = (
        Field("topic_id", "uuid", default=NO_ID),
        Field("topic_name", "string", default=""),
        Field("num_partitions", "int32", default=0),
        Field("partition_metadata", PartitionMetadata, array=True, default=()),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: Sequence[PartitionMetadata] = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = partition_metadata


class ConsumerGroupPartitionMetadataValue(Root):
    __slots__ = ("topics",)
    KEY = 4
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("topics", TopicMetadata, array=True, default=()),)

    def __init__(
        self,
        topics: Sequence[TopicMetadata] = (),
    ) -> None:
        self.topics = topics


class ConsumerGroupRegularExpressionKey(Root):
    __slots__ = (
        "group_id",
        "regular_expression",
    )
    KEY = 16
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("group_id", "string", last=0, default=""),
        Field("regular_expression", "string", last=0, default=""),
    )

    def __init__(
        self,
        group_id: str = "",
        regular_expression: str = "",
    ) -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression


class ConsumerGroupRegularExpressionValue(Root):
    __slots__ = (
        "topics",
        "version",
        "timestamp",
    )
    KEY = 16
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("topics", "string", array=True, default=()),
        Field("version", "int64", default=0),
        Field("timestamp", "int64", default=0),
    )

    def __init__(
        self,
        topics: Sequence[str] = (),
        version: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.topics = topics
        self.version = version
        self.timestamp = timestamp


class ConsumerGroupTargetAssignmentMemberKey(Root):
    __slots__ = (
        "group_id",
        "member_id",
    )
    KEY = 7
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("group_id", "string", last=0, default=""),
        Field("member_id", "string", last=0, default=""),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class TopicPartition(Message):
    __slots__ = (
        "topic_id",
        "partitions",
    )
    FIELDS = (
        Field("topic_id", "uuid", default=NO_ID),
        Field("partitions", "int32", array=True, default=()),
    )

    def __init__(
        self,
        topic_id: bytes = NO_ID,
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class ConsumerGroupTargetAssignmentMemberValue(Root):
    __slots__ = ("topic_partitions",)
    KEY = 7
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("topic_partitions", TopicPartition, array=True, default=()),)

    def __init__(
        self,
        topic_partitions: Sequence[TopicPartition] = (),
    ) -> None:
        self.topic_partitions = topic_partitions


class ConsumerGroupTargetAssignmentMetadataKey(Root):
    __slots__ = ("group_id",)
    KEY = 6
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("group_id", "string", last=0, default=""),)

    def __init__(
        self,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupTargetAssignmentMetadataValue(Root):
    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp",
    )
    KEY = 6
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("assignment_epoch", "int32", default=0),
        Field("assignment_timestamp", "int64", tag=0, default=0),
    )

    def __init__(
        self,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class GroupMetadataKey(Root):
    __slots__ = ("group",)
    KEY = 2
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("group", "string", last=0, default=""),)

    def __init__(
        self,
        group: str = "",
    ) -> None:
        self.group = group


class MemberMetadata(Message):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "rebalance_timeout",
        "session_timeout",
        "subscription",
        "assignment",
    )
    FIELDS = (
        Field("member_id", "string", default=""),
        Field("group_instance_id", "string", first=3, null_from=3),
        Field("client_id", "string", default=""),
        Field("client_host", "string", default=""),
        Field("rebalance_timeout", "int32", first=1, default=-1),
        Field("session_timeout", "int32", default=0),
        Field("subscription", "bytes", default=b""),
        Field("assignment", "bytes", default=b""),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: ByteView = b"",
        assignment: ByteView = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class GroupMetadataValue(Root):
    __slots__ = (
        "protocol_type",
        "generation",
        "protocol",
        "leader",
        "current_state_timestamp",
        "members",
    )
    KEY = 2
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("protocol_type", "string", default=""),
        Field("generation", "int32", default=0),
        Field("protocol", "string", null_from=0, default=""),
        Field("leader", "string", null_from=0, default=""),
        Field("current_state_timestamp", "int64", first=2, default=-1),
        Field("members", MemberMetadata, array=True, default=()),
    )

    def __init__(
        self,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: Sequence[MemberMetadata] = (),
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = members


class OffsetCommitKey(Root):
    __slots__ = (
        "group",
        "topic",
        "partition",
    )
    KEY = 1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("group", "string", last=0, default=""),
        Field("topic", "string", last=0, default=""),
        Field("partition", "int32", last=0, default=0),
    )

    def __init__(
        self,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class OffsetCommitValue(Root):
    __slots__ = (
        "offset",
        "leader_epoch",
        "metadata",
        "commit_timestamp",
        "expire_timestamp",
        "topic_id",
    )
    KEY = 1
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("offset", "int64", default=0),
        Field("leader_epoch", "int32", first=3, default=-1),
        Field("metadata", "string", default=""),
        Field("commit_timestamp", "int64", default=0),
        Field("expire_timestamp", "int64", first=1, last=1, default=-1),
        Field("topic_id", "uuid", first=4, tag=0, tag_from=4, default=NO_ID),
    )

    def __init__(
        self,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = NO_ID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id
