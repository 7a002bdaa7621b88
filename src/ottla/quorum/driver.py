"""The machine of `raft` on this node's disk, links and event loop.

Owns: the order in which the machine's effects are done, and what becomes of it when the disk fails. Never knows: how a
majority is found, what facts say, who calls from outside (that is `QuorumNode`, which has one of these).
Invariants: an effect begins when all before it are done, so nothing is said before what it rests on lasts; blocking
work on the log and the vote runs in threads, one piece at a time, except where a sole voter starts; a failing disk
makes the machine begin again from what was proven to last, once no thread is at work any more.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from ottla.log.files import StorageFailure
from ottla.metadata.facts import Fact
from ottla.metadata.quorum_events import NotLeader, QuorumEvents, UnreadableMetadata
from ottla.quorum.announcing import Announcements
from ottla.quorum.log import QuorumLog
from ottla.quorum.machine import new_machine, view_of
from ottla.quorum.peers import PeerRequests
from ottla.quorum.received import ReceivedRequests
from ottla.quorum.settings import QuorumIdentity, QuorumPlatform, QuorumSettings
from ottla.quorum.snapshots import SnapshotContent
from ottla.quorum.state_file import QuorumState, remembered_election, write_quorum_state
from ottla.raft import effects as effect_kinds
from ottla.raft.effects import Effect
from ottla.raft.log_view import LogPosition, LogView
from ottla.raft.machine import Raft
from ottla.raft.messages import Answer, FetchedSnapshot, Request
from ottla.raft.voters import Election
from ottla.wire.links import Links
from ottla.wire.schema import Root

logger = logging.getLogger("ottla.quorum")

_GOODBYE_SECONDS = 0.5
"""How long a leader that stops waits until the others have heard of it."""
_RETRY_SECONDS = 0.5
"""How long a failed disk is left alone."""


_Blocking: TypeAlias = (
    effect_kinds.SaveElection | effect_kinds.Sync | effect_kinds.KeepPortion | effect_kinds.InstallSnapshot
)
"""Effects that wait for the disk."""


class QuorumDriver:
    """One node's machine at work. `open`, `start`, then `stop` and `close`."""

    def __init__(
        self,
        platform: QuorumPlatform,
        identity: QuorumIdentity,
        settings: QuorumSettings,
        links: Links,
        events: QuorumEvents,
    ) -> None:
        self._platform = platform
        self._loop = platform.loop
        self._identity = identity
        self._settings = settings
        self._announcements = Announcements(events)
        self._peers = PeerRequests(platform.loop, links, settings.snapshot_max_bytes)
        self._received = ReceivedRequests(platform.loop, settings)
        self._working: set[asyncio.Task[None]] = set()
        self._queue: deque[Effect] = deque()
        self._draining = False
        self._inline = False
        """Whether blocking work is done on the loop, as when a sole voter starts."""
        self._syncing = False
        self.turn = asyncio.Lock()
        """Of whoever has blocking work to do on the log or the vote: of two syncs one alone would hear of a failure,
        and of two votes the older might be written last."""
        self._timer: asyncio.TimerHandle | None = None
        self._generation = 0
        """Of the machine: answers to questions of an earlier one are for nothing."""
        self.damaged: StorageFailure | None = None
        """Why nothing can be stored here now."""
        self._stopping = asyncio.Event()
        self._stopped = False
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

    @property
    def leads(self) -> bool:
        """Whether `append` may be called."""
        return self._announcements.leads

    def _make_machine(self, view: LogView) -> None:
        self._generation += 1
        random = self._platform.world.random
        self._raft = new_machine(self._identity, self._settings, view, self._election, random)

    @property
    def _is_alone(self) -> bool:
        return self.raft.is_sole_voter

    # --- the start and the end ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load what this node has. Blocking; raises StorageFailure, UnreadableMetadata and BadQuorumState."""
        world, directory, identity = self._platform.world, self._platform.directory, self._identity
        self._log = QuorumLog(world, directory, self._settings, counted_on=identity.can_vote)
        view = view_of(self.log, self._identity)
        others = identity.can_vote and any(node_id != identity.node_id for node_id in view.voters.ids)
        self._election = remembered_election(world.disk, directory, view.last_epoch, others)
        self._make_machine(view)
        if not self._is_alone:
            # What a process wrote before it was killed need not be on the disk; from here on it is counted on.
            self._log.sync()

    def start(self) -> None:
        """Take part. On the loop; a sole voter leads before this returns, or StorageFailure is raised."""
        snapshot = self.log.snapshot
        if snapshot is not None and snapshot.offset:
            # One from before the first record only names the first voters.
            self._announcements.snapshot(snapshot, self.log.snapshots.facts(snapshot), self.log)
        self._begin()

    def _begin(self) -> None:
        self._inline = self._is_alone
        try:
            self.raft.start(self._loop.time())
            self._drain()
        finally:
            self._inline = False
        self._arm()

    async def stop(self, *, resign: bool) -> None:
        """Everything that is written lasts; a leader may `resign` first, so that the others need not find out."""
        self._stopping.set()
        if resign and self.leads and not self._is_alone:
            self.raft.resign(self._loop.time())
            self._feed()
            await self._work_done()
            await self._peers.resignation_heard(_GOODBYE_SECONDS)
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await self._work_done()
        await self._peers.close()
        self._received.fail(StorageFailure(self._platform.directory, 0, "this node is stopping"))

    async def _work_done(self) -> None:
        while self._working:
            await asyncio.wait(self._working)

    def close(self) -> None:
        """Let the files go. Blocking; raises StorageFailure."""
        if self.damaged is None:
            self.log.close()
        else:
            # What could not be stored is not made to look as if it had been.
            self.log.abandon()

    # --- what comes from outside -------------------------------------------------------------------------------------

    def append(self, facts: list[Fact]) -> int:
        """Write the facts of one decision; answers the offset of the last. Raises NotLeader and StorageFailure."""
        if self.damaged is not None:
            raise self.damaged
        if not (self.leads and self.raft.leads):
            # It may have been deposed a moment ago, with those who are to hear of it still waiting for the disk.
            raise NotLeader
        try:
            self._write_ahead()
        except StorageFailure as failure:
            self.break_down(failure)
            raise
        try:
            end_offset = self.log.append(facts, self.raft.epoch)
        except StorageFailure as failure:
            if not failure.out_of_space:
                self.break_down(failure)
            raise
        self.raft.appended(end_offset, self._loop.time())
        self._sync_soon()
        self._feed()
        return end_offset - 1

    def _write_ahead(self) -> None:
        """Records of the quorum's own that are still queued come before a decision."""
        for effect in list(self._queue):
            if isinstance(effect, effect_kinds.WriteControls):
                self._queue.remove(effect)
                self.log.write_controls(*effect)

    async def receive(self, request: Root, asked: Request) -> Root:
        """The machine's answer to another node, or to an operator. Raises StorageFailure."""
        if self.damaged is not None:
            # What this node would say rests on what it may have lost.
            raise self.damaged
        received = self._received.add(request)
        try:
            self.raft.receive(received, asked, self._loop.time())
            self._feed()
            return await received.reply
        finally:
            self._received.remove(received)

    # --- effects -----------------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Work that `stop` waits for."""
        task = self._loop.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def _feed(self) -> None:
        """The machine was told something: do what it wants done."""
        self._drain()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.raft.deadline()
        if due != float("inf") and not self._stopped and self.damaged is None:
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
            self.break_down(failed)

    # Effects are done in their order; that is the whole rule of durability: design/0012.
    def _do_next(self) -> bool:
        """Do one effect, or begin it; answers whether it has to be waited for."""
        effect = self._queue.popleft()
        if not isinstance(effect, _Blocking):
            self._do(effect)
        elif self._inline:
            self._do_inline(effect)
        else:
            self.spawn(self._do_blocking(effect))
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
                await self.sync_written()
            else:
                await self._do_in_turn(effect, generation)
        except StorageFailure as failure:
            self.break_down(failure)
        if generation == self._generation:
            self._draining = False
            self._feed()

    async def _do_in_turn(self, effect: _Blocking, generation: int) -> None:
        async with self.turn:
            if generation != self._generation:
                return
            if isinstance(effect, effect_kinds.SaveElection):
                await self._platform.run_blocking(partial(self._save, *self._state_of(effect.election)))
                # It is in the file, whatever has become of the machine meanwhile.
                self._election = effect.election
            elif isinstance(effect, effect_kinds.KeepPortion):
                await self._platform.run_blocking(partial(self._keep, effect.portion))
            elif isinstance(effect, effect_kinds.InstallSnapshot):
                arrived: list[SnapshotContent] = []
                await self._platform.run_blocking(partial(self._arrive, effect.snapshot, arrived))
                if generation == self._generation:
                    self._install(effect.snapshot, arrived)

    def _state_of(self, election: Election) -> tuple[QuorumState, int]:
        """What is written down, and in which version."""
        version = min(self.raft.log.kraft_version, 1)
        voters = self.raft.voters.ids if version == 0 else ()
        return QuorumState(election.leader_id, election.epoch, voters, election.voted), version

    def _save(self, state: QuorumState, version: int) -> None:
        try:
            write_quorum_state(self._platform.world.disk, self._platform.directory, state, version)
        except OSError as error:
            raise StorageFailure.of(self._platform.directory, error) from error

    def _keep(self, portion: FetchedSnapshot) -> None:
        assert isinstance(portion.data, bytes | bytearray | memoryview)
        self.log.snapshots.keep_portion(portion.snapshot, portion.position, portion.data)

    def _arrive(self, position: LogPosition, arrived: list[SnapshotContent]) -> None:
        """The last portion is here; what cannot be used is not there."""
        try:
            arrived.append(self.log.snapshots.finish_portions(position))
        except UnreadableMetadata as problem:
            logger.error("a snapshot of the leader's cannot be used: %s", problem)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, effect_kinds.Send):
            self._peers.send(effect, partial(self._answered, self._generation))
        elif isinstance(effect, effect_kinds.Reply):
            self._received.answer(effect.token, effect.answer, self.log)
        elif isinstance(effect, effect_kinds.ReplyPortion):
            self._received.answer_portion(effect.token, effect.answer, self.log)
        elif isinstance(effect, effect_kinds.WriteEntries):
            self.log.write_entries(effect.entries)
        elif isinstance(effect, effect_kinds.WriteControls):
            self.log.write_controls(*effect)
            self._sync_soon()
        elif isinstance(effect, effect_kinds.Truncate):
            self.log.truncate(effect.offset)
        elif isinstance(effect, effect_kinds.Commit):
            self._commit(effect.high_watermark)
        else:
            self._announcements.leadership(effect)

    def _answered(self, generation: int, send: effect_kinds.Send, answer: Answer | None, refused: bool) -> None:
        if generation != self._generation or self._stopped:
            return
        now = self._loop.time()
        if answer is None:
            self.raft.unanswered(send.number, send.node_id, send.request, refused, now)
        else:
            self.raft.answered(send.number, send.node_id, send.request, answer, now)
        self._feed()

    def _commit(self, high_watermark: int) -> None:
        try:
            self._announcements.committed(high_watermark, self.log)
        except UnreadableMetadata as problem:
            if self._inline:
                raise
            # The node keeps its copy of the log and its vote.
            logger.error("this node cannot go on with the metadata: %s", problem)
        self._announcements.voters(high_watermark, self.raft.log)

    def _install(self, position: LogPosition, arrived: list[SnapshotContent]) -> None:
        if not arrived:
            self.raft.install_failed(self._loop.time())
            return
        self.log.install(position)
        try:
            self._announcements.snapshot(position, arrived[0].facts, self.log)
        except UnreadableMetadata as problem:
            logger.error("this node cannot go on with the metadata: %s", problem)
        self.raft.installed(position, arrived[0].controls, self._loop.time())

    # --- syncing as the leader ---------------------------------------------------------------------------------------

    def _sync_soon(self) -> None:
        """Whatever is written while a sync runs shares the next one."""
        if self._inline:
            self.log.sync()
            self.raft.stored(self.log.synced_offset, self._loop.time())
        elif not self._syncing:
            self._syncing = True
            self.spawn(self._sync())

    async def _sync(self) -> None:
        try:
            while self.log.synced_offset < self.log.end_offset and self.damaged is None:
                epoch = self.raft.epoch
                if not await self.sync_written():
                    return
                if epoch == self.raft.epoch:
                    self.raft.stored(self.log.synced_offset, self._loop.time())
                    self._feed()
        finally:
            self._syncing = False

    async def sync_written(self) -> bool:
        """Make everything that is written last; answers whether it does."""
        async with self.turn:
            if self.damaged is not None:
                return False
            generation = self._generation
            try:
                ticket = self.log.begin_sync()
                if ticket is None:
                    return True
                await self._platform.run_blocking(ticket.run)
            except StorageFailure as failure:
                self.break_down(failure)
                return False
            if generation != self._generation:
                return False
            self.log.finish_sync(ticket)
            return True

    # --- a failing disk ----------------------------------------------------------------------------------------------

    # After a failure of the disk the machine begins again from what lasts: design/0022.
    def break_down(self, failure: StorageFailure) -> None:
        """Nothing that was not synced has happened: it is truncated, lest a restart find it; then all begins again."""
        logger.error("metadata cannot be stored: %s", failure)
        if self.damaged is not None:
            return
        self.damaged = failure
        self._generation += 1
        self._queue.clear()
        self._draining = False
        if self._timer is not None:
            self._timer.cancel()
        self._announcements.out_of_service(self.raft.leader_id, self.raft.epoch)
        self._received.fail(failure)
        self.spawn(self._restore())

    async def _restore(self) -> None:
        """Begin again behind what lasts; while that cannot be, this node takes no part."""
        alone = self._is_alone
        # What was told is known to be with others. A sole voter has nobody to ask, and has told nothing that was not
        # synced; a node that never votes is not counted on.
        lasting = self.log.told_offset if alone or not self._identity.can_vote else self.log.synced_offset
        while not self._stopping.is_set():
            views: list[LogView] = []
            try:
                async with self.turn:
                    await self._platform.run_blocking(partial(self._repair, lasting, alone, views))
                if not self._stopping.is_set():
                    self._begin_again(views[0])
                return
            except (StorageFailure, UnreadableMetadata) as failure:
                logger.error("the metadata log cannot be repaired now: %s", failure)
                self.damaged = self.damaged or StorageFailure(self._platform.directory, 0, str(failure))
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._stopping.wait()

    def _repair(self, lasting: int, alone: bool, views: list[LogView]) -> None:
        self.log.repair(lasting, exact=alone)
        views.append(view_of(self.log, self._identity))

    def _begin_again(self, view: LogView) -> None:
        snapshot = self.log.snapshot
        if snapshot is not None and self.log.told_offset < self.log.start_offset:
            # It had arrived, and the disk failed before it was told.
            self._announcements.snapshot(snapshot, self.log.snapshots.facts(snapshot), self.log)
        self._make_machine(view)
        self._queue.clear()
        self._draining = False
        self.damaged = None
        self._begin()
