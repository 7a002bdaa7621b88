"""The quorum's election state. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID
from ottla.wire.schema import Field, Message, Root


class Voter(Message):
    __slots__ = ("voter_id",)
    FIELDS = (Field("voter_id", "int32", last=0, default=0),)

    def __init__(
        self,
        voter_id: int = 0,
    ) -> None:
        self.voter_id = voter_id


class QuorumStateData(Root):
    __slots__ = (
        "cluster_id",
        "leader_id",
        "leader_epoch",
        "voted_id",
        "voted_directory_id",
        "applied_offset",
        "current_voters",
    )
    KEY = -1
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("cluster_id", "string", last=0, default=""),
        Field("leader_id", "int32", default=-1),
        Field("leader_epoch", "int32", default=-1),
        Field("voted_id", "int32", default=-1),
        Field("voted_directory_id", "uuid", first=1, default=NO_ID),
        Field("applied_offset", "int64", last=0, default=0),
        Field("current_voters", Voter, array=True, last=0, null_from=0, default=()),
    )

    def __init__(
        self,
        cluster_id: str = "",
        leader_id: int = -1,
        leader_epoch: int = -1,
        voted_id: int = -1,
        voted_directory_id: bytes = NO_ID,
        applied_offset: int = 0,
        current_voters: Sequence[Voter] | None = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.voted_id = voted_id
        self.voted_directory_id = voted_directory_id
        self.applied_offset = applied_offset
        self.current_voters = current_voters
