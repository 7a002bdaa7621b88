"""The machine of `raft` on this node's disk, links and event loop.

Owns: the order in which the machine's effects are done, and what becomes of it when the disk fails. Never knows: how
agreement is reached, what facts say, who calls from outside (that is `QuorumNode`, built on this).
Invariants: an effect begins when all before it are done, so nothing is said before what it rests on lasts; blocking
work runs in threads, except where a sole voter starts; a failing disk makes the machine begin again from what lasts.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial

from ottla.base.errors import ErrorCode
from ottla.controller.quorum_log import QuorumLog, read_entries
from ottla.controller.quorum_ports import (
    QuorumEvents,
    QuorumIdentity,
    QuorumPlace,
    QuorumSettings,
    UnreadableMetadata,
)
from ottla.controller.quorum_state import QuorumState, write_quorum_state
from ottla.log.files import StorageFailure
from ottla.log.flushing import FlushTicket
from ottla.raft import effects as effect_kinds
from ottla.raft.effects import Effect
from ottla.raft.log_view import LogPosition
from ottla.raft.machine import Raft
from ottla.raft.messages import Answer, EndEpoch, Fetch, Fetched, FetchedSnapshot, FetchSnapshot
from ottla.raft.state import Identity, Timing
from ottla.raft.translation import read_answer, write_answer, write_request
from ottla.raft.voters import NO_DIRECTORY, Election, ReplicaKey, VoterSet
from ottla.records.control import Endpoint
from ottla.records.header import CorruptBatch
from ottla.wire.links import Link, LinkDown, Links
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.wire.schema import Root

logger = logging.getLogger("ottla.quorum")

_FETCH_WAIT_SECONDS = 0.5
"""How long the leader may hold a fetch when there is nothing to send."""
_RETRY_SECONDS = 0.5
"""How long a failed disk is left alone."""


class Question:
    """A request and who waits for its answer."""

    __slots__ = ("answer", "request")

    def __init__(self, request: Root, answer: asyncio.Future[Root]) -> None:
        self.request = request
        self.answer = answer


class QuorumHost:
    """See the module."""

    def __init__(
        self,
        place: QuorumPlace,
        identity: QuorumIdentity,
        settings: QuorumSettings,
        links: Links,
        events: QuorumEvents,
    ) -> None:
        self._place = place
        self._loop = place.loop
        self.identity = identity
        self._settings = settings
        self._links = links
        self._events = events
        self._open_links: dict[tuple[str, int, bool], Link] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._farewells: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._queue: deque[Effect] = deque()
        self._draining = False
        self._inline = False
        """Whether blocking work is done on the loop, as when a sole voter starts."""
        self._syncing = False
        self._ticket: FlushTicket | None = None
        self._waiting: dict[Question, None] = {}  # in the order of their coming
        self._timer: asyncio.TimerHandle | None = None
        self._generation = 0
        """Of the machine: answers to questions of an earlier one are for nothing."""
        self._damaged: StorageFailure | None = None
        self._lasting = 0
        """Where the log is cut off when the disk has failed."""
        self._stopped = False
        self._writing_snapshot = False
        self._told_voters: VoterSet | None = None
        self._told_leading = False
        self._election = Election()
        self._log: QuorumLog | None = None
        self._raft: Raft | None = None

    @property
    def log(self) -> QuorumLog:
        assert self._log is not None, "open comes first"
        return self._log

    @property
    def raft(self) -> Raft:
        assert self._raft is not None, "open comes first"
        return self._raft

    def _make_machine(self) -> None:
        identity = self.identity
        settings = self._settings
        dynamic = any(voter.directory_id != NO_DIRECTORY for voter in identity.voters)
        view = self.log.view(VoterSet.of(identity.voters), 1 if dynamic else 0)
        endpoints = identity.endpoints
        own = VoterSet.of(identity.voters).find(identity.node_id)
        if not endpoints and own is not None:
            endpoints = own.endpoints
        self._generation += 1
        self._raft = Raft(
            Identity(
                identity.cluster_id,
                ReplicaKey(identity.node_id, identity.directory_id),
                identity.can_vote,
                endpoints,
                tuple(Endpoint("", host, port) for host, port in identity.bootstrap),
                settings.auto_join,
            ),
            Timing(
                settings.election_timeout,
                settings.election_backoff_max,
                settings.fetch_timeout,
                settings.request_timeout,
                settings.retry_backoff,
                min(_FETCH_WAIT_SECONDS, settings.fetch_timeout / 4),
            ),
            view,
            self._election,
            self._place.world.random,
        )

    @property
    def _is_alone(self) -> bool:
        return self.raft.is_voter and self.raft.voters.only(self.raft.key)

    def _begin(self) -> None:
        self._inline = self._is_alone
        try:
            self.raft.start(self._loop.time())
            self._drain()
        finally:
            self._inline = False
        self._arm()

    def _write_ahead(self) -> None:
        """Records of the quorum's own that are still queued come before a decision."""
        for effect in list(self._queue):
            if isinstance(effect, effect_kinds.WriteControls):
                self._queue.remove(effect)
                self.log.write_controls(*effect)

    def _answer(self, question: object, answer: Answer) -> None:
        """Done at once, as the log may be another one when the asker gets its turn."""
        assert isinstance(question, Question)
        if question.answer.done():
            return
        request = question.request
        records = b""
        if isinstance(answer, Fetched) and answer.read_from is not None:
            assert isinstance(request, FetchRequest)
            records = self.log.read_bytes(answer.read_from, min(request.max_bytes, self._settings.fetch_max_bytes))
        question.answer.set_result(write_answer(request, answer, records))

    def _answer_portion(self, question: object, answer: FetchedSnapshot) -> None:
        assert isinstance(question, Question)
        assert isinstance(question.request, FetchSnapshotRequest)
        most = min(question.request.max_bytes, self._settings.snapshot_max_bytes)
        self._answer(question, self._portion(answer, most))

    def _portion(self, answer: FetchedSnapshot, most: int) -> FetchedSnapshot:
        if answer.error != ErrorCode.NONE:
            return answer
        found = self.log.snapshots.read_portion(answer.snapshot, max(answer.position, 0), most)
        if found is None:
            return answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        size, data = found
        if not 0 <= answer.position < size:
            return answer._replace(error=ErrorCode.POSITION_OUT_OF_RANGE)
        return answer._replace(size=size, data=data)

    # --- effects -----------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """The machine was told something: do what it wants done."""
        self._drain()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.raft.deadline()
        if due != float("inf") and not self._stopped and self._damaged is None:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.raft.tick(self._loop.time())
        self._feed()

    def _drain(self) -> None:
        """Do the effects in order, until there is none left or one has to be waited for."""
        self._queue.extend(self.raft.take())
        if self._draining:
            return
        self._draining = True
        waits = False
        failed: StorageFailure | None = None
        try:
            while self._queue and not waits:
                waits = self._do_next()
                self._queue.extend(self.raft.take())
        except StorageFailure as failure:
            if self._inline:
                raise
            failed = failure
        finally:
            self._draining = waits
        if failed is not None:
            self._break_down(failed)

    def _do_next(self) -> bool:
        """Do one effect, or begin it; answers whether it has to be waited for."""
        effect = self._queue.popleft()
        work = self._blocking_work(effect)
        if work is None:
            self._do(effect)
        elif self._inline:
            work()
            self._finish(effect)
        else:
            self._spawn(self._do_blocking(effect, work), self._working)
            return True
        return False

    def _blocking_work(self, effect: Effect) -> Callable[[], None] | None:
        """What of an effect a thread has to do; None when it is done on the loop."""
        if isinstance(effect, effect_kinds.SaveElection):
            return partial(self._save, self._state_of(effect.election), min(self.raft.log.kraft_version, 1))
        if isinstance(effect, effect_kinds.Sync):
            ticket = self.log.begin_sync()
            self._ticket = ticket
            return ticket.run if ticket is not None else None
        if isinstance(effect, effect_kinds.KeepPortion):
            portion = effect.portion
            data = portion.data
            assert isinstance(data, bytes | bytearray | memoryview)
            return lambda: self.log.snapshots.keep_portion(portion.snapshot, portion.position, data)
        return None

    async def _do_blocking(self, effect: Effect, work: Callable[[], None]) -> None:
        generation = self._generation
        try:
            await self._place.run_blocking(work)
        except StorageFailure as failure:
            if generation == self._generation:
                self._draining = False
                self._break_down(failure)
            return
        if generation != self._generation:
            return
        self._finish(effect)
        self._draining = False
        self._feed()

    def _state_of(self, election: Election) -> QuorumState:
        voters = self.raft.voters.ids if self.raft.log.kraft_version == 0 else ()
        return QuorumState(election.leader_id, election.epoch, voters, election.voted)

    def _save(self, state: QuorumState, version: int) -> None:
        try:
            write_quorum_state(self._place.world.disk, self._place.directory, state, version)
        except OSError as error:
            raise StorageFailure.of(self._place.directory, error) from error

    def _finish(self, effect: Effect) -> None:
        if isinstance(effect, effect_kinds.SaveElection):
            self._election = effect.election
        elif isinstance(effect, effect_kinds.Sync) and self._ticket is not None:
            self.log.finish_sync(self._ticket)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, effect_kinds.Send):
            task = self._spawn(self._ask(effect, self._generation), self._asking)
            if isinstance(effect.request, EndEpoch):
                self._farewells.add(task)
                task.add_done_callback(self._farewells.discard)
        elif isinstance(effect, effect_kinds.Reply):
            self._answer(effect.token, effect.answer)
        elif isinstance(effect, effect_kinds.ReplyPortion):
            self._answer_portion(effect.token, effect.answer)
        elif isinstance(effect, effect_kinds.WriteEntries):
            self.log.write_entries(effect.entries)
        elif isinstance(effect, effect_kinds.WriteControls):
            self.log.write_controls(*effect)
            self._sync_soon()
        elif isinstance(effect, effect_kinds.Truncate):
            self.log.truncate(effect.offset)
        elif isinstance(effect, effect_kinds.InstallSnapshot):
            self._install(effect.snapshot)
        else:
            self._tell(effect)

    def _install(self, position: LogPosition) -> None:
        try:
            controls = self.log.install(position)
        except UnreadableMetadata as problem:
            logger.error("a snapshot of the leader's cannot be used: %s", problem)
            self.raft.install_failed(self._loop.time())
            return
        self._tell_snapshot(position)
        self.raft.installed(position, controls, self._loop.time())

    # --- who hears of it ---------------------------------------------------------------------------------------------

    def _tell(self, effect: Effect) -> None:
        if isinstance(effect, effect_kinds.Commit):
            self._tell_committed(effect.high_watermark)
            self._tell_voters(effect.high_watermark)
        elif isinstance(effect, effect_kinds.LeaderKnown):
            if effect.leader_id < 0:
                logger.info("the quorum has no leader in epoch %d", effect.epoch)
            else:
                logger.info("the quorum's leader of epoch %d is %d", effect.epoch, effect.leader_id)
            self._events.leader_changed(effect.leader_id, effect.epoch)
        elif isinstance(effect, effect_kinds.BeginLeading):
            self._told_leading = True
            self._events.began_leading(effect.epoch)
        elif isinstance(effect, effect_kinds.StopLeading) and self._told_leading:
            self._told_leading = False
            self._events.stopped_leading(effect.epoch)

    def _tell_voters(self, high_watermark: int) -> None:
        """Once others than those of before are agreed on."""
        voters, before = self.raft.voters, self._told_voters
        if voters is before or self.raft.log.voters_offset >= high_watermark:
            return
        self._told_voters = voters
        if before is not None and before.ids != voters.ids:
            logger.info("the voters of the quorum are %s now, %s before", _names(voters), _names(before))

    def _tell_committed(self, high_watermark: int) -> None:
        try:
            for batches in self.log.tell(high_watermark):
                self._events.committed(batches)
        except UnreadableMetadata as problem:
            if self._inline:
                raise
            # Nothing behind it is told either; the node keeps its copy of the log and its vote.
            logger.error("this node cannot go on with the metadata: %s", problem)

    def _tell_snapshot(self, position: LogPosition) -> None:
        self._events.snapshot(self.log.tell_snapshot(position), position.offset - 1, position.epoch)

    # --- syncing as the leader ---------------------------------------------------------------------------------------

    def _sync_soon(self) -> None:
        """Whatever is written while a sync runs shares the next one."""
        if self._inline:
            self.log.sync()
            self.raft.stored(self.log.synced_offset, self._loop.time())
        elif not self._syncing:
            self._syncing = True
            self._spawn(self._sync(), self._working)

    async def _sync(self) -> None:
        try:
            while self.log.synced_offset < self.log.end_offset and self._damaged is None:
                epoch, generation = self.raft.epoch, self._generation
                ticket = self.log.begin_sync()
                if ticket is None:
                    return
                await self._place.run_blocking(ticket.run)
                if generation != self._generation:
                    continue
                self.log.finish_sync(ticket)
                if epoch == self.raft.epoch:
                    self.raft.stored(ticket.offset, self._loop.time())
                    self._feed()
        except StorageFailure as failure:
            self._break_down(failure)
        finally:
            self._syncing = False

    # --- a failing disk ----------------------------------------------------------------------------------------------

    def _break_down(self, failure: StorageFailure) -> None:
        """Nothing that was not synced has happened: cut it off, lest a restart find it, and begin again."""
        logger.error("metadata cannot be stored: %s", failure)
        if self._damaged is not None:
            return
        self._damaged = failure
        self._generation += 1
        self._queue.clear()
        self._draining = False
        if self._timer is not None:
            self._timer.cancel()
        leading, self._told_leading = self._told_leading, False
        if leading:
            self._events.stopped_leading(self.raft.epoch)
        if self.raft.leader_id >= 0:
            self._events.leader_changed(-1, self.raft.epoch)
        self._fail_waiting(failure)
        self._lasting = self.log.told_offset
        if not self._is_alone:
            self._lasting = max(self._lasting, self.log.synced_offset)
        self._restore()
        if self._damaged is not None:
            self._loop.call_later(_RETRY_SECONDS, self._restore_later)

    def _restore_later(self) -> None:
        if self._damaged is not None and not self._stopped:
            self._restore()
            if self._damaged is not None:
                self._loop.call_later(_RETRY_SECONDS, self._restore_later)

    def _restore(self) -> None:
        """Begin again behind what lasts; while that cannot be, this node takes no part."""
        try:
            # Others have what is missing here; a sole voter has nobody to ask.
            self.log.repair(self._lasting, exact=self._is_alone)
            self._make_machine()
            if not self._is_alone:
                self.log.sync()
            self._queue.clear()
            self._draining = False
            self._damaged = None
            self._begin()
        except (StorageFailure, UnreadableMetadata) as failure:
            logger.error("the metadata log cannot be repaired now: %s", failure)
            self._damaged = self._damaged or StorageFailure(self._place.directory, 0, str(failure))

    def _fail_waiting(self, failure: StorageFailure) -> None:
        for question in self._waiting:
            if not question.answer.done():
                question.answer.set_exception(failure)

    # --- asking others -----------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None], among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        among.add(task)
        task.add_done_callback(among.discard)
        return task

    async def _ask(self, send: effect_kinds.Send, generation: int) -> None:
        request, kind = write_request(send.request, self._settings.snapshot_max_bytes)
        pulling = isinstance(send.request, Fetch | FetchSnapshot)
        refused = False
        answer: Answer | None = None
        try:
            link = self._link(send.address, pulling)
            answer = read_answer(send.request, await link.ask(request, kind, send.timeout), read_entries)
        except LinkDown as down:
            refused = down.refused
        except (CorruptBatch, ValueError) as problem:
            logger.warning("an answer of node %d cannot be used: %s", send.node_id, problem)
        if generation != self._generation or self._stopped:
            return
        now = self._loop.time()
        if answer is None:
            self.raft.unanswered(send.number, send.node_id, send.request, refused, now)
        else:
            self.raft.answered(send.number, send.node_id, send.request, answer, now)
        self._feed()

    def _link(self, address: Endpoint, pulling: bool) -> Link:
        """A fetch may be held by the leader; nothing else has to wait behind it."""
        key = address.host, address.port, pulling
        link = self._open_links.get(key)
        if link is None:
            link = self._open_links[key] = self._links.link(address.host, address.port)
        return link


def _names(voters: VoterSet) -> str:
    return ", ".join(map(str, voters.ids))
