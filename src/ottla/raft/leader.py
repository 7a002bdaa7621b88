"""Leading: writing the epoch's first record, serving the others, and moving the high watermark.

Owns: fetches that wait, how far the others are, the high watermark, the check that a majority is still there. Never
knows: bytes.
Invariants: an epoch begins with its leader's record; only what this epoch wrote, and with it all before, is committed;
what the leader itself holds counts once it is stored.
"""

from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.raft.core import NEVER, NOTICE, Core
from ottla.raft.effects import BeginLeading, ReplyPortion, StopLeading, WriteControls
from ottla.raft.log_view import Diverging, Entry, LogPosition
from ottla.raft.messages import Answered, BeginEpoch, Fetch, Fetched, FetchedSnapshot, FetchSnapshot
from ottla.raft.progress import ReplicaDescription, Replicas
from ottla.raft.roles import Role, RoleChanges
from ottla.raft.voter_changes import VoterChange, VoterChanges
from ottla.raft.voters import ReplicaKey
from ottla.records.control import Control, KraftVersion, LeaderChange, Voters

CHECK_FACTOR = 1.5
"""A leader that no majority has fetched from for so many fetch time-outs gives up."""


class _Parked(NamedTuple):
    """A fetch that waits for something to send."""

    token: object
    request: Fetch
    deadline: float


