"""Leading: writing the epoch's first record, serving the others, agreeing, and giving up in good order.

Owns: fetches that wait, the high watermark, the check that a majority is still there, resignation. Never knows: bytes.
Invariants: an epoch begins with its leader's record; only what this epoch wrote, and with it all before, is counted as
agreed; what the leader itself holds counts once it is stored.
"""

from abc import abstractmethod
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.raft.core import NEVER, NOTICE, Identity, Role, Timing
from ottla.raft.effects import BeginLeading, ReplyPortion, StopLeading, Sync, WriteControls
from ottla.raft.follower import Following
from ottla.raft.log_view import Diverging, Entry, LogPosition, LogView
from ottla.raft.messages import (
    Answered,
    BeginEpoch,
    EndEpoch,
    Fetch,
    Fetched,
    FetchedSnapshot,
    FetchSnapshot,
)
from ottla.raft.progress import Replicas
from ottla.raft.voters import Election, ReplicaKey
from ottla.records.control import Control, KraftVersion, LeaderChange, Voters

CHECK_FACTOR = 1.5
"""A leader that no majority has fetched from for so many fetch time-outs gives up."""


class _Parked(NamedTuple):
    """A fetch that waits for something to send."""

    token: object
    request: Fetch
    deadline: float


class Leading(Following):
    """See the module."""

    def __init__(self, identity: Identity, timing: Timing, log: LogView, election: Election, random: Random) -> None:
        super().__init__(identity, timing, log, election, random)
        self._replicas = Replicas(self.key, 0.0)
        self._epoch_start = 0
        self._stored_offset = 0
        self._begun = False
        self._parked: list[_Parked] = []
        self._goodbyes: dict[int, float] = {}
        """Voters that have not yet heard of the resignation, and when to tell them again."""
        self._successors: tuple[ReplicaKey, ...] = ()

    # --- the beginning -----------------------------------------------------------------------------------------------

    def _become_leader(self, granting: frozenset[int], now: float) -> None:
        self.role = Role.LEADER
        self._fetching = None
        self._replicas = Replicas(self.key, now)
        self._begun = False
        # A voter syncs before it fetches on, so everything up to here lasts.
        self._stored_offset = self._epoch_start = self.log.end_offset
        endpoints = self.identity.endpoints
        self._set_leader(self.key.node_id, endpoints[0] if endpoints else self.voters.endpoint(self.key.node_id))
        self._write(self._first_controls(granting))
        self._tick_begins(now)

    def _first_controls(self, granting: frozenset[int]) -> tuple[Control, ...]:
        dynamic = self.log.kraft_version >= 1
        everybody = self.voters.named(self.voters.ids)
        # Version 0 also where directories are known: Kafka reads no other.
        change = LeaderChange(self.key.node_id, everybody, self.voters.named(granting))
        if dynamic and self.log.voters_offset < 0:
            # The first voters come from outside the log; from here on it names them itself.
            return change, KraftVersion(self.log.kraft_version), Voters(self.voters.voters)
        return (change,)

    def _write(self, controls: tuple[Control, ...]) -> int:
        """Append records of the quorum's own; answers the offset of the last."""
        base = self.log.end_offset
        self.log.append([Entry(base, base + len(controls), self.epoch, controls, None)])
        self._emit(WriteControls(base, self.epoch, controls))
        return base + len(controls) - 1

    @property
    def leads(self) -> bool:
        """Whether decisions may be appended: everything before this epoch is agreed on and was told."""
        return self.role is Role.LEADER and self._begun

    # --- what the host tells -----------------------------------------------------------------------------------------

    def appended(self, end_offset: int, now: float) -> None:
        """The host has written a batch of this epoch behind the log's end."""
        assert self.leads
        self.log.append([Entry(self.log.end_offset, end_offset, self.epoch, (), None)])
        self._serve_parked(now)

    def stored(self, end_offset: int, now: float) -> None:
        """Everything before this offset lasts."""
        if self.role is Role.LEADER and end_offset > self._stored_offset:
            self._stored_offset = end_offset
            self._agree(now)

    def _agree(self, now: float) -> None:
        held = self._replicas.held_by_majority(self.voters, self._stored_offset)
        if held <= self._epoch_start:
            # Entries of older epochs may still be overruled, however many hold them.
            return
        if self._advance(held):
            if not self._begun:
                self._begun = True
                self._emit(BeginLeading(self.epoch))
            self._change_agreed(now)
            self._serve_parked(now)

    @abstractmethod
    def _change_agreed(self, now: float) -> None:
        """The high watermark has moved: changes of voters may be done."""

    # --- serving -----------------------------------------------------------------------------------------------------

    def _receive_fetch(self, token: object, request: Fetch, now: float) -> None:
        if self._wrong_cluster(request.cluster_id):
            self._reply(token, Fetched(ErrorCode.INCONSISTENT_CLUSTER_ID, self.believed))
            return
        if min(request.log_end) < 0 or request.epoch < 0:
            self._reply(token, Fetched(ErrorCode.INVALID_REQUEST, self.believed))
            return
        error = self._refuse_epoch(request.epoch)
        if error != ErrorCode.NONE:
            self._reply(token, Fetched(error, self.believed))
            return
        parting = self.log.compare(*request.log_end)
        if parting is not None:
            self._reply(token, self._parted(parting))
            return
        self._note(request, now)
        if self.role is not Role.LEADER:
            # What it stored was the last of a change that takes this replica out.
            self._reply(token, Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.believed))
        elif self._worth_sending(request) or request.max_wait <= 0:
            self._reply(token, self._portion(request))
        else:
            self._parked.append(_Parked(token, request, now + request.max_wait))

    def _parted(self, parting: Diverging | LogPosition) -> Fetched:
        if isinstance(parting, Diverging):
            return Fetched(ErrorCode.NONE, self.believed, self.high_watermark, diverging=parting)
        return Fetched(ErrorCode.NONE, self.believed, self.high_watermark, snapshot=parting)

    def _note(self, request: Fetch, now: float) -> None:
        if request.replica.node_id < 0:
            return
        progress = self._replicas.of(request.replica)
        progress.fetched(request.log_end.offset, self.log.end_offset, now)
        progress.begin_at = now + self.timing.fetch_timeout / 2
        if self.voters.has(request.replica):
            self._agree(now)

    def _worth_sending(self, request: Fetch) -> bool:
        return self.log.end_offset > request.log_end.offset or self.high_watermark > request.high_watermark

    def _portion(self, request: Fetch) -> Fetched:
        behind = self.log.end_offset > request.log_end.offset
        return Fetched(
            ErrorCode.NONE,
            self.believed,
            self.high_watermark,
            read_from=request.log_end.offset if behind else None,
        )

    def _serve_parked(self, now: float) -> None:
        if not self._parked:
            return
        parked, self._parked = self._parked, []
        for one in parked:
            if self.role is not Role.LEADER:
                self._reply(one.token, Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.believed))
            elif one.deadline <= now or self._worth_sending(one.request):
                self._reply(one.token, self._portion(one.request))
            else:
                self._parked.append(one)

    def _receive_fetch_snapshot(self, token: object, request: FetchSnapshot, now: float) -> None:
        def answer(error: ErrorCode) -> FetchedSnapshot:
            return FetchedSnapshot(error, self.believed, request.snapshot, request.position)

        if self._wrong_cluster(request.cluster_id):
            self._reply(token, answer(ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        error = self._refuse_epoch(request.epoch)
        if error != ErrorCode.NONE:
            self._reply(token, answer(error))
            return
        progress = self._replicas.of(request.replica)
        # Whoever loads a snapshot is alive, though not further than before.
        progress.fetched_at = now
        progress.begin_at = now + self.timing.fetch_timeout / 2
        self._emit(ReplyPortion(token, request, answer(ErrorCode.NONE)))

    # --- the others must know ----------------------------------------------------------------------------------------

    def _tick_begins(self, now: float) -> None:
        for voter in self.voters.voters:
            progress = self._replicas.voter(voter)
            if voter.voter_id == self.key.node_id or progress.begin_at > now or not voter.endpoints:
                continue
            progress.begin_at = now + self.timing.fetch_timeout / 2
            request = BeginEpoch(
                self.identity.cluster_id,
                ReplicaKey(voter.voter_id, voter.directory_id),
                self.key.node_id,
                self.epoch,
                self.identity.endpoints,
            )
            self._send(voter.voter_id, voter.endpoints[0], request)

    def _begin_unanswered(self, node_id: int, request: BeginEpoch, refused: bool, now: float) -> None:
        voter = self.voters.find(node_id)
        if self.role is Role.LEADER and request.epoch == self.epoch and voter is not None:
            # One that is down will look for us itself when it is back.
            pause = NOTICE if not refused else self.timing.fetch_timeout / 2
            self._replicas.voter(voter).begin_at = now + pause

    def _check_deadline(self) -> float:
        if self.voters.only(self.key):
            return NEVER
        return self._replicas.majority_heard_at(self.voters, NEVER) + CHECK_FACTOR * self.timing.fetch_timeout

    def _leading_deadline(self) -> float:
        if self.role is Role.RESIGNED:
            return min([self._election_at, *self._goodbyes.values()])
        if self.role is not Role.LEADER:
            return NEVER
        begins = [self._replicas.voter(voter).begin_at for voter in self.voters.voters if voter.voter_id != self.key[0]]
        return min([self._check_deadline(), *begins, *(one.deadline for one in self._parked)])

    # --- the end -----------------------------------------------------------------------------------------------------

    def resign(self, now: float) -> None:
        """Lead no longer; the voters are told, those first that may follow soonest."""
        if self.role is not Role.LEADER:
            return
        self._successors = self._replicas.successors(self.voters)
        self._leave_role(now)
        self.role = Role.RESIGNED
        self._goodbyes = {key.node_id: now for key in self._successors}
        self._election_at = now + self.timing.election_timeout + self._drawn(self.timing.election_timeout)
        self._tick_goodbyes(now)

    def _tick_goodbyes(self, now: float) -> None:
        for node_id, due in list(self._goodbyes.items()):
            endpoint = self.voters.endpoint(node_id)
            if due > now or endpoint is None:
                continue
            self._goodbyes[node_id] = NEVER
            request = EndEpoch(
                self.identity.cluster_id, self.key.node_id, self.epoch, self._successors, self.identity.endpoints
            )
            self._send(node_id, endpoint, request)

    def _end_answered(self, node_id: int, answer: Answered, now: float) -> None:
        self._goodbyes.pop(node_id, None)
        if not self._learn(answer.believed, now) and self.role is Role.RESIGNED and not self._goodbyes:
            # All know; it is time to look for the next leader.
            self._election_at = min(self._election_at, now + NOTICE)

    def _end_unanswered(self, node_id: int, refused: bool, now: float) -> None:
        if node_id in self._goodbyes:
            if refused:
                del self._goodbyes[node_id]
            else:
                self._goodbyes[node_id] = now + NOTICE / 3

    def _leave_role(self, now: float) -> None:
        if self.role is not Role.LEADER:
            return
        self.role = Role.UNATTACHED
        # What it wrote last may not be stored yet, and its next fetch or vote will say that it is.
        self._emit(Sync())
        self._set_leader(-1, None)
        if self._begun:
            self._begun = False
            self._emit(StopLeading(self.epoch))
        self._serve_parked(now)
