"""The decisions of one controller, for the nodes that follow it.

Owns: the last decisions since this controller began, as batches in memory, the state they amount to as a snapshot, and
the answers to those who fetch either. Never knows: how decisions are stored, who decides.
Invariants: only what is stored is told; a node that comes from another controller's epoch, or has fallen behind what is
kept, is given the whole state first; a question is answered by its deadline, also when there is nothing to tell.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ports import Clock
from ottla.metadata.fact_batches import fact_batch, fact_batches
from ottla.metadata.image import ClusterImage
from ottla.metadata.quorum_events import Stored
from ottla.metadata.snapshot import facts_of
from ottla.raft.log_view import LogPosition
from ottla.raft.messages import Believed, Fetch, Fetched, FetchedSnapshot, FetchSnapshot

KEPT_BYTES = 8 << 20
PORTION_BYTES = 1 << 20
LONGEST_WAIT = 5.0


class _Batch(NamedTuple):
    next_offset: int
    data: bytearray


class _Snapshot:
    """The state at one offset; its bytes are made when they are first asked for."""

    def __init__(self, image: ClusterImage, position: LogPosition) -> None:
        self.image = image
        self.position = position
        self.data: bytes | None = None
        self.making: asyncio.Task[None] | None = None


class Feed:
    """One epoch of one controller; `end` it when another begins."""

    def __init__(
        self,
        image: ClusterImage,
        believed: Believed,
        clock: Clock,
        run_blocking: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._image = image
        self._believed = believed
        self._clock = clock
        self._run_blocking = run_blocking
        self._start = self._end = image.offset + 1
        self._batches: deque[_Batch] = deque()
        self._bytes = 0
        self._snapshot: _Snapshot | None = None
        self._news = asyncio.Event()
        self._ended = False

    def append(self, stored: Stored, image: ClusterImage) -> None:
        """The next decision; `image` is the state with it."""
        offset = stored.offset - len(stored.facts) + 1
        data = fact_batch(stored.facts, offset, self._clock.now_ms(), stored.epoch)
        self._batches.append(_Batch(stored.offset + 1, data))
        self._bytes += len(data)
        self._end = stored.offset + 1
        self._image = image
        while self._bytes > KEPT_BYTES and len(self._batches) > 1:
            oldest = self._batches.popleft()
            self._bytes -= len(oldest.data)
            self._start = oldest.next_offset
        self._wake()

    def end(self) -> None:
        """Another controller decides: whoever waits here is told."""
        self._ended = True
        self._wake()
        if self._snapshot is not None and self._snapshot.making is not None:
            self._snapshot.making.cancel()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def fetch(self, asked: Fetch) -> tuple[Fetched, bytes]:
        """What comes behind the asker's position, once there is something."""
        position = asked.log_end
        if position.epoch != self._believed.epoch or not self._start <= position.offset <= self._end:
            return Fetched(ErrorCode.NONE, self._believed, self._end, snapshot=self._current()), b""
        if position.offset == self._end:
            try:
                async with asyncio.timeout(min(asked.max_wait, LONGEST_WAIT)):
                    await self._news.wait()
            except TimeoutError:
                pass
        if self._ended:
            return Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._believed), b""
        if position.offset < self._start:
            return Fetched(ErrorCode.NONE, self._believed, self._end, snapshot=self._current()), b""
        parts: list[bytearray] = []
        size = 0
        for batch in self._batches:
            if batch.next_offset > position.offset:
                if parts and size + len(batch.data) > PORTION_BYTES:
                    break
                parts.append(batch.data)
                size += len(batch.data)
        return Fetched(ErrorCode.NONE, self._believed, self._end), b"".join(parts)

    def _current(self) -> LogPosition:
        """The newest snapshot that what is kept leads on from; those who fetch it at the same time share it."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.position.offset < self._start:
            position = LogPosition(self._end, self._believed.epoch)
            snapshot = self._snapshot = _Snapshot(self._image, position)
        return snapshot.position

    async def portion(self, asked: FetchSnapshot) -> FetchedSnapshot:
        """Some of a snapshot's bytes."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.position != asked.snapshot:
            return FetchedSnapshot(ErrorCode.SNAPSHOT_NOT_FOUND, self._believed, asked.snapshot, asked.position)
        if snapshot.data is None:
            if snapshot.making is None:
                snapshot.making = asyncio.create_task(self._make(snapshot))
            await asyncio.wait((snapshot.making,))
        if snapshot.data is None:
            return FetchedSnapshot(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._believed, asked.snapshot, asked.position)
        if not 0 <= asked.position <= len(snapshot.data):
            return FetchedSnapshot(ErrorCode.POSITION_OUT_OF_RANGE, self._believed, asked.snapshot, asked.position)
        data = snapshot.data[asked.position : asked.position + PORTION_BYTES]
        return FetchedSnapshot(ErrorCode.NONE, self._believed, asked.snapshot, asked.position, len(snapshot.data), data)

    async def _make(self, snapshot: _Snapshot) -> None:
        now, epoch = self._clock.now_ms(), snapshot.position.epoch
        made: list[bytes] = []

        def make() -> None:
            # The image never changes: a thread can take its time with it.
            made.append(b"".join(fact_batches(facts_of(snapshot.image), 0, now, epoch)))

        await self._run_blocking(make)
        snapshot.data = made[0]
