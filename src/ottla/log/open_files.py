"""Which log files are open.

Owns: how many descriptors the segments of a node hold together. Never knows: what is in a file, or who sends from it.
An open file is a cache entry of its segment, not a right: beyond the bound those that were opened first, and have not
grown since they were last looked at, let theirs go and open it again when it is needed.
Invariants: letting go takes the segment's reference only, so a range that is being sent, or a flush, keeps its own
descriptor until it is done with it, and no number is used that means another file by then; what a descriptor has
written is synced by any later one of the same file. Any thread may come here; nobody waits for the disk here.
"""

import errno
import logging
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from ottla.base.ports import Disk, File

logger = logging.getLogger("ottla.log")

LOOKS = 64
"""So many files that grew are spared in a row before one goes all the same."""
QUIET_SECONDS = 600.0
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


class FileHolder(Protocol):
    """Who has a file open."""

    size: int

    def let_go(self) -> File | None:
        """Give up the open file, which is the answer."""
        ...


# A segment has a path by right and a descriptor by favour: design/0021.
class OpenFiles:
    """The open log files of one node. `most` of 0 is no bound: nothing is kept count of."""

    def __init__(self, most: int = 0, now: Callable[[], float] | None = None) -> None:
        self.most = most
        self.reclaimed = 0
        """How many were closed to make room so far."""
        self._now = now
        self._told_at: float | None = None
        self._lock = Lock()
        self._held: dict[FileHolder, int] = {}  # in the order of opening, with the size at the last look

    def __len__(self) -> int:
        return len(self._held)

    def open(self, disk: Disk, path: str, *, create: bool) -> File:
        """Open a segment's file, if need be in the place of others; raises OSError."""
        try:
            return disk.open(path, create=create)
        except OSError as error:
            # The bound holds only as long as nobody else takes more than was planned.
            if error.errno not in _NO_DESCRIPTORS or not self.shed():
                raise
        return disk.open(path, create=create)

    def took(self, holder: FileHolder) -> None:
        """A segment keeps a file that it opened; others let theirs go when there are too many."""
        if self.most:
            if len(self._held) >= self.most:
                self._reclaim(len(self._held) + 1 - self.most)
            with self._lock:
                self._held[holder] = holder.size

    def left(self, holder: FileHolder) -> None:
        """A segment has let its file go by itself."""
        if self.most:
            with self._lock:
                self._held.pop(holder, None)

    def shed(self) -> bool:
        """Close an eighth of what is open; answers whether there was anything."""
        count = (len(self._held) + 7) // 8
        self._reclaim(count)
        return count > 0

    def _reclaim(self, count: int) -> None:
        going = []
        with self._lock:
            held = self._held
            looks = LOOKS
            while count > 0 and held:
                holder, seen = next(iter(held.items()))
                del held[holder]
                if holder.size != seen and looks > 0:
                    held[holder] = holder.size
                    looks -= 1
                    continue
                going.append(holder.let_go())
                count -= 1
                looks = LOOKS
        self.reclaimed += len(going)
        self._tell()
        # The descriptors are closed here, when the last reference goes, and not while others wait for the lock.

    def _tell(self) -> None:
        now = self._now() if self._now is not None else 0.0
        if self._told_at is not None and now - self._told_at < QUIET_SECONDS:
            return
        self._told_at = now
        logger.warning(
            "more log files are in use than the %d that the limit of open files leaves for them: they are closed and "
            "opened again by turns, which costs time. Raise the limit (ulimit -n, LimitNOFILE= of a service), or have "
            "fewer partitions on this node",
            self.most,
        )


UNBOUNDED = OpenFiles()
