"""One node's part in the quorum, for those who use it.

Owns: the face of it: start and stop, decisions, requests of other nodes, snapshots. Never knows: how agreement is
reached (`raft`), how the machine runs on this node (`QuorumHost`), what facts say.
Invariants: every node is told the same decisions in the same order; a decision is refused here, or written whole.
"""

import asyncio
import logging
from collections.abc import Iterable

from ottla.log.files import StorageFailure
from ottla.metadata.facts import Fact
from ottla.quorum.describing import describe_quorum
from ottla.quorum.driver import Question, QuorumHost
from ottla.quorum.log import QuorumLog
from ottla.quorum.ports import (
    NotLeader,
)
from ottla.quorum.snapshots import SnapshotState
from ottla.quorum.state_file import remembered_election
from ottla.raft.log_view import LogPosition
from ottla.raft.translation import misdirected, read_request
from ottla.records.control import Voter
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.schema import Root

logger = logging.getLogger("ottla.quorum")

_GOODBYE_SECONDS = 0.5
"""How long a leader that stops waits until the others have heard of it."""


class QuorumNode(QuorumHost):
    """See the module. `open`, `start`, then `stop` and `close`."""

    # --- how it stands -----------------------------------------------------------------------------------------------

    @property
    def leader(self) -> tuple[int, int]:
        """The leader's id and its epoch; -1 when nobody is known."""
        return self.raft.leader_id, self.raft.epoch

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """Where the leader's controller listens."""
        endpoint = self.raft.leader_endpoint
        return None if endpoint is None else (endpoint.host, endpoint.port)

    @property
    def leads(self) -> bool:
        """Whether `append` may be called."""
        return self._told_leading

    @property
    def epoch(self) -> int:
        return self.raft.epoch

    @property
    def high_watermark(self) -> int:
        return self.raft.high_watermark

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def voters(self) -> tuple[Voter, ...]:
        return self.raft.voters.voters

    @property
    def log_size(self) -> int:
        """Bytes of the log on disk."""
        return self.log.size

    @property
    def snapshot(self) -> LogPosition | None:
        """The newest snapshot."""
        return self.log.snapshot

    @property
    def damaged(self) -> StorageFailure | None:
        """Why nothing can be stored here now."""
        return self._damaged

    @property
    def interrupted(self) -> bool:
        """Whether the facts told so far end inside a transaction; a new leader has to abort it."""
        return self.log.interrupted

    # --- the start and the end ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load what this node has. Blocking; raises StorageFailure, UnreadableMetadata and BadQuorumState."""
        world, directory, identity = self._place.world, self._place.directory, self.identity
        self._log = QuorumLog(world, directory, self._settings, counted_on=identity.can_vote)
        view = self._view()
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
            self._tell_snapshot(snapshot, self.log.snapshots.facts(snapshot))
        self._begin()

    async def stop(self) -> None:
        """Leave in good order: a leader resigns, and what is written lasts."""
        self._stopping.set()
        if self._told_leading and not self._is_alone:
            self.raft.resign(self._loop.time())
            self._feed()
            await self._work_done()
            if self._farewells:
                await asyncio.wait(self._farewells, timeout=_GOODBYE_SECONDS)
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await self._work_done()
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for link in self._open_links.values():
            link.close()
        self._fail_waiting(StorageFailure(self._place.directory, 0, "this node is stopping"))

    async def _work_done(self) -> None:
        while self._working:
            await asyncio.wait(self._working)

    def close(self) -> None:
        """Let the files go. Blocking; raises StorageFailure."""
        if self._damaged is None:
            self.log.close()
        else:
            # What could not be stored is not made to look as if it had been.
            self.log.abandon()

    # --- decisions ---------------------------------------------------------------------------------------------------

    def append(self, facts: list[Fact]) -> int:
        """Write the facts of one decision; answers the offset of the last. They come back as committed, or never.

        Raises NotLeader and StorageFailure, and then nothing was written.
        """
        if self._damaged is not None:
            raise self._damaged
        if not (self._told_leading and self.raft.leads):
            # It may have been deposed a moment ago, with those who are to hear of it still waiting for the disk.
            raise NotLeader
        try:
            self._write_ahead()
        except StorageFailure as failure:
            self._break_down(failure)
            raise
        try:
            end_offset = self.log.append(facts, self.raft.epoch)
        except StorageFailure as failure:
            if not failure.out_of_space:
                self._break_down(failure)
            raise
        self.raft.appended(end_offset, self._loop.time())
        self._sync_soon()
        self._feed()
        return end_offset - 1

    def take_snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        """Write the state that all facts up to and with `offset` amount to, in a thread; old log may go then."""
        position = LogPosition(offset + 1, epoch)
        newest = self.log.snapshot
        if (
            self._damaged is not None
            or self._writing_snapshot
            or (newest is not None and newest.offset >= position.offset)
        ):
            # One at a time; what comes meanwhile is in the next.
            return
        self._writing_snapshot = True
        voters, version = self.raft.log.voters_at(offset)
        self._spawn(self._write_snapshot(SnapshotState(position, version, voters), facts), self._working)

    async def _write_snapshot(self, state: SnapshotState, facts: Iterable[Fact]) -> None:
        try:
            # A log that others count on is believed up to its newest snapshot when it is opened.
            if self.identity.can_vote and not await self._sync_once():
                return
            await self._place.run_blocking(lambda: self.log.snapshots.write(state, facts))
            async with self._turn:
                if self._damaged is None:
                    await self._use_snapshot(state.position)
        except StorageFailure as failure:
            logger.error("a snapshot of the metadata cannot be stored, or old ones not removed: %s", failure)
        finally:
            self._writing_snapshot = False

    async def _use_snapshot(self, position: LogPosition) -> None:
        self.log.took_snapshot(position)
        try:
            removals = self.log.trim()
        finally:
            self.raft.log.took_snapshot(position, self.log.start_offset)
        for removal in removals:
            await self._place.run_blocking(removal.run)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def handle(self, request: Root, version: int) -> Root:
        """Answer another node, or an operator."""
        if isinstance(request, DescribeQuorumRequest):
            now_ms = self._place.world.clock.now_ms()
            return describe_quorum(request, self.raft, self._loop.time(), now_ms)
        asked = read_request(request, version)
        if asked is None:
            return misdirected(request)
        if self._damaged is not None:
            # What this node would say rests on what it may have lost.
            raise self._damaged
        question = Question(request, self._loop.create_future())
        self._waiting[question] = None
        self.raft.receive(question, asked, self._loop.time())
        self._feed()
        try:
            return await question.answer
        finally:
            self._waiting.pop(question, None)
