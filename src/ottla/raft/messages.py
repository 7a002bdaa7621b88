"""What replicas of the quorum say to each other, flat: one partition, no envelopes.

Owns: the values. Their bytes are Kafka's messages (`raft.translation`). Never knows: what follows from them.
Invariants: every answer carries the error, the leader and the epoch its sender believes in; -1 is nobody.
"""

from typing import NamedTuple, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.raft.log_view import Diverging, Entry, LogPosition
from ottla.raft.voters import ReplicaKey
from ottla.records.control import Endpoint, Voter


class Vote(NamedTuple):
    """May I lead? A pre-vote only asks whether it would be worth the trouble, and changes nothing."""

    cluster_id: str | None
    voter: ReplicaKey
    epoch: int
    candidate: ReplicaKey
    log_end: LogPosition
    pre_vote: bool


class BeginEpoch(NamedTuple):
    """I lead."""

    cluster_id: str | None
    voter: ReplicaKey
    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]


class EndEpoch(NamedTuple):
    """I lead no longer; the successors that know most come first."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...]
    endpoints: tuple[Endpoint, ...]


class Fetch(NamedTuple):
    """What comes behind my log's end? It says as well that everything before is stored."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    log_end: LogPosition
    high_watermark: int
    max_wait: float


class FetchSnapshot(NamedTuple):
    """The bytes of a snapshot from a position on."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot: LogPosition
    position: int


class AddVoter(NamedTuple):
    cluster_id: str | None
    voter: Voter
    timeout: float
    when_committed: bool


class RemoveVoter(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey


class UpdateVoter(NamedTuple):
    cluster_id: str | None
    epoch: int
    voter: Voter


class Believed(NamedTuple):
    """Whom the sender takes for the leader, since which epoch, and where that one listens."""

    leader_id: int
    epoch: int
    endpoint: Endpoint | None = None


class Voted(NamedTuple):
    error: ErrorCode
    believed: Believed
    granted: bool = False


class Answered(NamedTuple):
    """To BeginEpoch, EndEpoch and the changes of voters."""

    error: ErrorCode
    believed: Believed
    message: str | None = None


class Fetched(NamedTuple):
    """What comes behind a log's end; the sender's host fills the entries in, from `read_from` on where that is given.

    Instead of entries: where the logs part, or the snapshot that has to be loaded.
    """

    error: ErrorCode
    believed: Believed
    high_watermark: int = -1
    entries: tuple[Entry, ...] = ()
    read_from: int | None = None
    diverging: Diverging | None = None
    snapshot: LogPosition | None = None


class FetchedSnapshot(NamedTuple):
    """A portion of a snapshot of `size` bytes; the sender's host fills in size and bytes."""

    error: ErrorCode
    believed: Believed
    snapshot: LogPosition
    position: int
    size: int = 0
    data: object = b""


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot | AddVoter | RemoveVoter | UpdateVoter
Answer: TypeAlias = Voted | Answered | Fetched | FetchedSnapshot
