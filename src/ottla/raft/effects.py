"""What the machine wants done, in the order in which it has to be done.

Owns: the values. Never knows: disks, links, threads.
Invariants: an effect begins only when all before it are done; so what `SaveElection` and `Sync` make durable lasts
before any message behind them leaves.
"""

from typing import NamedTuple, TypeAlias

from ottla.raft.log_view import Entry, LogPosition
from ottla.raft.messages import Answer, FetchedSnapshot, FetchSnapshot, Request
from ottla.raft.voters import Election
from ottla.records.control import Control, Endpoint


# Why a list of effects, and what its order promises: design/0012.
class SaveElection(NamedTuple):
    """Write the epoch, the vote and the leader down, durably."""

    election: Election


class WriteControls(NamedTuple):
    """The leader's own records, as one batch at `base_offset`; like all it writes, to be told with `stored`."""

    base_offset: int
    epoch: int
    controls: tuple[Control, ...]


class Truncate(NamedTuple):
    """The log ends here: what lies behind goes."""

    offset: int


class WriteEntries(NamedTuple):
    """What the leader sent."""

    entries: tuple[Entry, ...]


class Sync(NamedTuple):
    """Everything in the log lasts from here on."""


class KeepPortion(NamedTuple):
    """A portion of a snapshot that is being loaded; position 0 begins it anew."""

    portion: FetchedSnapshot


class InstallSnapshot(NamedTuple):
    """The snapshot is here whole: let it take the place of the log, then tell `installed`."""

    snapshot: LogPosition


class Commit(NamedTuple):
    """Everything before this offset is committed."""

    high_watermark: int


class Send(NamedTuple):
    """Ask another replica; exactly one of `answered` and `unanswered` has to follow."""

    number: int
    node_id: int
    address: Endpoint
    request: Request
    timeout: float


class Reply(NamedTuple):
    """Answer a request that was received."""

    token: object
    answer: Answer


class ReplyPortion(NamedTuple):
    """Answer with a portion of a snapshot, or say that there is none."""

    token: object
    request: FetchSnapshot
    answer: FetchedSnapshot


class LeaderKnown(NamedTuple):
    """Somebody leads, or nobody that is known: -1."""

    leader_id: int
    epoch: int


class BeginLeading(NamedTuple):
    """This replica leads and everything before its epoch is committed."""

    epoch: int


class StopLeading(NamedTuple):
    epoch: int


Effect: TypeAlias = (
    SaveElection
    | WriteControls
    | Truncate
    | WriteEntries
    | Sync
    | KeepPortion
    | InstallSnapshot
    | Commit
    | Send
    | Reply
    | ReplyPortion
    | LeaderKnown
    | BeginLeading
    | StopLeading
)
