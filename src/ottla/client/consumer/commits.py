"""Commits that nobody waits for: those a program starts in the background, and those that happen by themselves.

Owns: their tasks and the time of the next automatic one. Never knows: how a commit travels.
Invariants: commits reach the coordinator in the order in which they were started; one automatic commit is on its way at
a time; a commit that somebody waits for starts after all others have ended, so that none overtakes it.
"""

import asyncio
import logging
from collections.abc import Mapping

from ottla.base.vocabulary import TopicPartition
from ottla.client.consumer.group_offsets import GroupOffsets
from ottla.client.consumer.seam import Committed, ConsumerSeam
from ottla.client.errors import ClientError
from ottla.client.groups.vocabulary import OffsetAndMetadata

logger = logging.getLogger("ottla.client")
RETRY_PAUSE = 0.1


class Commits:
    """`every` is the time between automatic commits, None when there are none; `seconds` is the time each may take."""

    def __init__(self, offsets: GroupOffsets, holder: ConsumerSeam, every: float | None, seconds: float) -> None:
        self._offsets = offsets
        self._holder = holder
        self._every = every
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._due = float("inf") if every is None else self._loop.time() + every
        self._automatic = False

    @property
    def automatic(self) -> bool:
        return self._every is not None

    def polled(self, now: float) -> None:
        """Commit by itself when it is time to."""
        if now >= self._due and not self._automatic:
            self._automatic = True
            self.start(self._holder.positions(), self._ended)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        await self.settle(deadline)
        await self._offsets.commit(offsets, deadline)
        self._holder.committed_offsets(offsets)

    async def commit_at_last(self, partitions: frozenset[TopicPartition] | None, deadline: float) -> None:
        """The automatic commit before partitions go (None: all); a failure goes to the log, since they go anyway."""
        if not self.automatic:
            return
        positions = self._holder.positions()
        chosen = {each: position for each, position in positions.items() if partitions is None or each in partitions}
        try:
            await self.settle(deadline)
            await self._offsets.commit(chosen, deadline, await_topics=False)
            self._holder.committed_offsets(chosen)
        except ClientError as failure:
            logger.warning("the last automatic commit failed, some records will be read again: %s", failure)

    def start(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Committed | None) -> None:
        task = self._loop.create_task(self._in_background(dict(offsets), done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self, deadline: float) -> None:
        """Until what was started before has ended."""
        pending = self._tasks - {asyncio.current_task()}
        if pending:
            await asyncio.wait(pending, timeout=max(0.0, deadline - self._loop.time()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _in_background(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Committed | None) -> None:
        failure: ClientError | None = None
        try:
            await self._offsets.commit_once(offsets, self._loop.time() + self._seconds)
            self._holder.committed_offsets(offsets)
        except ClientError as problem:
            failure = problem
        if done is not None:
            try:
                done(offsets, failure)
            except Exception:
                logger.exception("the callback of a commit failed")

    def _ended(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], failure: ClientError | None) -> None:
        self._automatic = False
        assert self._every is not None
        pause = self._every
        if failure is not None:
            logger.warning("an automatic commit failed: %s", failure)
            if failure.retriable:
                pause = min(pause, RETRY_PAUSE)
        self._due = self._loop.time() + pause
