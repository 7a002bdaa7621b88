"""Changes of voters, as their leader handles them (KIP-853): AddVoter, RemoveVoter, UpdateVoter.

Owns: which change may be made, and the one that is under way. Never knows: how records are written and committed (that
is the leader's). Invariants: one change at a time, and only once something of this epoch is committed; a voter is added
only when it has caught up.
"""

from typing import NamedTuple, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.raft.core import NEVER, Core
from ottla.raft.messages import AddVoter, Answered, RemoveVoter, UpdateVoter
from ottla.raft.progress import Replicas
from ottla.raft.voters import ReplicaKey, VoterSet

VoterChange: TypeAlias = AddVoter | RemoveVoter | UpdateVoter


class _PendingChange(NamedTuple):
    """A change that is written and not committed; the token is None once it was answered."""

    offset: int
    token: object | None
    deadline: float


class Judged(NamedTuple):
    """What becomes of a request: an error, or the voters that it leads to."""

    error: ErrorCode
    message: str | None
    voters: VoterSet


class VoterChanges:
    """Of one leader; the one that is under way ends with its epoch."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pending: _PendingChange | None = None

    # --- what may be done --------------------------------------------------------------------------------------------

    def judge(self, request: VoterChange, replicas: Replicas, begun: bool, recently: float) -> Judged:
        """`begun`: something of this epoch is committed; who has had everything since `recently` has caught up."""
        voters = self._core.voters
        error, message = self._refuse(request, begun)
        if error != ErrorCode.NONE:
            return Judged(error, message, voters)
        if isinstance(request, RemoveVoter):
            return self._without(request)
        key = ReplicaKey(request.voter.voter_id, request.voter.directory_id)
        if not request.voter.endpoints:
            return Judged(ErrorCode.INVALID_REQUEST, "A voter needs an address.", voters)
        if isinstance(request, UpdateVoter):
            if key not in voters.keys:
                return Judged(ErrorCode.VOTER_NOT_FOUND, None, voters)
            return Judged(ErrorCode.NONE, None, voters.with_voter(request.voter))
        if voters.find(key.node_id) is not None:
            return Judged(ErrorCode.DUPLICATE_VOTER, f"{key.node_id} votes already: {_names(voters)}", voters)
        progress = replicas.known(key)
        if progress is None or progress.caught_up_at is None or progress.caught_up_at < recently:
            return Judged(ErrorCode.REQUEST_TIMED_OUT, f"{key.node_id} has not caught up with the log.", voters)
        return Judged(ErrorCode.NONE, None, voters.with_voter(request.voter))

    def _refuse(self, request: VoterChange, begun: bool) -> tuple[ErrorCode, str | None]:
        core = self._core
        if core.is_of_another_cluster(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, None
        error = core.refuse_epoch(request.epoch if isinstance(request, UpdateVoter) else core.epoch)
        if error != ErrorCode.NONE:
            return error, None
        if core.log.kraft_version < 1:
            return ErrorCode.UNSUPPORTED_VERSION, "The voters of this cluster are fixed (kraft.version 0)."
        if not begun:
            return ErrorCode.REQUEST_TIMED_OUT, "The leader has not yet agreed on anything with the voters."
        if self._pending is not None:
            return ErrorCode.REQUEST_TIMED_OUT, "Another change of voters is under way."
        return ErrorCode.NONE, None

    def _without(self, request: RemoveVoter) -> Judged:
        voters = self._core.voters
        rest = voters.without(request.voter)
        if rest is None:
            message = f"{request.voter.node_id} cannot be removed: {_names(voters)}"
            return Judged(ErrorCode.VOTER_NOT_FOUND, message, voters)
        return Judged(ErrorCode.NONE, None, rest)

    # --- the one that is under way -----------------------------------------------------------------------------------

    def begin(self, offset: int, token: object, request: VoterChange, now: float) -> None:
        """The record of the new voters was written at this offset."""
        core = self._core
        waits = not isinstance(request, AddVoter) or request.when_committed
        if not waits:
            core.reply(token, Answered(ErrorCode.NONE, core.believed))
        timeout = request.timeout if isinstance(request, AddVoter) else core.timing.request_timeout
        self._pending = _PendingChange(offset, token if waits else None, now + timeout)

    def deadline(self) -> float:
        return self._pending.deadline if self._pending is not None and self._pending.token is not None else NEVER

    def tick(self, now: float) -> None:
        pending = self._pending
        if pending is not None and now >= self.deadline():
            self._core.reply(pending.token, Answered(ErrorCode.REQUEST_TIMED_OUT, self._core.believed))
            self._pending = pending._replace(token=None)

    def committed(self) -> None:
        """The high watermark has moved: the change may be done."""
        pending = self._pending
        if pending is not None and self._core.high_watermark > pending.offset:
            self._end(ErrorCode.NONE)

    def abandon(self) -> None:
        """This replica leads no longer."""
        self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, error: ErrorCode) -> None:
        pending, self._pending = self._pending, None
        if pending is not None and pending.token is not None:
            self._core.reply(pending.token, Answered(error, self._core.believed))


def _names(voters: VoterSet) -> str:
    return "the voters are " + ", ".join(map(str, voters.ids))
