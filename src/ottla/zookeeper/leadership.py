"""One controller's time in office: its decisions on their way to ZooKeeper.

Owns: the order of writes, their fence, and what is told when they are stored. Never knows: how one is elected, who
follows. Invariants: every write checks that `/controller_epoch` is still this office's and that the write before it was
done (`/ottla/offset`), so of a row of decisions the first that is refused is the last that counts; decisions are told
in their order, each when all of it is stored; a write whose outcome is not known is sent again until it is, for a while
also when the office has ended; once one is refused nothing more is written.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage
from ottla.metadata.quorum_events import Stored
from ottla.zookeeper import layout
from ottla.zookeeper.ports import ConnectionState, Ensemble, EnsembleRefusal, Unreachable
from ottla.zookeeper.translation import Operation, TreeWriter, Write, portions

logger = logging.getLogger("ottla.zookeeper")

AGAIN_SECONDS = 0.05
SESSIONS_TO_SETTLE = 2
"""For how many times a session's length the outcome of a write is asked for after the office has ended."""
PORTION_BYTES = 400_000
"""What one request may hold; ZooKeeper refuses more than a megabyte (jute.maxbuffer)."""


class Term(NamedTuple):
    """What an office is fenced by: the epoch, and the versions of the two znodes that stand for it."""

    epoch: int
    epoch_version: int
    offset_version: int

    @property
    def fence(self) -> tuple[str, int]:
        """What every write checks: nobody was elected since."""
        return layout.CONTROLLER_EPOCH, self.epoch_version


class _PendingWrite:
    """A decision on its way."""

    __slots__ = ("image", "left", "stored")

    def __init__(self, stored: Stored, image: ClusterImage, left: int) -> None:
        self.stored = stored
        self.image = image
        self.left = left
        """How many portions are not stored yet."""


class Leadership:
    """One controller's decisions, from its election to its end. `failed` is called at most once, with a sentence."""

    def __init__(
        self,
        session: Ensemble,
        term: Term,
        image: ClusterImage,
        writer: TreeWriter,
        told: Callable[[Stored, ClusterImage], None],
        failed: Callable[[str], None],
    ) -> None:
        self._session = session
        self._term = term
        self.writer = writer
        self._told = told
        self._failed = failed
        self.latest = image
        """With everything that was decided, stored or not."""
        self._next_version = term.offset_version
        self._pending: deque[_PendingWrite] = deque()
        self._queue: deque[tuple[_PendingWrite, list[Operation]]] = deque()
        self._sending: set[asyncio.Task[None]] = set()
        self._refused = False
        self.ended = False
        self._gives_up = 0.0

    @property
    def epoch(self) -> int:
        return self._term.epoch

    @property
    def end_offset(self) -> int:
        return self.latest.offset + 1

    @property
    def idle(self) -> bool:
        """Whether everything that was decided is stored."""
        return not self._pending

    def append(self, facts: list[Fact]) -> int:
        """Take the facts of one decision; answers the offset of the last."""
        delta = ClusterDelta(self.latest)
        delta.replay_all(facts)
        offset = self.latest.offset + len(facts)
        image = delta.apply(offset, self.epoch)
        operations = self.writer.operations(facts, delta, image)
        parts = list(portions(operations, PORTION_BYTES)) if operations else []
        self.latest = image
        pending = _PendingWrite(Stored(facts, offset, self.epoch), image, len(parts))
        self._pending.append(pending)
        self._queue.extend((pending, part) for part in parts)
        self._send()
        self._tell()
        return offset

    def end(self) -> None:
        """Another decides from here on; what is on its way may come or not."""
        self.ended = True
        self._gives_up = asyncio.get_running_loop().time() + SESSIONS_TO_SETTLE * self._session.session_seconds
        self._queue.clear()
        self._pending.clear()

    def _send(self) -> None:
        while self._queue and len(self._sending) < self._session.in_flight and not self.ended:
            pending, operations = self._queue.popleft()
            mark = Write(layout.LAST_OFFSET, str(pending.stored.offset).encode(), self._next_version)
            self._next_version += 1
            # Tasks begin in the order they are made, and so do the requests.
            task = asyncio.get_running_loop().create_task(self._store(pending, mark, operations))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _store(self, pending: _PendingWrite, mark: Write, operations: list[Operation]) -> None:
        try:
            await self._write(mark, operations)
        except EnsembleRefusal as refusal:
            self._fail(f"a write of the controller of epoch {self.epoch} was refused: {refusal}")
            return
        if self.ended:
            return
        pending.left -= 1
        self._tell()
        asyncio.get_running_loop().call_soon(self._send)

    async def _write(self, mark: Write, operations: list[Operation]) -> None:
        """Until it is stored. Where the connection broke nobody knows whether it is: it is sent again, and the versions
        tell; when the office has ended meanwhile, the fence does. Raises Refused."""
        lost: Unreachable | None = None
        while True:
            if lost is not None:
                await self._reach_again(mark, lost)
            try:
                await self._session.commit([mark, *operations], [self._term.fence])
                return
            except Unreachable as problem:
                lost = problem
            except EnsembleRefusal as refusal:
                # In an office that is still this one, the mark was set by nobody else.
                if lost is None or refusal.path != mark.path:
                    raise
                if await self._is_set(mark):
                    return
                if self.ended:
                    # The write before it, which it waits for, may never come.
                    raise

    async def _reach_again(self, mark: Write, lost: Unreachable) -> None:
        """Until ZooKeeper may be reached again. Raises Refused when the office has ended too long ago."""
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            if self.ended and asyncio.get_running_loop().time() > self._gives_up:
                raise EnsembleRefusal(f"its office ended before ({lost})", mark.path)
            if self._session.state is ConnectionState.CONNECTED:
                return

    async def _is_set(self, mark: Write) -> bool:
        try:
            found = await self._session.get(mark.path)
        except Unreachable:
            return False
        return found is not None and found.stat.version > mark.version

    def _tell(self) -> None:
        while self._pending and self._pending[0].left == 0 and not self.ended:
            pending = self._pending.popleft()
            self._told(pending.stored, pending.image)

    def _fail(self, why: str) -> None:
        if not self._refused:
            # Those behind it are refused as well.
            self._refused = True
            logger.warning("%s", why)
        if not self.ended:
            self.end()
            self._failed(why)
