"""One node's part in the quorum, for those who use it.

Owns: the face of it: start and stop, decisions, requests of other nodes, snapshots. Never knows: how a majority is
found (`raft`), how the machine runs on this node (`QuorumDriver`), what facts say.
Invariants: every node is told the same decisions in the same order; a decision is refused here, or written whole.
"""

import logging
from collections.abc import Iterable

from ottla.log.files import StorageFailure
from ottla.metadata.facts import Fact
from ottla.metadata.quorum_events import QuorumEvents
from ottla.quorum.describing import describe_quorum
from ottla.quorum.driver import QuorumDriver
from ottla.quorum.log import QuorumLog
from ottla.quorum.settings import QuorumIdentity, QuorumPlatform, QuorumSettings
from ottla.quorum.snapshots import SnapshotState
from ottla.raft.log_view import LogPosition
from ottla.raft.machine import Raft
from ottla.raft.translation import misdirected, read_request
from ottla.records.control import Voter
from ottla.wire.links import Links
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.schema import Root

logger = logging.getLogger("ottla.quorum")


class QuorumNode:
    """Has a driver, which has the machine. `open`, `start`, then `stop` and `close`."""

    def __init__(
        self,
        platform: QuorumPlatform,
        identity: QuorumIdentity,
        settings: QuorumSettings,
        links: Links,
        events: QuorumEvents,
    ) -> None:
        self._platform = platform
        self._can_vote = identity.can_vote
        self._driver = QuorumDriver(platform, identity, settings, links, events)
        self.writing_snapshot = False

    # --- how it stands -----------------------------------------------------------------------------------------------

    @property
    def raft(self) -> Raft:
        """The machine, for those who describe it."""
        return self._driver.raft

    @property
    def log(self) -> QuorumLog:
        return self._driver.log

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
        return self._driver.leads

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
        return self._driver.damaged

    @property
    def interrupted(self) -> bool:
        """Whether the facts told so far end inside a transaction; a new leader has to abort it."""
        return self.log.interrupted

    # --- the start and the end ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load what this node has. Blocking; raises StorageFailure, UnreadableMetadata and BadQuorumState."""
        self._driver.open()

    def start(self) -> None:
        """Take part. On the loop; a sole voter leads before this returns, or StorageFailure is raised."""
        self._driver.start()

    async def stop(self, *, resign: bool = True) -> None:
        """Leave in good order: a leader resigns, and what is written lasts."""
        await self._driver.stop(resign=resign)

    def close(self) -> None:
        """Let the files go. Blocking; raises StorageFailure."""
        self._driver.close()

    # --- decisions ---------------------------------------------------------------------------------------------------

    def append(self, facts: list[Fact]) -> int:
        """Write the facts of one decision; answers the offset of the last. They come back as committed, or never.

        Raises NotLeader and StorageFailure, and then nothing was written.
        """
        return self._driver.append(facts)

    def take_snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        """Write the state that all facts up to and with `offset` amount to, in a thread; old log may go then."""
        position = LogPosition(offset + 1, epoch)
        newest = self.log.snapshot
        if (
            self._driver.damaged is not None
            or self.writing_snapshot
            or (newest is not None and newest.offset >= position.offset)
        ):
            # One at a time; what comes meanwhile is in the next.
            return
        self.writing_snapshot = True
        voters, version = self.raft.log.voters_at(offset)
        self._driver.spawn(self._write_snapshot(SnapshotState(position, version, voters), facts))

    async def _write_snapshot(self, state: SnapshotState, facts: Iterable[Fact]) -> None:
        try:
            # A log that others count on is believed up to its newest snapshot when it is opened.
            if self._can_vote and not await self._driver.sync_written():
                return
            await self._platform.run_blocking(lambda: self.log.snapshots.write(state, facts))
            async with self._driver.turn:
                if self._driver.damaged is None:
                    await self._use_snapshot(state.position)
        except StorageFailure as failure:
            logger.error("a snapshot of the metadata cannot be stored, or old ones not removed: %s", failure)
        finally:
            self.writing_snapshot = False

    async def _use_snapshot(self, position: LogPosition) -> None:
        self.log.took_snapshot(position)
        try:
            removals = self.log.trim()
        finally:
            self.raft.log.took_snapshot(position, self.log.start_offset)
        for removal in removals:
            await self._platform.run_blocking(removal.run)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def handle(self, request: Root, version: int) -> Root:
        """Answer another node, or an operator."""
        if isinstance(request, DescribeQuorumRequest):
            now_ms = self._platform.world.clock.now_ms()
            return describe_quorum(request, self.raft, self._platform.loop.time(), now_ms)
        asked = read_request(request, version)
        if asked is None:
            return misdirected(request)
        return await self._driver.receive(request, asked)
