"""Finding out where to read: leaders, starting offsets, and whether a position still is in the history.

Owns: one task that asks for metadata when it is old, doubted or missing, for committed offsets, for offsets by time,
and, after an election, for the end of the epoch that was read last. Never knows: fetching, records.

Invariants: an answer counts only if its partition is still in the turn in which it was asked for; metadata is asked for
at most once a pause (`retry.backoff.ms`), whoever doubts it; one partition that cannot be located keeps no other
waiting.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Mapping
from re import Pattern
from typing import Protocol

from ottla.base.errors import RETRIABLE, ErrorCode
from ottla.base.ports import Clock
from ottla.base.vocabulary import TopicPartition
from ottla.client.cluster import Topic
from ottla.client.consumer.fetcher import FetcherParts
from ottla.client.consumer.limits import reset_moment
from ottla.client.consumer.positions import NOWHERE, Held, PositionState
from ottla.client.consumer.seam import Coordination, OffsetAndMetadata
from ottla.client.errors import (
    BrokerError,
    ClientError,
    LogTruncated,
    NoOffset,
    OffsetOutOfRange,
    UnsupportedRequest,
    known_code,
)
from ottla.client.offsets import LATEST, ask_offsets
from ottla.client.retry import pause_before
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

logger = logging.getLogger("ottla.client")

Topics = Collection[str] | Pattern[str]
_AGAIN_SECONDS = 1.0
"""How often a failure that only the program can mend is told again."""


class Owner(Protocol):
    """Whoever the locator works for."""

    def failed(self, failure: ClientError) -> None: ...

    def located(self) -> None:
        """Partitions have leaders and positions that they did not have."""

    def trouble(self, held: Held, failure: ClientError) -> None:
        """A partition could not be located this time."""

    def topics_seen(self) -> None:
        """Metadata is new: topics or partitions may have come."""


class Locator:
    """`wake` it when there is something to locate; `close` it at the end."""

    def __init__(self, reach: FetcherParts, owner: Owner, clock: Clock) -> None:
        self.coordination: Coordination | None = None
        """Asked for committed offsets, where there is a group."""
        self.wanted: Topics = ()
        """Topics that metadata is asked for although no partition of them is held."""
        self.failure: ClientError | None = None
        """Why the cluster could not be asked; None when it could."""
        self.missing: dict[str, BrokerError] = {}
        """Topics that the cluster did not give metadata for."""
        self._reach = reach
        self._owner = owner
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._doubted = False
        self._refreshed = float("-inf")
        self._attempts = 0
        self._task = self._loop.create_task(self._run())

    def wake(self) -> None:
        self._changed.set()

    def doubt(self) -> None:
        """Ask for metadata as soon as that is allowed."""
        self._doubted = True
        self._changed.set()

    def out_of_range(self, held: Held) -> None:
        self._reset_by_policy(held, OffsetOutOfRange({held.partition: held.position}))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # --- the task -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                if self._loop.time() >= self._metadata_due():
                    await self._refresh()
                work = [self._ask_group(), *self._look_up(), *self._check()]
                await asyncio.gather(*work)
                self._owner.located()
            except ClientError as failure:  # of the metadata: the others keep theirs with the partitions
                self._attempts += 1
                self._doubted = True
                self.failure = failure
                if not failure.retriable:
                    self._owner.failed(failure)
            except Exception:
                # One answer that cannot be digested must not end the looking.
                logger.exception("positions could not be located")
                await asyncio.sleep(_AGAIN_SECONDS)
            await self._rest()

    async def _rest(self) -> None:
        now = self._loop.time()
        due = self._metadata_due()
        for held in self._reach.holdings:
            if held.standing is not PositionState.READING and held.leader >= 0:
                due = min(due, max(held.due, now))
        if due <= now and not self._changed.is_set():
            due = now + self._reach.cluster.settings.pauses.first  # it was tried just now
        try:
            async with asyncio.timeout_at(due):
                await self._changed.wait()
        except TimeoutError:
            pass

    # --- metadata -----------------------------------------------------------------------------------------------------

    def _metadata_due(self) -> float:
        """When metadata is to be asked for."""
        cluster = self._reach.cluster
        wanted = self.wanted
        if not len(self._reach.holdings) and not isinstance(wanted, Pattern) and not wanted:
            return float("inf")
        urgent = self._doubted or any(held.leader < 0 for held in self._reach.holdings) or bool(self.missing)
        if not urgent:
            return self._refreshed + self._reach.limits.metadata_seconds
        return self._refreshed + pause_before(max(1, self._attempts), cluster.random, cluster.settings.pauses)

    async def _refresh(self) -> None:
        cluster = self._reach.cluster
        self._refreshed = self._loop.time()
        self._doubted = False
        deadline = self._refreshed + self._reach.limits.request_seconds
        wanted = self.wanted
        names = None if isinstance(wanted, Pattern) else {*wanted, *self._reach.holdings.topics()}
        found = await cluster.refresh(names, deadline, create=self._reach.limits.create_topics and names is not None)
        self.failure = None
        self.missing = {} if names is None else {n: t for n, t in found.items() if not isinstance(t, Topic)}
        for failure in self.missing.values():
            if not failure.retriable:
                self._owner.failed(failure)
        self._owner.topics_seen()
        unknown = self._adopt()
        self._attempts = self._attempts + 1 if unknown or self.missing else 0

    def _adopt(self) -> bool:
        """What the cluster's memory says about the partitions held; True when a leader is missing."""
        cluster = self._reach.cluster
        unknown = False
        for held in self._reach.holdings:
            topic = cluster.topics.get(held.partition.topic)
            number = held.partition.partition
            if topic is None or number >= len(topic.partitions):
                held.leader = -1
                held.failure = self.missing.get(held.partition.topic) or (
                    cluster.leaderless(held.partition, topic) if topic is not None else held.failure
                )
                unknown = True
                continue
            found = topic.partitions[number]
            leader = found.leader if found.leader in cluster.brokers else -1
            made_again = held.is_other(topic.topic_id)
            if not held.learn_leader(topic.topic_id, leader, found.leader_epoch):
                self._doubted = unknown = True
            if made_again:
                self._begin_anew(held)
            if held.leader < 0:
                held.failure = cluster.leaderless(held.partition, topic)
                unknown = True
        return unknown

    def _begin_anew(self, held: Held) -> None:
        """The topic was made again: a position in the one before says nothing, also where the new one has such an
        offset. As for an offset that is out of range, `auto.offset.reset` decides."""
        if held.standing is PositionState.RESETTING:
            held.look_up(held.moment)  # an answer on its way is about the other topic
        elif held.position >= 0:
            position = held.position
            logger.warning("topic %s was made again: %s was read up to %d", *_place(held), position)
            held.jump(NOWHERE)
            held.standing = PositionState.UNKNOWN  # and no fetch before somebody says where to read
            self._reset_by_policy(held, OffsetOutOfRange({held.partition: position}))

    # --- positions ----------------------------------------------------------------------------------------------------

    def _due(self, standing: PositionState) -> list[Held]:
        now = self._loop.time()
        return [held for held in self._reach.holdings if held.standing is standing and held.due <= now]

    async def _ask_group(self) -> None:
        """Committed offsets for partitions of which nothing else is known."""
        unknown = [(held, held.turn) for held in self._due(PositionState.UNKNOWN)]
        if not unknown:
            return
        committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
        if self.coordination is not None:
            deadline = self._loop.time() + self._reach.limits.request_seconds
            try:
                committed = await self.coordination.committed([held.partition for held, _ in unknown], deadline)
            except ClientError as failure:
                self._trouble(unknown, failure)
                return
        for held, turn in unknown:
            if held.turn != turn:
                continue
            found = committed.get(held.partition)
            if found is None:
                self._reset_by_policy(held, NoOffset([held.partition]))
                continue
            held.jump(found.offset, found.leader_epoch)
            if found.leader_epoch >= 0:
                held.standing = PositionState.CHECKING

    def _look_up(self) -> Iterable[Awaitable[None]]:
        by_node: dict[int, list[Held]] = {}
        for held in self._due(PositionState.RESETTING):
            if held.leader >= 0:
                by_node.setdefault(held.leader, []).append(held)
        return [self._ask_offsets(node, rows) for node, rows in by_node.items()]

    async def _ask_offsets(self, node: int, chosen: list[Held]) -> None:
        rows = _still(chosen, PositionState.RESETTING)
        if not rows:
            return
        turns = {held.partition: (held, held.turn) for held in rows}
        moments = {held.partition: held.moment for held in rows}
        limits = self._reach.limits
        deadline = self._loop.time() + limits.request_seconds
        try:
            found = await ask_offsets(self._reach.cluster, node, moments, deadline, limits.isolation)
        except ClientError as failure:
            self._trouble(turns.values(), failure)
            return
        for partition, (held, turn) in turns.items():
            answer = found.get(partition)
            if answer is None or held.turn != turn:
                continue
            if answer.error:
                self._trouble([(held, turn)], BrokerError(answer.error, f"partition {partition}"))
            elif answer.offset < 0:
                held.look_up(LATEST)  # nothing at or after the moment: what comes next
                self._changed.set()
            else:
                held.jump(answer.offset, answer.leader_epoch)

    def _reset_by_policy(self, held: Held, otherwise: ClientError) -> None:
        moment = reset_moment(self._reach.limits.reset, self._clock.now_ms)
        if moment is None:
            held.due = self._loop.time() + _AGAIN_SECONDS
            held.failure = otherwise
            self._owner.failed(otherwise)
        else:
            held.look_up(moment)
            self._changed.set()

    def _trouble(self, rows: Iterable[tuple[Held, int]], failure: ClientError) -> None:
        for held, turn in rows:
            if held.turn == turn:
                self._owner.trouble(held, failure)
        retriable = failure.retriable or (isinstance(failure, BrokerError) and failure.code in RETRIABLE)
        if not retriable:
            self._owner.failed(failure)

    # --- histories ----------------------------------------------------------------------------------------------------

    def _check(self) -> Iterable[Awaitable[None]]:
        by_node: dict[int, list[Held]] = {}
        for held in self._due(PositionState.CHECKING):
            if held.leader >= 0:
                by_node.setdefault(held.leader, []).append(held)
        return [self._ask_epochs(node, rows) for node, rows in by_node.items()]

    async def _ask_epochs(self, node: int, chosen: list[Held]) -> None:
        rows = _still(chosen, PositionState.CHECKING)
        if not rows:
            return
        turns = [(held, held.turn) for held in rows]
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for held in rows:
            row = OffsetForLeaderPartition(held.partition.partition, held.leader_epoch, held.fetch_epoch)
            topics.setdefault(held.partition.topic, []).append(row)
        request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(name, row) for name, row in topics.items()])
        deadline = self._loop.time() + self._reach.limits.request_seconds
        try:
            answer = await self._reach.cluster.ask_node(node, request, OffsetForLeaderEpochResponse, deadline)
        except UnsupportedRequest:
            for held, turn in turns:
                if held.turn == turn:
                    held.standing = PositionState.READING  # a broker without histories: nothing to compare with
            return
        except ClientError as failure:
            self._trouble(turns, failure)
            return
        ends = {
            TopicPartition(topic.topic, part.partition): part for topic in answer.topics for part in topic.partitions
        }
        for held, turn in turns:
            if held.turn == turn and held.partition in ends:
                self._compare(held, ends[held.partition])

    def _compare(self, held: Held, end: EpochEndOffset) -> None:
        code = known_code(end.error_code)
        if code:
            if code in (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH):
                self.doubt()
            self._trouble([(held, held.turn)], BrokerError(code, f"partition {held.partition}"))
            return
        known = end.end_offset != NOWHERE and end.leader_epoch >= 0
        if known and end.end_offset >= held.fetch_offset:
            held.standing = PositionState.READING
            held.works()
        elif known and end.end_offset >= held.position:
            held.forget_buffered()  # only what nobody has seen is another history
        elif self._reach.limits.reset == "none":
            diverged = {held.partition: end.end_offset} if known else {}
            self._owner.failed(LogTruncated({held.partition: held.position}, diverged))
            held.due = self._loop.time() + _AGAIN_SECONDS
        elif known:
            logger.warning(
                "%s was cut at %d by an election, below position %d: reading goes on there",
                held.partition, end.end_offset, held.position,
            )  # fmt: skip
            held.jump(end.end_offset, end.leader_epoch)
        else:
            self.out_of_range(held)


def _place(held: Held) -> tuple[str, TopicPartition]:
    return held.partition.topic, held.partition


def _still(chosen: list[Held], standing: PositionState) -> list[Held]:
    """Between being chosen and being asked for, a partition may be sought elsewhere: then it is no longer asked for."""
    return [held for held in chosen if held.standing is standing]
