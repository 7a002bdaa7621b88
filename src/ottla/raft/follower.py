"""Following: fetching the leader's log, or a snapshot of it, and finding the leader in the first place.

Owns: the one fetch that is under way, what is done with its answer, whether the leader is well, and the answers to
BeginQuorumEpoch and EndQuorumEpoch. Never knows: bytes of records.
Invariants: the log is truncated only where the leader says that the two part, and never below the high watermark; the
next fetch, which says that all before is stored, leaves after the sync.
"""

from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.raft.core import NEVER, NOTICE, Core
from ottla.raft.effects import InstallSnapshot, KeepPortion, Sync, Truncate, WriteEntries
from ottla.raft.log_view import Diverging, LogPosition
from ottla.raft.membership import Membership
from ottla.raft.messages import (
    Answered,
    BeginEpoch,
    EndEpoch,
    Fetch,
    Fetched,
    FetchedSnapshot,
    FetchSnapshot,
    Request,
)
from ottla.raft.roles import Role, RoleChanges
from ottla.records.control import Control, Endpoint


class _SnapshotFetch(NamedTuple):
    """A snapshot on its way."""

    snapshot: LogPosition
    position: int


class FollowerRole:
    """Follows the leader that the core names; where it names none, asks around for one."""

    def __init__(self, core: Core, changes: RoleChanges) -> None:
        self._core = core
        self._changes = changes
        self.membership = Membership(core)
        self.installing = False
        """A whole snapshot is taking the log's place: until that is done, nothing is fetched and no vote asked for."""
        self._fetching: int | None = None
        self._fetch_at = NEVER
        self._snapshot_fetch: _SnapshotFetch | None = None
        self._turn = 0
        self._suspected = False
        """The leader is said to be gone, by its machine or by itself."""
        self._heard_at = -NEVER
        """When it last answered a fetch in this epoch."""

    # --- the leader --------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Another leader is known."""
        self._heard_at = -NEVER
        self._expect_leader(now)
        self._fetch_anew(now)

    def go_on(self, now: float, pause: float) -> None:
        """With the leader there was before this replica asked for votes."""
        if self._suspected:
            self._core.election_at = now + pause
        else:
            self._expect_leader(now)
        self._fetch_anew(now)

    def hears_leader(self, now: float) -> bool:
        """Whether there is no reason to want another one."""
        return now - self._heard_at < self._core.timing.fetch_timeout and not self._suspected

    def _expect_leader(self, now: float) -> None:
        """The leader is well; it has this long to answer again."""
        core = self._core
        self._suspected = False
        core.election_at = now + core.timing.fetch_timeout + core.draw(NOTICE)

    def _suspect_leader(self, now: float, pause: float) -> None:
        self._suspected = True
        self._core.election_at = min(self._core.election_at, now + pause)

    # --- asking ------------------------------------------------------------------------------------------------------

    def stop_fetching(self) -> None:
        """An answer still to come is for nothing."""
        self._fetching = None
        self._snapshot_fetch = None
        self._fetch_at = NEVER

    def _fetch_anew(self, now: float) -> None:
        """From the present leader, and nobody else."""
        self.stop_fetching()
        self._fetch(now)

    def discover(self, now: float) -> None:
        """Ask around for a leader from now on; a sole voter has nobody to ask."""
        self.stop_fetching()
        if not self._core.voters.only(self._core.key):
            self._fetch_at = now

    def deadline(self) -> float:
        return self._fetch_at if self._core.role in (Role.FOLLOWER, Role.UNATTACHED) else NEVER

    def tick(self, now: float) -> None:
        if now >= self.deadline():
            self._fetch(now)

    def _fetch(self, now: float) -> None:
        """Send the next fetch; one at a time."""
        if self._fetching is not None or self.installing:
            return
        core, identity = self._core, self._core.identity
        self._fetch_at = NEVER
        node_id, address = core.leader_id, core.leader_endpoint
        if core.role is not Role.FOLLOWER:
            node_id, address = self._somebody()
        if address is None:
            self._fetch_at = now + core.timing.retry_backoff
            return
        request: Request
        if self._snapshot_fetch is not None:
            request = FetchSnapshot(
                identity.cluster_id, core.key, core.epoch, self._snapshot_fetch.snapshot, self._snapshot_fetch.position
            )
        else:
            wait = core.timing.fetch_wait if core.role is Role.FOLLOWER else 0.0
            request = Fetch(identity.cluster_id, core.key, core.epoch, core.log.end, core.high_watermark, wait)
        self._fetching = core.send(node_id, address, request)

    def _somebody(self) -> tuple[int, Endpoint | None]:
        """The next one to ask for the leader."""
        core = self._core
        known = [
            (voter.voter_id, voter.endpoints[0])
            for voter in core.voters.voters
            if voter.voter_id != core.key.node_id and voter.endpoints
        ]
        known += [(-1, address) for address in core.identity.bootstrap if all(address[1:] != at[1:] for _, at in known)]
        if not known:
            return -1, None
        self._turn += 1
        return known[self._turn % len(known)]

    # --- answers -----------------------------------------------------------------------------------------------------

    def fetch_answered(self, number: int, request: Fetch, answer: Fetched, now: float) -> None:
        core = self._core
        if self._changes.learn(answer.believed, now) or number != self._fetching:
            return
        self._fetching = None
        if answer.error != ErrorCode.NONE or core.role is not Role.FOLLOWER or request.epoch != core.epoch:
            self._fetch_at = now + self._pace()
            if answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER and core.role is Role.FOLLOWER:
                # The leader itself says so: it has resigned, or begun anew and forgotten.
                self._suspect_leader(now, core.draw(NOTICE))
            return
        self._heard_at = now
        core.failed_elections = 0
        self._expect_leader(now)
        if answer.diverging is not None:
            self._truncate(answer.diverging)
        elif answer.snapshot is not None:
            self._snapshot_fetch = _SnapshotFetch(answer.snapshot, 0)
        else:
            if answer.entries:
                core.log.append(answer.entries)
                core.emit(WriteEntries(answer.entries))
            # Only here the two logs are known to agree up to the end of ours.
            core.advance(min(answer.high_watermark, core.log.end_offset))
        if answer.entries and core.identity.can_vote:
            # The next fetch says that they are stored; a replica that never votes is not counted on.
            core.emit(Sync())
        self.membership.mind(now)
        self._fetch(now)

    def _pace(self) -> float:
        """How long to wait before the next fetch, when one brought nothing."""
        return self._core.timing.retry_backoff if self._core.role is Role.FOLLOWER else NOTICE / 3

    def _truncate(self, diverging: Diverging) -> None:
        """The tail goes that the leader does not have."""
        core = self._core
        own = core.log.end_of_epoch(diverging.epoch)
        offset = min(own.end_offset, diverging.end_offset) if own.epoch == diverging.epoch else own.end_offset
        assert offset >= core.high_watermark, (offset, core.high_watermark)
        if offset < core.log.end_offset:
            core.log.truncate(offset)
            core.emit(Truncate(offset))

    def portion_answered(self, number: int, request: FetchSnapshot, answer: FetchedSnapshot, now: float) -> None:
        core = self._core
        if self._changes.learn(answer.believed, now) or number != self._fetching:
            return
        self._fetching = None
        under_way = self._snapshot_fetch
        if under_way is None or core.role is not Role.FOLLOWER or request.epoch != core.epoch:
            self._fetch_at = now + self._pace()
            return
        size = len(answer.data) if isinstance(answer.data, bytes | bytearray | memoryview) else 0
        if answer.error != ErrorCode.NONE or (answer.snapshot, answer.position) != under_way or not size:
            # It may be gone by now; a fetch will say which one there is.
            self._snapshot_fetch = None
            self._fetch_at = now + self._pace()
            return
        self._heard_at = now
        self._expect_leader(now)
        core.emit(KeepPortion(answer))
        position = answer.position + size
        if position < answer.size:
            self._snapshot_fetch = under_way._replace(position=position)
            self._fetch(now)
        else:
            self._snapshot_fetch = None
            self.installing = True
            core.emit(InstallSnapshot(under_way.snapshot))

    def installed(self, snapshot: LogPosition, controls: tuple[Control, ...], now: float) -> None:
        """The snapshot has taken the log's place; these are the control records in it."""
        core = self._core
        core.log.restart_behind(snapshot, controls)
        if snapshot.offset > core.high_watermark:
            # Not a `Commit`: who hears of decisions was given the snapshot itself.
            core.high_watermark = snapshot.offset
        self.installing = False
        if core.role is Role.FOLLOWER:
            self._fetch(now)

    def install_failed(self, now: float) -> None:
        """The snapshot was damaged on its way, or could not be stored; begin again."""
        self.installing = False
        self._fetch_at = now + NOTICE

    def fetch_unanswered(self, number: int, refused: bool, now: float) -> None:
        core = self._core
        if number != self._fetching:
            return
        self._fetching = None
        self._fetch_at = now + self._pace()
        if refused and core.role is Role.FOLLOWER and not self._suspected:
            # Its machine says that the process is gone: no reason to wait for the time-out.
            self._suspect_leader(now, core.draw(NOTICE))

    # --- being told --------------------------------------------------------------------------------------------------

    def receive_begin_epoch(self, token: object, request: BeginEpoch, now: float) -> None:
        self._core.reply(token, self._judge_begin(request, now))

    def _judge_begin(self, request: BeginEpoch, now: float) -> Answered:
        core = self._core
        if core.is_of_another_cluster(request.cluster_id):
            return Answered(ErrorCode.INCONSISTENT_CLUSTER_ID, core.believed)
        if request.epoch < core.epoch:
            return Answered(ErrorCode.FENCED_LEADER_EPOCH, core.believed)
        if request.leader_id < 0 or request.leader_id == core.key.node_id:
            return Answered(ErrorCode.INVALID_REQUEST, core.believed)
        if request.epoch == core.epoch and core.leader_id not in (-1, request.leader_id):
            return Answered(ErrorCode.INVALID_REQUEST, core.believed)
        endpoint = request.endpoints[0] if request.endpoints else core.voters.endpoint(request.leader_id)
        if endpoint is not None and (request.epoch > core.epoch or core.role is not Role.FOLLOWER):
            self._changes.become_follower(request.leader_id, request.epoch, endpoint, now)
        if not core.is_me(request.voter):
            return Answered(ErrorCode.INVALID_VOTER_KEY, core.believed)
        return Answered(ErrorCode.NONE, core.believed)

    def receive_end_epoch(self, token: object, request: EndEpoch, now: float) -> None:
        self._core.reply(token, self._judge_end(request, now))

    def _judge_end(self, request: EndEpoch, now: float) -> Answered:
        core = self._core
        if core.is_of_another_cluster(request.cluster_id):
            return Answered(ErrorCode.INCONSISTENT_CLUSTER_ID, core.believed)
        if request.epoch < core.epoch:
            return Answered(ErrorCode.FENCED_LEADER_EPOCH, core.believed)
        if request.leader_id == core.key.node_id or (
            request.epoch == core.epoch and core.leader_id not in (-1, request.leader_id)
        ):
            return Answered(ErrorCode.INVALID_REQUEST, core.believed)
        if request.epoch > core.epoch:
            self._changes.become_unattached(request.epoch, now)
        if core.role in (Role.FOLLOWER, Role.UNATTACHED) and core.may_campaign:
            ranks = [rank for rank, key in enumerate(request.successors) if core.is_me(key)]
            rank = ranks[0] if ranks else len(request.successors)
            self._suspect_leader(now, 0.0 if rank == 0 else NOTICE * rank + core.draw(NOTICE))
        return Answered(ErrorCode.NONE, core.believed)
