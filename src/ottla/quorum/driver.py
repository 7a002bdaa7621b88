"""The machine of `raft` on this node's disk, links and event loop.

Owns: the order in which the machine's effects are done, and what becomes of it when the disk fails. Never knows: how
agreement is reached, what facts say, who calls from outside (that is `QuorumNode`, built on this).
Invariants: an effect begins when all before it are done, so nothing is said before what it rests on lasts; blocking
work on the log and the vote runs in threads, one piece at a time, except where a sole voter starts; a failing disk
makes the machine begin again from what was proven to last, once no thread is at work any more.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.metadata.facts import Fact
from ottla.quorum.log import QuorumLog, read_entries
from ottla.quorum.ports import (
    QuorumEvents,
    QuorumIdentity,
    QuorumPlace,
    QuorumSettings,
    UnreadableMetadata,
)
from ottla.quorum.snapshots import Content
from ottla.quorum.state_file import QuorumState, write_quorum_state
from ottla.raft import effects as effect_kinds
from ottla.raft.core import ReplicaIdentity, Timing
from ottla.raft.effects import Effect
from ottla.raft.log_view import LogPosition, LogView
from ottla.raft.machine import Raft
from ottla.raft.messages import Answer, EndEpoch, Fetch, Fetched, FetchedSnapshot, FetchSnapshot
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


_Blocking: TypeAlias = (
    effect_kinds.SaveElection | effect_kinds.Sync | effect_kinds.KeepPortion | effect_kinds.InstallSnapshot
)
"""Effects that wait for the disk."""


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
        self._turn = asyncio.Lock()
        """Of whoever has blocking work to do on the log or the vote: of two syncs one alone would hear of a failure,
        and of two votes the older might be written last."""
        self._waiting: dict[Question, None] = {}  # in the order of their coming
        self._timer: asyncio.TimerHandle | None = None
        self._generation = 0
        """Of the machine: answers to questions of an earlier one are for nothing."""
        self._damaged: StorageFailure | None = None
        self._stopping = asyncio.Event()
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

    def _view(self) -> LogView:
        """What the machine has to know of the log. Blocking."""
        dynamic = any(voter.directory_id != NO_DIRECTORY for voter in self.identity.voters)
        return self.log.view(VoterSet.of(self.identity.voters), 1 if dynamic else 0)

    def _make_machine(self, view: LogView) -> None:
        identity = self.identity
        settings = self._settings
        endpoints = identity.endpoints
        own = VoterSet.of(identity.voters).find(identity.node_id)
        if not endpoints and own is not None:
            endpoints = own.endpoints
        self._generation += 1
        self._raft = Raft(
            ReplicaIdentity(
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
        return self.raft.is_sole_voter

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

    # Effects are done in their order; that is the whole rule of durability: design/0012.
    def _do_next(self) -> bool:
        """Do one effect, or begin it; answers whether it has to be waited for."""
        effect = self._queue.popleft()
        if not isinstance(effect, _Blocking):
            self._do(effect)
        elif self._inline:
            self._do_inline(effect)
        else:
            self._spawn(self._do_blocking(effect), self._working)
            return True
        return False

    def _do_inline(self, effect: _Blocking) -> None:
        """A sole voter that starts has nobody to load a snapshot from."""
        if isinstance(effect, effect_kinds.SaveElection):
            self._save(*self._state_of(effect.election))
            self._election = effect.election
        elif isinstance(effect, effect_kinds.Sync):
            self.log.sync()

    async def _do_blocking(self, effect: _Blocking) -> None:
        generation = self._generation
        try:
            if isinstance(effect, effect_kinds.Sync):
                await self._sync_once()
            else:
                await self._do_in_turn(effect, generation)
        except StorageFailure as failure:
            self._break_down(failure)
        if generation == self._generation:
            self._draining = False
            self._feed()

    async def _do_in_turn(self, effect: _Blocking, generation: int) -> None:
        async with self._turn:
            if generation != self._generation:
                return
            if isinstance(effect, effect_kinds.SaveElection):
                await self._place.run_blocking(partial(self._save, *self._state_of(effect.election)))
                # It is in the file, whatever has become of the machine meanwhile.
                self._election = effect.election
            elif isinstance(effect, effect_kinds.KeepPortion):
                await self._place.run_blocking(partial(self._keep, effect.portion))
            elif isinstance(effect, effect_kinds.InstallSnapshot):
                arrived: list[Content] = []
                await self._place.run_blocking(partial(self._arrive, effect.snapshot, arrived))
                if generation == self._generation:
                    self._install(effect.snapshot, arrived)

    def _state_of(self, election: Election) -> tuple[QuorumState, int]:
        """What is written down, and in which version."""
        version = min(self.raft.log.kraft_version, 1)
        voters = self.raft.voters.ids if version == 0 else ()
        return QuorumState(election.leader_id, election.epoch, voters, election.voted), version

    def _save(self, state: QuorumState, version: int) -> None:
        try:
            write_quorum_state(self._place.world.disk, self._place.directory, state, version)
        except OSError as error:
            raise StorageFailure.of(self._place.directory, error) from error

    def _keep(self, portion: FetchedSnapshot) -> None:
        assert isinstance(portion.data, bytes | bytearray | memoryview)
        self.log.snapshots.keep_portion(portion.snapshot, portion.position, portion.data)

    def _arrive(self, position: LogPosition, arrived: list[Content]) -> None:
        """The last portion is here; what cannot be used is not there."""
        try:
            arrived.append(self.log.snapshots.finish_portions(position))
        except UnreadableMetadata as problem:
            logger.error("a snapshot of the leader's cannot be used: %s", problem)

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
        else:
            self._tell(effect)

    def _install(self, position: LogPosition, arrived: list[Content]) -> None:
        if not arrived:
            self.raft.install_failed(self._loop.time())
            return
        self.log.install(position)
        try:
            self._tell_snapshot(position, arrived[0].facts)
        except UnreadableMetadata as problem:
            logger.error("this node cannot go on with the metadata: %s", problem)
        self.raft.installed(position, arrived[0].controls, self._loop.time())

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

    def _tell_snapshot(self, position: LogPosition, facts: Iterable[Fact]) -> None:
        self.log.told_snapshot(position)
        self._events.snapshot(facts, position.offset - 1, position.epoch)

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
                epoch = self.raft.epoch
                if not await self._sync_once():
                    return
                if epoch == self.raft.epoch:
                    self.raft.stored(self.log.synced_offset, self._loop.time())
                    self._feed()
        finally:
            self._syncing = False

    async def _sync_once(self) -> bool:
        """Make everything that is written last; answers whether it does."""
        async with self._turn:
            if self._damaged is not None:
                return False
            generation = self._generation
            try:
                ticket = self.log.begin_sync()
                if ticket is None:
                    return True
                await self._place.run_blocking(ticket.run)
            except StorageFailure as failure:
                self._break_down(failure)
                return False
            if generation != self._generation:
                return False
            self.log.finish_sync(ticket)
            return True

    # --- a failing disk ----------------------------------------------------------------------------------------------

    # After a failure of the disk the machine begins again from what lasts: design/0022.
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
        self._spawn(self._restore(), self._working)

    async def _restore(self) -> None:
        """Begin again behind what lasts; while that cannot be, this node takes no part."""
        alone = self._is_alone
        # What was told is known to be with others. A sole voter has nobody to ask, and has told nothing that was not
        # synced; a node that never votes is not counted on.
        lasting = self.log.told_offset if alone or not self.identity.can_vote else self.log.synced_offset
        while not self._stopping.is_set():
            views: list[LogView] = []
            try:
                async with self._turn:
                    await self._place.run_blocking(partial(self._repair, lasting, alone, views))
                if not self._stopping.is_set():
                    self._begin_again(views[0])
                return
            except (StorageFailure, UnreadableMetadata) as failure:
                logger.error("the metadata log cannot be repaired now: %s", failure)
                self._damaged = self._damaged or StorageFailure(self._place.directory, 0, str(failure))
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._stopping.wait()

    def _repair(self, lasting: int, alone: bool, views: list[LogView]) -> None:
        self.log.repair(lasting, exact=alone)
        views.append(self._view())

    def _begin_again(self, view: LogView) -> None:
        snapshot = self.log.snapshot
        if snapshot is not None and self.log.told_offset < self.log.start_offset:
            # It had arrived, and the disk failed before it was told.
            self._tell_snapshot(snapshot, self.log.snapshots.facts(snapshot))
        self._make_machine(view)
        self._queue.clear()
        self._draining = False
        self._damaged = None
        self._begin()

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
