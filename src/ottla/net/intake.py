"""The memory into which requests are received.

Owns: one small buffer that all connections of a loop share, and the larger buffers for frames that do not fit it.
Never knows: sockets, what a frame means. Invariants: a frame is handled before the next read, unless it is kept while
it is worked on, so idle connections hold no buffer; the bytes of unfinished and of kept frames stay within a limit, as
far as the unfinished ones can make room; nothing is given back to the system, or used again, that somebody still looks
at, and of the rest a part at a time.
"""

import mmap
from asyncio import AbstractEventLoop
from collections import deque
from sys import getrefcount
from typing import Protocol, TypeAlias

Buffer: TypeAlias = mmap.mmap

SHARED_SIZE = 128 * 1024
_KEPT = 4
_KEPT_SIZE = 4 * 1024 * 1024
FREED_AT_ONCE = 4 * 1024 * 1024
"""Bytes that are given back to the system in one turn of the loop: about a millisecond."""
_FREE = getattr(mmap, "MADV_DONTNEED", None)
_UNSEEN = 3
"""References to a buffer that nobody looks at: the queue, a name and the question itself."""


class FrameHolder(Protocol):
    """Something that holds bytes of an unfinished frame."""

    def drop(self, reason: str) -> None: ...


class Intake:
    """Buffers for everything that arrives on one loop."""

    def __init__(self, limit: int, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self.shared = memoryview(bytearray(SHARED_SIZE))
        self._limit = limit
        self._used = 0
        self._kept: list[Buffer] = []
        self._holders: dict[FrameHolder, int] = {}
        self._keepers: dict[FrameHolder, tuple[Buffer, int]] = {}
        self._leaving: deque[Buffer] = deque()
        self._freed = 0
        """Bytes of the first that leaves."""

    @property
    def used(self) -> int:
        return self._used

    def take(self, size: int) -> Buffer:
        """A buffer of at least `size` bytes.

        The memory behind a new one is only used as bytes arrive, which a bytearray's, filled with zeros, would not be:
        a client could claim a hundred megabytes with four bytes.
        """
        for position, buffer in enumerate(self._kept):
            if len(buffer) >= size:
                return self._kept.pop(position)
        return mmap.mmap(-1, max(size, 1024 * 1024))

    def give_back(self, buffer: Buffer) -> None:
        """It is not needed any more, from the next turn of the loop on."""
        self._leaving.append(buffer)
        if len(self._leaving) == 1:
            self._loop.call_soon(self._free_some)

    def _free_some(self) -> None:
        """Take leave of a part of a large buffer: the kernel takes a quarter of a millisecond for a megabyte."""
        buffer = self._leaving[0]
        size = len(buffer)
        over = True
        if getrefcount(buffer) == _UNSEEN:
            if size <= _KEPT_SIZE and len(self._kept) < _KEPT:
                self._kept.append(buffer)
            elif _FREE is not None:
                buffer.madvise(_FREE, self._freed, min(FREED_AT_ONCE, size - self._freed))
                self._freed += FREED_AT_ONCE
                over = self._freed >= size
        if over:
            self._freed = 0
            self._leaving.popleft()
        if self._leaving:
            self._loop.call_soon(self._free_some)

    def hold(self, holder: FrameHolder, size: int) -> None:
        """Note that `holder` now holds `size` bytes of an unfinished frame; the most recent holder is last."""
        self._used += size - self._holders.pop(holder, 0)
        self._holders[holder] = size
        while self._used > self._limit and len(self._holders) > 1:
            # The connection that has waited longest for the rest of its frame makes room.
            stalest = next(iter(self._holders))
            stalest.drop("its unfinished request held memory that others need")

    def release(self, holder: FrameHolder) -> None:
        self._used -= self._holders.pop(holder, 0)

    def keep(self, holder: FrameHolder, buffer: Buffer, size: int) -> None:
        """Note that `holder` keeps a whole frame of `size` bytes while it is worked on."""
        self.let_go(holder)
        self._used += size
        self._keepers[holder] = (buffer, size)

    def let_go(self, holder: FrameHolder) -> None:
        kept = self._keepers.pop(holder, None)
        if kept is not None:
            self._used -= kept[1]
            self.give_back(kept[0])