class QuorumDescription(NamedTuple):
    """The quorum as its leader sees it."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: list[ReplicaDescription]
    observers: list[ReplicaDescription]


class LeaderRole:
    """Leads from `begin` to `end`; decisions may be appended once something of the epoch is committed."""

    def __init__(self, core: Core, changes: RoleChanges) -> None:
        self._core = core
        self._changes = changes
        self._voter_changes = VoterChanges(core)
        self._replicas = Replicas(core.key, 0.0)
        self._epoch_start = 0
        self._stored_offset = 0
        self._begun = False
        self._parked: list[_Parked] = []

    # --- the beginning and the end -----------------------------------------------------------------------------------

    def begin(self, granting: frozenset[int], now: float) -> None:
        core = self._core
        self._replicas = Replicas(core.key, now)
        self._begun = False
        # A voter syncs before it fetches on, so everything up to here lasts.
        self._stored_offset = self._epoch_start = core.log.end_offset
        self._write(self._first_controls(granting))
        self._tell_epoch(now)

    def end(self, now: float) -> None:
        """The role is another one already."""
        if self._begun:
            self._begun = False
            self._core.emit(StopLeading(self._core.epoch))
        self._serve_parked(now)
        self._voter_changes.abandon()

    def _first_controls(self, granting: frozenset[int]) -> tuple[Control, ...]:
        core = self._core
        dynamic = core.log.kraft_version >= 1
        everybody = core.voters.named(core.voters.ids)
        # Version 0 also where directories are known: Kafka reads no other.
        change = LeaderChange(core.key.node_id, everybody, core.voters.named(granting))
        if dynamic and core.log.voters_offset < 0:
            # The first voters come from outside the log; from here on it names them itself.
            return change, KraftVersion(core.log.kraft_version), Voters(core.voters.voters)
        return (change,)

    def _write(self, controls: tuple[Control, ...]) -> int:
        """Append records of the quorum's own; answers the offset of the last."""
        core = self._core
        base = core.log.end_offset
        core.log.append([Entry(base, base + len(controls), core.epoch, controls, None)])
        core.emit(WriteControls(base, core.epoch, controls))
        return base + len(controls) - 1

    @property
    def begun(self) -> bool:
        """Whether decisions may be appended: everything before this epoch is committed and was told."""
        return self._core.role is Role.LEADER and self._begun

    # --- what the host tells -----------------------------------------------------------------------------------------

    def appended(self, end_offset: int, now: float) -> None:
        """The host has written a batch of this epoch behind the log's end."""
        core = self._core
        assert self.begun
        core.log.append([Entry(core.log.end_offset, end_offset, core.epoch, (), None)])
        self._serve_parked(now)

    def stored(self, end_offset: int, now: float) -> None:
        """Everything before this offset lasts."""
        if self._core.role is Role.LEADER and end_offset > self._stored_offset:
            self._stored_offset = end_offset
            self._commit(now)

    def _commit(self, now: float) -> None:
        """Move the high watermark to what a majority holds."""
        core = self._core
        held = self._replicas.held_by_majority(core.voters, self._stored_offset)
        if held <= self._epoch_start:
            # Entries of older epochs may still be overruled, however many hold them.
            return
        if core.advance(held):
            if not self._begun:
                self._begun = True
                core.emit(BeginLeading(core.epoch))
            self._voter_changes.committed()
            if not core.is_voter and core.high_watermark > core.log.voters_offset:
                # It was removed, and the others know.
                self._changes.resign(now)
            self._serve_parked(now)

    # --- serving -----------------------------------------------------------------------------------------------------

    def receive_fetch(self, token: object, request: Fetch, now: float) -> None:
        core = self._core
        if core.is_of_another_cluster(request.cluster_id):
            core.reply(token, Fetched(ErrorCode.INCONSISTENT_CLUSTER_ID, core.believed))
            return
        if min(request.log_end) < 0 or request.epoch < 0:
            core.reply(token, Fetched(ErrorCode.INVALID_REQUEST, core.believed))
            return
        error = core.refuse_epoch(request.epoch)
        if error != ErrorCode.NONE:
            core.reply(token, Fetched(error, core.believed))
            return
        parting = core.log.compare(*request.log_end)
        if parting is not None:
            core.reply(token, self._parted(parting))
            return
        self._note(request, now)
        if core.role is not Role.LEADER:
            # What it stored was the last of a change that takes this replica out.
            core.reply(token, Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, core.believed))
        elif self._worth_sending(request) or request.max_wait <= 0:
            core.reply(token, self._portion(request))
        else:
            self._parked.append(_Parked(token, request, now + request.max_wait))

    def _parted(self, parting: Diverging | LogPosition) -> Fetched:
        core = self._core
        if isinstance(parting, Diverging):
            return Fetched(ErrorCode.NONE, core.believed, core.high_watermark, diverging=parting)
        return Fetched(ErrorCode.NONE, core.believed, core.high_watermark, snapshot=parting)

    def _note(self, request: Fetch, now: float) -> None:
        core = self._core
        if request.replica.node_id < 0:
            return
        progress = self._replicas.of(request.replica)
        progress.fetched(request.log_end.offset, core.log.end_offset, now)
        progress.begin_at = now + core.timing.fetch_timeout / 2
        if core.voters.has(request.replica):
            self._commit(now)

    def _worth_sending(self, request: Fetch) -> bool:
        core = self._core
        return core.log.end_offset > request.log_end.offset or core.high_watermark > request.high_watermark

    def _portion(self, request: Fetch) -> Fetched:
        core = self._core
        behind = core.log.end_offset > request.log_end.offset
        return Fetched(
            ErrorCode.NONE,
            core.believed,
            core.high_watermark,
            read_from=request.log_end.offset if behind else None,
        )

    def _serve_parked(self, now: float) -> None:
        core = self._core
        if not self._parked:
            return
        parked, self._parked = self._parked, []
        for one in parked:
            if core.role is not Role.LEADER:
                core.reply(one.token, Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, core.believed))
            elif one.deadline <= now or self._worth_sending(one.request):
                core.reply(one.token, self._portion(one.request))
            else:
                self._parked.append(one)

    def receive_fetch_snapshot(self, token: object, request: FetchSnapshot, now: float) -> None:
        core = self._core

        def answer(error: ErrorCode) -> FetchedSnapshot:
            return FetchedSnapshot(error, core.believed, request.snapshot, request.position)

        if core.is_of_another_cluster(request.cluster_id):
            core.reply(token, answer(ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        error = core.refuse_epoch(request.epoch)
        if error != ErrorCode.NONE:
            core.reply(token, answer(error))
            return
        progress = self._replicas.of(request.replica)
        # Whoever loads a snapshot is alive, though not further than before.
        progress.fetched_at = now
        progress.begin_at = now + core.timing.fetch_timeout / 2
        core.emit(ReplyPortion(token, request, answer(ErrorCode.NONE)))

    # --- the others must know ----------------------------------------------------------------------------------------

    def _tell_epoch(self, now: float) -> None:
        core = self._core
        for voter in core.voters.voters:
            progress = self._replicas.voter(voter)
            if voter.voter_id == core.key.node_id or progress.begin_at > now or not voter.endpoints:
                continue
            progress.begin_at = now + core.timing.fetch_timeout / 2
            request = BeginEpoch(
                core.identity.cluster_id,
                ReplicaKey(voter.voter_id, voter.directory_id),
                core.key.node_id,
                core.epoch,
                core.identity.endpoints,
            )
            core.send(voter.voter_id, voter.endpoints[0], request)

    def begin_unanswered(self, node_id: int, request: BeginEpoch, refused: bool, now: float) -> None:
        core = self._core
        voter = core.voters.find(node_id)
        if core.role is Role.LEADER and request.epoch == core.epoch and voter is not None:
            # One that is down will look for us itself when it is back.
            pause = NOTICE if not refused else core.timing.fetch_timeout / 2
            self._replicas.voter(voter).begin_at = now + pause

    # --- time --------------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        replicas, voters = self._replicas, self._core.voters
        own = self._core.key.node_id
        begins = [replicas.voter(voter).begin_at for voter in voters.voters if voter.voter_id != own]
        parked = [one.deadline for one in self._parked]
        return min([self._check_deadline(), *begins, *parked, self._voter_changes.deadline()])

    def tick(self, now: float) -> None:
        if now >= self._check_deadline():
            self._changes.resign(now)
            return
        self._tell_epoch(now)
        self._serve_parked(now)
        self._voter_changes.tick(now)

    def _check_deadline(self) -> float:
        core = self._core
        if core.voters.only(core.key):
            return NEVER
        return self._replicas.majority_heard_at(core.voters, NEVER) + CHECK_FACTOR * core.timing.fetch_timeout

    # --- changes of voters -------------------------------------------------------------------------------------------

    def receive_voter_change(self, token: object, request: VoterChange, now: float) -> None:
        core = self._core
        recently = now - CHECK_FACTOR * core.timing.fetch_timeout
        error, message, voters = self._voter_changes.judge(request, self._replicas, self._begun, recently)
        if error != ErrorCode.NONE or voters == core.voters:
            core.reply(token, Answered(error, core.believed, message))
            return
        offset = self._write((Voters(voters.voters),))
        self._voter_changes.begin(offset, token, request, now)
        self._serve_parked(now)
        # Fewer voters may be a majority already.
        self._commit(now)

    # --- looking -----------------------------------------------------------------------------------------------------

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, those that hold most first."""
        return self._replicas.successors(self._core.voters)

    def describe(self, now: float) -> QuorumDescription:
        core, replicas = self._core, self._replicas
        return QuorumDescription(
            core.key.node_id,
            core.epoch,
            core.high_watermark if self._begun else -1,
            replicas.describe_voters(core.voters, core.log.end_offset, now),
            replicas.describe_observers(core.voters, now),
        )
