"""Values of control records and of the group protocol's embedded messages. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import LATEST, Field, Message, Root


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


class ConsumerProtocolAssignment(Root):
    __slots__ = (
        "assigned_partitions",
        "user_data",
    )
    KEY = -1
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("assigned_partitions", TopicPartition, array=True, default=()),
        Field("user_data", "bytes", null_from=0),
    )

    def __init__(
        self,
        assigned_partitions: Sequence[TopicPartition] = (),
        user_data: ByteView | None = None,
    ) -> None:
        self.assigned_partitions = assigned_partitions
        self.user_data = user_data


class ConsumerProtocolSubscriptionTopicPartition(Message):
    __slots__ = (
        "topic",
        "partitions",
    )
    FIELDS = (
        Field("topic", "string", first=1, default=""),
        Field("partitions", "int32", array=True, first=1, default=()),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class ConsumerProtocolSubscription(Root):
    __slots__ = (
        "topics",
        "user_data",
        "owned_partitions",
        "generation_id",
        "rack_id",
    )
    KEY = -1
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (
        Field("topics", "string", array=True, default=()),
        Field("user_data", "bytes", null_from=0),
        Field("owned_partitions", ConsumerProtocolSubscriptionTopicPartition, array=True, first=1, default=()),
        Field("generation_id", "int32", first=2, default=-1),
        Field("rack_id", "string", first=3, null_from=3),
    )

    def __init__(
        self,
        topics: Sequence[str] = (),
        user_data: ByteView | None = None,
        owned_partitions: Sequence[ConsumerProtocolSubscriptionTopicPartition] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = topics
        self.user_data = user_data
        self.owned_partitions = owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


class ControlRecordTypeSchema(Root):
    __slots__ = ("type",)
    KEY = -1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("type", "int16", default=0),)

    def __init__(
        self,
        type: int = 0,
    ) -> None:
        self.type = type


class DefaultPrincipalData(Root):
    __slots__ = (
        "type",
        "name",
        "token_authenticated",
    )
    KEY = -1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("type", "string", default=""),
        Field("name", "string", default=""),
        Field("token_authenticated", "bool", default=False),
    )

    def __init__(
        self,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated


class EndTxnMarker(Root):
    __slots__ = ("coordinator_epoch",)
    KEY = -1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = LATEST + 1
    FIELDS = (Field("coordinator_epoch", "int32", default=0),)

    def __init__(
        self,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch


class KRaftVersionRecord(Root):
    __slots__ = (
        "version",
        "k_raft_version",
    )
    KEY = -1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("version", "int16", default=0),
        Field("k_raft_version", "int16", default=0),
    )

    def __init__(
        self,
        version: int = 0,
        k_raft_version: int = 0,
    ) -> None:
        self.version = version
        self.k_raft_version = k_raft_version


class Voter(Message):
    __slots__ = (
        "voter_id",
        "voter_directory_id",
    )
    FIELDS = (
        Field("voter_id", "int32", default=0),
        Field("voter_directory_id", "uuid", first=1, default=NO_ID),
    )

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class LeaderChangeMessage(Root):
    __slots__ = (
        "version",
        "leader_id",
        "voters",
        "granting_voters",
    )
    KEY = -1
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("version", "int16", default=0),
        Field("leader_id", "int32", default=0),
        Field("voters", Voter, array=True, default=()),
        Field("granting_voters", Voter, array=True, default=()),
    )

    def __init__(
        self,
        version: int = 0,
        leader_id: int = 0,
        voters: Sequence[Voter] = (),
        granting_voters: Sequence[Voter] = (),
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = voters
        self.granting_voters = granting_voters


class SnapshotFooterRecord(Root):
    __slots__ = ("version",)
    KEY = -1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("version", "int16", default=0),)

    def __init__(
        self,
        version: int = 0,
    ) -> None:
        self.version = version


class SnapshotHeaderRecord(Root):
    __slots__ = (
        "version",
        "last_contained_log_timestamp",
    )
    KEY = -1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("version", "int16", default=0),
        Field("last_contained_log_timestamp", "int64", default=0),
    )

    def __init__(
        self,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp


class Endpoint(Message):
    __slots__ = (
        "name",
        "host",
        "port",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("host", "string", default=""),
        Field("port", "uint16", default=0),
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


class KRaftVersionFeature(Message):
    __slots__ = (
        "min_supported_version",
        "max_supported_version",
    )
    FIELDS = (
        Field("min_supported_version", "int16", default=0),
        Field("max_supported_version", "int16", default=0),
    )

    def __init__(
        self,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class VotersRecordVoter(Message):
    __slots__ = (
        "voter_id",
        "voter_directory_id",
        "endpoints",
        "k_raft_version_feature",
    )
    FIELDS = (
        Field("voter_id", "int32", default=0),
        Field("voter_directory_id", "uuid", default=NO_ID),
        Field("endpoints", Endpoint, array=True, default=()),
        Field("k_raft_version_feature", KRaftVersionFeature),
    )

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        endpoints: Sequence[Endpoint] = (),
        k_raft_version_feature: KRaftVersionFeature | None = None,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = endpoints
        self.k_raft_version_feature: KRaftVersionFeature = (
            KRaftVersionFeature() if k_raft_version_feature is None else k_raft_version_feature
        )


class VotersRecord(Root):
    __slots__ = (
        "version",
        "voters",
    )
    KEY = -1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("version", "int16", default=0),
        Field("voters", VotersRecordVoter, array=True, default=()),
    )

    def __init__(
        self,
        version: int = 0,
        voters: Sequence[VotersRecordVoter] = (),
    ) -> None:
        self.version = version
        self.voters = voters
