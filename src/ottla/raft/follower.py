"""Following: pulling the leader's log, or a snapshot of it, and finding the leader in the first place.

Owns: the one fetch that is under way, what is done with its answer, and the answers to BeginEpoch and EndEpoch.
Never knows: bytes of records. Invariants: the log is cut back only where the leader says that the two part, and never
below the high watermark; the next fetch, which says that all before is stored, leaves after the sync.
"""

from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.raft.candidate import Elections
from ottla.raft.core import NEVER, NOTICE, Identity, Role, Timing
from ottla.raft.effects import InstallSnapshot, KeepPortion, Sync, Truncate, WriteEntries
from ottla.raft.log_view import Diverging, LogPosition, LogView
from ottla.raft.messages import (
    AddVoter,
    Answered,
    BeginEpoch,
    EndEpoch,
    Fetch,
    Fetched,
    FetchedSnapshot,
    FetchSnapshot,
    RemoveVoter,
    Request,
    UpdateVoter,
)
from ottla.raft.voters import Election, ReplicaKey
from ottla.records.control import Control, Endpoint, Voter


class _Pull(NamedTuple):
    """A snapshot on its way."""

    snapshot: LogPosition
    position: int


class Following(Elections):
    """See the module."""

    def __init__(self, identity: Identity, timing: Timing, log: LogView, election: Election, random: Random) -> None:
        super().__init__(identity, timing, log, election, random)
        self._fetching: int | None = None
        self._fetch_at = NEVER
        self._pull: _Pull | None = None
        self._installing = False
        """A whole snapshot is taking the log's place: until that is done, nothing is pulled and no vote asked for."""
        self._turn = 0
        self._membership_at = 0.0
        self._settling: int | None = None

    # --- asking ------------------------------------------------------------------------------------------------------

    def _begin_fetching(self, now: float) -> None:
        """From the present leader, and nobody else: an answer still to come from another is for nothing."""
        self._fetching = None
        self._pull = None
        self._fetch_at = NEVER
        if self.role is Role.FOLLOWER:
            self._fetch(now)

    def _discover_at(self, when: float) -> None:
        self._fetching = None
        self._pull = None
        self._fetch_at = when if not self.voters.only(self.key) else NEVER

    def _fetch_deadline(self) -> float:
        return self._fetch_at if self.role in (Role.FOLLOWER, Role.UNATTACHED) else NEVER

    def _fetch(self, now: float) -> None:
        """Send the next fetch; one at a time."""
        if self._fetching is not None or self._installing:
            return
        self._fetch_at = NEVER
        node_id, address = self.leader_id, self.leader_endpoint
        if self.role is not Role.FOLLOWER:
            node_id, address = self._somebody()
        if address is None:
            self._fetch_at = now + self.timing.retry_backoff
            return
        request: Request
        if self._pull is not None:
            request = FetchSnapshot(
                self.identity.cluster_id, self.key, self.epoch, self._pull.snapshot, self._pull.position
            )
        else:
            wait = self.timing.fetch_wait if self.role is Role.FOLLOWER else 0.0
            request = Fetch(self.identity.cluster_id, self.key, self.epoch, self.log.end, self.high_watermark, wait)
        self._fetching = self._send(node_id, address, request)

    def _somebody(self) -> tuple[int, Endpoint | None]:
        """The next one to ask for the leader."""
        known = [
            (voter.voter_id, voter.endpoints[0])
            for voter in self.voters.voters
            if voter.voter_id != self.key.node_id and voter.endpoints
        ]
        known += [(-1, address) for address in self.identity.bootstrap if all(address[1:] != at[1:] for _, at in known)]
        if not known:
            return -1, None
        self._turn += 1
        return known[self._turn % len(known)]

    # --- answers -----------------------------------------------------------------------------------------------------

    def _fetch_answered(self, number: int, request: Fetch, answer: Fetched, now: float) -> None:
        if self._learn(answer.believed, now) or number != self._fetching:
            return
        self._fetching = None
        if answer.error != ErrorCode.NONE or self.role is not Role.FOLLOWER or request.epoch != self.epoch:
            self._fetch_at = now + self._pace()
            if answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER and self.role is Role.FOLLOWER:
                # The leader itself says so: it has resigned, or begun anew and forgotten.
                self._suspect_leader(now, self._drawn(NOTICE))
            return
        self._heard_at = now
        self._failures = 0
        self._expect_leader(now)
        if answer.diverging is not None:
            self._cut_back(answer.diverging)
        elif answer.snapshot is not None:
            self._pull = _Pull(answer.snapshot, 0)
        else:
            if answer.entries:
                self.log.append(answer.entries)
                self._emit(WriteEntries(answer.entries))
            # Only here the two logs are known to agree up to the end of ours.
            self._advance(min(answer.high_watermark, self.log.end_offset))
        if answer.entries and self.identity.can_vote:
            # The next fetch says that they are stored; a replica that never votes is not counted on.
            self._emit(Sync())
        self._mind_membership(now)
        self._fetch(now)

    def _pace(self) -> float:
        return self.timing.retry_backoff if self.role is Role.FOLLOWER else NOTICE / 3

    def _cut_back(self, diverging: Diverging) -> None:
        own = self.log.end_of_epoch(diverging.epoch)
        offset = min(own.end_offset, diverging.end_offset) if own.epoch == diverging.epoch else own.end_offset
        assert offset >= self.high_watermark, (offset, self.high_watermark)
        if offset < self.log.end_offset:
            self.log.truncate(offset)
            self._emit(Truncate(offset))

    def _portion_answered(self, number: int, request: FetchSnapshot, answer: FetchedSnapshot, now: float) -> None:
        if self._learn(answer.believed, now) or number != self._fetching:
            return
        self._fetching = None
        pull = self._pull
        if pull is None or self.role is not Role.FOLLOWER or request.epoch != self.epoch:
            self._fetch_at = now + self._pace()
            return
        size = len(answer.data) if isinstance(answer.data, bytes | bytearray | memoryview) else 0
        if answer.error != ErrorCode.NONE or (answer.snapshot, answer.position) != pull or not size:
            # It may be gone by now; a fetch will say which one there is.
            self._pull = None
            self._fetch_at = now + self._pace()
            return
        self._heard_at = now
        self._expect_leader(now)
        self._emit(KeepPortion(answer))
        position = answer.position + size
        if position < answer.size:
            self._pull = pull._replace(position=position)
            self._fetch(now)
        else:
            self._pull = None
            self._installing = True
            self._emit(InstallSnapshot(pull.snapshot))

    def installed(self, snapshot: LogPosition, controls: tuple[Control, ...], now: float) -> None:
        """The snapshot has taken the log's place; these are the control records in it."""
        self.log.restart_behind(snapshot, controls)
        if snapshot.offset > self.high_watermark:
            # Not a `Commit`: who hears of decisions was given the snapshot itself.
            self.high_watermark = snapshot.offset
        self._installing = False
        if self.role is Role.FOLLOWER:
            self._fetch(now)

    def install_failed(self, now: float) -> None:
        """The snapshot was damaged on its way, or could not be stored; begin again."""
        self._installing = False
        self._fetch_at = now + NOTICE

    def _fetch_unanswered(self, number: int, refused: bool, now: float) -> None:
        if number != self._fetching:
            return
        self._fetching = None
        self._fetch_at = now + self._pace()
        if refused and self.role is Role.FOLLOWER and not self._suspected:
            # Its machine says that the process is gone: no reason to wait for the time-out.
            self._suspect_leader(now, self._drawn(NOTICE))

    # --- being told --------------------------------------------------------------------------------------------------

    def _receive_begin(self, token: object, request: BeginEpoch, now: float) -> None:
        self._reply(token, self._begin(request, now))

    def _begin(self, request: BeginEpoch, now: float) -> Answered:
        if self._wrong_cluster(request.cluster_id):
            return Answered(ErrorCode.INCONSISTENT_CLUSTER_ID, self.believed)
        if request.epoch < self.epoch:
            return Answered(ErrorCode.FENCED_LEADER_EPOCH, self.believed)
        if request.leader_id < 0 or request.leader_id == self.key.node_id:
            return Answered(ErrorCode.INVALID_REQUEST, self.believed)
        if request.epoch == self.epoch and self.leader_id not in (-1, request.leader_id):
            return Answered(ErrorCode.INVALID_REQUEST, self.believed)
        endpoint = request.endpoints[0] if request.endpoints else self.voters.endpoint(request.leader_id)
        if endpoint is not None and (request.epoch > self.epoch or self.role is not Role.FOLLOWER):
            self._become_follower(request.leader_id, request.epoch, endpoint, now)
        if not self._is_me(request.voter):
            return Answered(ErrorCode.INVALID_VOTER_KEY, self.believed)
        return Answered(ErrorCode.NONE, self.believed)

    def _receive_end(self, token: object, request: EndEpoch, now: float) -> None:
        self._reply(token, self._end(request, now))

    def _end(self, request: EndEpoch, now: float) -> Answered:
        if self._wrong_cluster(request.cluster_id):
            return Answered(ErrorCode.INCONSISTENT_CLUSTER_ID, self.believed)
        if request.epoch < self.epoch:
            return Answered(ErrorCode.FENCED_LEADER_EPOCH, self.believed)
        if request.leader_id == self.key.node_id or (
            request.epoch == self.epoch and self.leader_id not in (-1, request.leader_id)
        ):
            return Answered(ErrorCode.INVALID_REQUEST, self.believed)
        if request.epoch > self.epoch:
            self._become_unattached(request.epoch, now)
        if self.role in (Role.FOLLOWER, Role.UNATTACHED) and self.may_campaign:
            places = [place for place, key in enumerate(request.successors) if self._is_me(key)]
            place = places[0] if places else len(request.successors)
            self._suspect_leader(now, 0.0 if place == 0 else NOTICE * place + self._drawn(NOTICE))
        return Answered(ErrorCode.NONE, self.believed)

    # --- this replica's own entry among the voters -------------------------------------------------------------------

    def _mind_membership(self, now: float) -> None:
        """Tell the leader when our entry among the voters is wrong, or missing where it should be made by itself."""
        identity = self.identity
        if self.log.kraft_version < 1 or not identity.can_vote or not identity.endpoints or now < self._membership_at:
            return
        if self._settling is not None or self.leader_endpoint is None:
            return
        entry = self.voters.find(self.key.node_id)
        own = Voter(self.key.node_id, self.key.directory_id, identity.endpoints, 0, 1)
        request: Request
        if entry is not None and entry.directory_id == self.key.directory_id:
            if entry.endpoints == identity.endpoints:
                return
            request = UpdateVoter(identity.cluster_id, self.epoch, own)
        elif not identity.auto_join:
            return
        elif entry is not None:
            request = RemoveVoter(identity.cluster_id, ReplicaKey(entry.voter_id, entry.directory_id))
        else:
            request = AddVoter(identity.cluster_id, own, self.timing.request_timeout, when_committed=False)
        self._membership_at = now + self.timing.fetch_timeout
        self._settling = self._send(self.leader_id, self.leader_endpoint, request)

    def _settled(self, number: int) -> None:
        if number == self._settling:
            self._settling = None
