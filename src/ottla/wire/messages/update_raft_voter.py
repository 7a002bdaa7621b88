"""UpdateRaftVoter: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class Listener(Message):
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


class UpdateRaftVoterRequest(Root):
    __slots__ = (
        "cluster_id",
        "current_leader_epoch",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "k_raft_version_feature",
    )
    KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("cluster_id", "string", null_from=0, default=""),
        Field("current_leader_epoch", "int32", default=0),
        Field("voter_id", "int32", default=0),
        Field("voter_directory_id", "uuid", default=NO_ID),
        Field("listeners", Listener, array=True, default=()),
        Field("k_raft_version_feature", KRaftVersionFeature),
    )

    def __init__(
        self,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = NO_ID,
        listeners: Sequence[Listener] = (),
        k_raft_version_feature: KRaftVersionFeature | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = listeners
        self.k_raft_version_feature: KRaftVersionFeature = (
            KRaftVersionFeature() if k_raft_version_feature is None else k_raft_version_feature
        )


class CurrentLeader(Message):
    __slots__ = (
        "leader_id",
        "leader_epoch",
        "host",
        "port",
    )
    FIELDS = (
        Field("leader_id", "int32", default=-1),
        Field("leader_epoch", "int32", default=-1),
        Field("host", "string", default=""),
        Field("port", "int32", default=0),
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port


class UpdateRaftVoterResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "current_leader",
    )
    KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("current_leader", CurrentLeader, tag=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: CurrentLeader | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader: CurrentLeader = CurrentLeader() if current_leader is None else current_leader
