"""The records of `__cluster_metadata`. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.ports import ByteView
from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class AbortTransactionRecord(Root):
    __slots__ = ("reason",)
    KEY = 25
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("reason", "string", null_from=0, tag=0),)

    def __init__(
        self,
        reason: str | None = None,
    ) -> None:
        self.reason = reason


class AccessControlEntryRecord(Root):
    __slots__ = (
        "id",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    KEY = 18
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("id", "uuid", default=NO_ID),
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
        Field("pattern_type", "int8", default=0),
        Field("principal", "string", default=""),
        Field("host", "string", default=""),
        Field("operation", "int8", default=0),
        Field("permission_type", "int8", default=0),
    )

    def __init__(
        self,
        id: bytes = NO_ID,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 0,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.id = id
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class BeginTransactionRecord(Root):
    __slots__ = ("name",)
    KEY = 23
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("name", "string", null_from=0, tag=0),)

    def __init__(
        self,
        name: str | None = None,
    ) -> None:
        self.name = name


class BrokerRegistrationChangeRecord(Root):
    __slots__ = (
        "broker_id",
        "broker_epoch",
        "fenced",
        "in_controlled_shutdown",
        "log_dirs",
        "cordoned_log_dirs",
    )
    KEY = 17
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("broker_epoch", "int64", default=0),
        Field("fenced", "int8", tag=0, default=0),
        Field("in_controlled_shutdown", "int8", first=1, tag=1, tag_from=1, default=0),
        Field("log_dirs", "uuid", array=True, first=2, tag=2, tag_from=2, default=()),
        Field("cordoned_log_dirs", "uuid", array=True, first=3, null_from=3, tag=3, tag_from=3),
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: Sequence[bytes] = (),
        cordoned_log_dirs: Sequence[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class ClearElrRecord(Root):
    __slots__ = ("topic_name",)
    KEY = 28
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("topic_name", "string", default=""),)

    def __init__(
        self,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


class EntityData(Message):
    __slots__ = (
        "entity_type",
        "entity_name",
    )
    FIELDS = (
        Field("entity_type", "string", default=""),
        Field("entity_name", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ClientQuotaRecord(Root):
    __slots__ = (
        "entity",
        "key",
        "value",
        "remove",
    )
    KEY = 14
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("entity", EntityData, array=True, default=()),
        Field("key", "string", default=""),
        Field("value", "float64", default=0.0),
        Field("remove", "bool", default=False),
    )

    def __init__(
        self,
        entity: Sequence[EntityData] = (),
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.entity = entity
        self.key = key
        self.value = value
        self.remove = remove


class ConfigRecord(Root):
    __slots__ = (
        "resource_type",
        "resource_name",
        "name",
        "value",
    )
    KEY = 4
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("resource_type", "int8", default=0),
        Field("resource_name", "string", default=""),
        Field("name", "string", default=""),
        Field("value", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value


class DelegationTokenRecord(Root):
    __slots__ = (
        "owner",
        "requester",
        "renewers",
        "issue_timestamp",
        "max_timestamp",
        "expiration_timestamp",
        "token_id",
    )
    KEY = 10
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("owner", "string", default=""),
        Field("requester", "string", default=""),
        Field("renewers", "string", array=True, default=()),
        Field("issue_timestamp", "int64", default=0),
        Field("max_timestamp", "int64", default=0),
        Field("expiration_timestamp", "int64", default=0),
        Field("token_id", "string", default=""),
    )

    def __init__(
        self,
        owner: str = "",
        requester: str = "",
        renewers: Sequence[str] = (),
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers = renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id


class EndTransactionRecord(Root):
    __slots__ = ()
    KEY = 24
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = ()


class FeatureLevelRecord(Root):
    __slots__ = (
        "name",
        "feature_level",
    )
    KEY = 12
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("name", "string", default=""),
        Field("feature_level", "int16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        feature_level: int = 0,
    ) -> None:
        self.name = name
        self.feature_level = feature_level


class FenceBrokerRecord(Root):
    __slots__ = (
        "id",
        "epoch",
    )
    KEY = 7
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("id", "int32", default=0),
        Field("epoch", "int64", default=0),
    )

    def __init__(
        self,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch


class NoOpRecord(Root):
    __slots__ = ()
    KEY = 20
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = ()


class PartitionChangeRecord(Root):
    __slots__ = (
        "partition_id",
        "topic_id",
        "isr",
        "leader",
        "replicas",
        "removing_replicas",
        "adding_replicas",
        "leader_recovery_state",
        "directories",
        "eligible_leader_replicas",
        "last_known_elr",
    )
    KEY = 5
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("partition_id", "int32", default=-1),
        Field("topic_id", "uuid", default=NO_ID),
        Field("isr", "int32", array=True, null_from=0, tag=0),
        Field("leader", "int32", tag=1, default=-2),
        Field("replicas", "int32", array=True, null_from=0, tag=2),
        Field("removing_replicas", "int32", array=True, null_from=0, tag=3),
        Field("adding_replicas", "int32", array=True, null_from=0, tag=4),
        Field("leader_recovery_state", "int8", tag=5, default=-1),
        Field("directories", "uuid", array=True, first=1, null_from=1, tag=8, tag_from=1),
        Field("eligible_leader_replicas", "int32", array=True, first=2, null_from=2, tag=6, tag_from=2),
        Field("last_known_elr", "int32", array=True, first=2, null_from=2, tag=7, tag_from=2),
    )

    def __init__(
        self,
        partition_id: int = -1,
        topic_id: bytes = NO_ID,
        isr: Sequence[int] | None = None,
        leader: int = -2,
        replicas: Sequence[int] | None = None,
        removing_replicas: Sequence[int] | None = None,
        adding_replicas: Sequence[int] | None = None,
        leader_recovery_state: int = -1,
        directories: Sequence[bytes] | None = None,
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = isr
        self.leader = leader
        self.replicas = replicas
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader_recovery_state = leader_recovery_state
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class PartitionRecord(Root):
    __slots__ = (
        "partition_id",
        "topic_id",
        "replicas",
        "isr",
        "removing_replicas",
        "adding_replicas",
        "leader",
        "leader_recovery_state",
        "leader_epoch",
        "partition_epoch",
        "directories",
        "eligible_leader_replicas",
        "last_known_elr",
    )
    KEY = 3
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("partition_id", "int32", default=-1),
        Field("topic_id", "uuid", default=NO_ID),
        Field("replicas", "int32", array=True, default=()),
        Field("isr", "int32", array=True, default=()),
        Field("removing_replicas", "int32", array=True, default=()),
        Field("adding_replicas", "int32", array=True, default=()),
        Field("leader", "int32", default=-1),
        Field("leader_recovery_state", "int8", tag=0, default=0),
        Field("leader_epoch", "int32", default=-1),
        Field("partition_epoch", "int32", default=-1),
        Field("directories", "uuid", array=True, first=1, default=()),
        Field("eligible_leader_replicas", "int32", array=True, first=2, null_from=2, tag=1, tag_from=2),
        Field("last_known_elr", "int32", array=True, first=2, null_from=2, tag=2, tag_from=2),
    )

    def __init__(
        self,
        partition_id: int = -1,
        topic_id: bytes = NO_ID,
        replicas: Sequence[int] = (),
        isr: Sequence[int] = (),
        removing_replicas: Sequence[int] = (),
        adding_replicas: Sequence[int] = (),
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: Sequence[bytes] = (),
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas = replicas
        self.isr = isr
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class ProducerIdsRecord(Root):
    __slots__ = (
        "broker_id",
        "broker_epoch",
        "next_producer_id",
    )
    KEY = 15
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("broker_epoch", "int64", default=-1),
        Field("next_producer_id", "int64", default=0),
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        next_producer_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.next_producer_id = next_producer_id


class BrokerEndpoint(Message):
    __slots__ = (
        "name",
        "host",
        "port",
        "security_protocol",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("host", "string", default=""),
        Field("port", "uint16", default=0),
        Field("security_protocol", "int16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class BrokerFeature(Message):
    __slots__ = (
        "name",
        "min_supported_version",
        "max_supported_version",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("min_supported_version", "int16", default=0),
        Field("max_supported_version", "int16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterBrokerRecord(Root):
    __slots__ = (
        "broker_id",
        "is_migrating_zk_broker",
        "incarnation_id",
        "broker_epoch",
        "end_points",
        "features",
        "rack",
        "fenced",
        "in_controlled_shutdown",
        "log_dirs",
        "cordoned_log_dirs",
    )
    KEY = 0
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("is_migrating_zk_broker", "bool", first=2, default=False),
        Field("incarnation_id", "uuid", default=NO_ID),
        Field("broker_epoch", "int64", default=0),
        Field("end_points", BrokerEndpoint, array=True, default=()),
        Field("features", BrokerFeature, array=True, default=()),
        Field("rack", "string", null_from=0, default=""),
        Field("fenced", "bool", default=True),
        Field("in_controlled_shutdown", "bool", first=1, default=False),
        Field("log_dirs", "uuid", array=True, first=3, tag=0, tag_from=3, default=()),
        Field("cordoned_log_dirs", "uuid", array=True, first=4, null_from=4, tag=1, tag_from=4),
    )

    def __init__(
        self,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: bytes = NO_ID,
        broker_epoch: int = 0,
        end_points: Sequence[BrokerEndpoint] = (),
        features: Sequence[BrokerFeature] = (),
        rack: str | None = "",
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: Sequence[bytes] = (),
        cordoned_log_dirs: Sequence[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points = end_points
        self.features = features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class ControllerEndpoint(Message):
    __slots__ = (
        "name",
        "host",
        "port",
        "security_protocol",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("host", "string", default=""),
        Field("port", "uint16", default=0),
        Field("security_protocol", "int16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerFeature(Message):
    __slots__ = (
        "name",
        "min_supported_version",
        "max_supported_version",
    )
    FIELDS = (
        Field("name", "string", default=""),
        Field("min_supported_version", "int16", default=0),
        Field("max_supported_version", "int16", default=0),
    )

    def __init__(
        self,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterControllerRecord(Root):
    __slots__ = (
        "controller_id",
        "incarnation_id",
        "zk_migration_ready",
        "end_points",
        "features",
    )
    KEY = 27
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("controller_id", "int32", default=0),
        Field("incarnation_id", "uuid", default=NO_ID),
        Field("zk_migration_ready", "bool", default=False),
        Field("end_points", ControllerEndpoint, array=True, default=()),
        Field("features", ControllerFeature, array=True, default=()),
    )

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = NO_ID,
        zk_migration_ready: bool = False,
        end_points: Sequence[ControllerEndpoint] = (),
        features: Sequence[ControllerFeature] = (),
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.end_points = end_points
        self.features = features


class RemoveAccessControlEntryRecord(Root):
    __slots__ = ("id",)
    KEY = 19
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("id", "uuid", default=NO_ID),)

    def __init__(
        self,
        id: bytes = NO_ID,
    ) -> None:
        self.id = id


class RemoveDelegationTokenRecord(Root):
    __slots__ = ("token_id",)
    KEY = 26
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("token_id", "string", default=""),)

    def __init__(
        self,
        token_id: str = "",
    ) -> None:
        self.token_id = token_id


class RemoveTopicRecord(Root):
    __slots__ = ("topic_id",)
    KEY = 9
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("topic_id", "uuid", default=NO_ID),)

    def __init__(
        self,
        topic_id: bytes = NO_ID,
    ) -> None:
        self.topic_id = topic_id


class RemoveUserScramCredentialRecord(Root):
    __slots__ = (
        "name",
        "mechanism",
    )
    KEY = 22
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("name", "string", default=""),
        Field("mechanism", "int8", default=0),
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class TopicRecord(Root):
    __slots__ = (
        "name",
        "topic_id",
    )
    KEY = 2
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("name", "string", default=""),
        Field("topic_id", "uuid", default=NO_ID),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = NO_ID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class UnfenceBrokerRecord(Root):
    __slots__ = (
        "id",
        "epoch",
    )
    KEY = 8
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("id", "int32", default=0),
        Field("epoch", "int64", default=0),
    )

    def __init__(
        self,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch


class UnregisterBrokerRecord(Root):
    __slots__ = (
        "broker_id",
        "broker_epoch",
    )
    KEY = 1
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("broker_id", "int32", default=0),
        Field("broker_epoch", "int64", default=0),
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class UserScramCredentialRecord(Root):
    __slots__ = (
        "name",
        "mechanism",
        "salt",
        "stored_key",
        "server_key",
        "iterations",
    )
    KEY = 11
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("name", "string", default=""),
        Field("mechanism", "int8", default=0),
        Field("salt", "bytes", default=b""),
        Field("stored_key", "bytes", default=b""),
        Field("server_key", "bytes", default=b""),
        Field("iterations", "int32", default=0),
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        salt: ByteView = b"",
        stored_key: ByteView = b"",
        server_key: ByteView = b"",
        iterations: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations


class ZkMigrationStateRecord(Root):
    __slots__ = ("zk_migration_state",)
    KEY = 21
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (Field("zk_migration_state", "int8", default=0),)

    def __init__(
        self,
        zk_migration_state: int = 0,
    ) -> None:
        self.zk_migration_state = zk_migration_state
