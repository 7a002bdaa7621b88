"""Following the controller: its decisions, in order, as they are stored.

Owns: how far this node has come, and the newest controller epoch it has seen. Never knows: who is elected; it is told
whom to follow. Invariants: what a controller of an older epoch says is refused; decisions are told once and in order;
the first thing told in an epoch is the whole state.
"""

import asyncio
import logging
from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.metadata.fact_batches import read_fact_batches
from ottla.metadata.facts import BadFact, Fact
from ottla.metadata.quorum_events import QuorumEvents, Stored, UnreadableMetadata
from ottla.raft.log_view import Entry, LogPosition
from ottla.raft.messages import Fetch, Fetched, FetchedSnapshot, FetchSnapshot
from ottla.raft.translation import read_answer, write_request
from ottla.raft.voters import ReplicaKey
from ottla.records.header import CorruptBatch
from ottla.wire.links import Link, LinkDown, Links
from ottla.zookeeper.feed import PORTION_BYTES

logger = logging.getLogger("ottla.zookeeper")

HOLD_SECONDS = 0.5
"""How long the controller may hold a fetch when there is nothing to tell."""
ANSWER_SECONDS = 10.0
PAUSE_SECONDS = 0.1
LONG_PAUSE_SECONDS = 1.0
NOWHERE = LogPosition(0, -1)


class Reachability(Protocol):
    """Who is told whether the controller's machine refuses this node."""

    def refused(self) -> None: ...

    def reached(self) -> None: ...


class Follower:
    """One node's following; see the module."""

    def __init__(self, cluster_id: str, node_id: int, links: Links, events: QuorumEvents, reach: Reachability) -> None:
        self._cluster_id = cluster_id
        self._replica = ReplicaKey(node_id)
        self._links = links
        self._events = events
        self._reach = reach
        self.epoch = 0
        """The newest controller epoch seen; nothing of an older one is believed."""
        self.position = NOWHERE
        self._stale = -1
        """The older epoch that was refused last; once is enough to tell of it."""

    async def follow(self, leader_id: int, address: tuple[str, int]) -> None:
        """Until it is cancelled."""
        link = self._links.link(*address)
        told = -1
        try:
            while True:
                pause = 0.0
                try:
                    pause = await self._step(link, leader_id)
                    if self.epoch != told:
                        told = self.epoch
                        self._events.leader_changed(leader_id, told)
                except LinkDown as down:
                    logger.debug("the controller on node %d is not reached: %s", leader_id, down)
                    pause = PAUSE_SECONDS
                    if down.refused:
                        self._reach.refused()
                except (CorruptBatch, BadFact, UnreadableMetadata, ValueError) as problem:
                    logger.error("what the controller on node %d says cannot be used: %s", leader_id, problem)
                    self.position = NOWHERE
                    pause = LONG_PAUSE_SECONDS
                if pause:
                    await asyncio.sleep(pause)
        finally:
            link.close()

    async def _step(self, link: Link, leader_id: int) -> float:
        """Ask once; how long to wait before the next time."""
        asked = Fetch(self._cluster_id, self._replica, self.epoch, self.position, self.position.offset, HOLD_SECONDS)
        request, kind = write_request(asked, PORTION_BYTES)
        answered = await link.ask(request, kind, ANSWER_SECONDS)
        self._reach.reached()
        answer = read_answer(asked, answered, _entries)
        assert isinstance(answer, Fetched)
        if answer.believed.epoch < self.epoch:
            if self._stale != answer.believed.epoch:
                self._stale = answer.believed.epoch
                logger.warning(
                    "refuses what the controller of epoch %d on node %d says: the epoch is %d",
                    self._stale,
                    leader_id,
                    self.epoch,
                )
            return PAUSE_SECONDS
        if answer.believed.leader_id != leader_id:
            return PAUSE_SECONDS
        self.epoch = answer.believed.epoch
        if answer.error == ErrorCode.FENCED_LEADER_EPOCH:
            # The epoch of this node was the old one; the next question has the new one.
            return 0.0
        if answer.error != ErrorCode.NONE:
            return PAUSE_SECONDS
        if answer.snapshot is not None:
            await self._load(link, answer.snapshot)
        else:
            self._take(answer)
        return 0.0

    def _take(self, answer: Fetched) -> None:
        batches: list[Stored] = []
        for entry in answer.entries:
            assert isinstance(entry.data, bytes)
            batches += [Stored(facts, offset, self.epoch) for facts, offset in read_fact_batches(entry.data)]
        if batches:
            self._events.committed(batches)
            self.position = LogPosition(batches[-1].offset + 1, batches[-1].epoch)

    async def _load(self, link: Link, snapshot: LogPosition) -> None:
        data = bytearray()
        while True:
            asked = FetchSnapshot(self._cluster_id, self._replica, self.epoch, snapshot, len(data))
            request, kind = write_request(asked, PORTION_BYTES)
            answer = read_answer(asked, await link.ask(request, kind, ANSWER_SECONDS), _entries)
            assert isinstance(answer, FetchedSnapshot)
            if answer.error != ErrorCode.NONE or answer.believed.epoch != self.epoch:
                raise LinkDown("the controller does not have its snapshot any more")
            assert isinstance(answer.data, bytes | bytearray | memoryview)
            data += answer.data
            if len(data) >= answer.size or not answer.data:
                break
        facts: list[Fact] = [fact for batch, _ in read_fact_batches(data) for fact in batch]
        self._events.snapshot(facts, snapshot.offset - 1, snapshot.epoch)
        self.position = snapshot


def _entries(data: object) -> tuple[Entry, ...]:
    """The records of an answer, as one: they are taken apart when it is certain that they are believed."""
    assert isinstance(data, bytes | bytearray | memoryview)
    return (Entry(0, 0, 0, (), bytes(data)),) if len(data) else ()
