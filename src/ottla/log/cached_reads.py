"""Reads that never wait for the disk.

Owns: asking the system for what is in its page cache and nothing else, and what to do when it is not there. Never
knows: what is looked up. Invariant: where the system cannot tell, or there is no descriptor, a read is an ordinary one.
"""

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ottla.base.ports import ByteView, File

Reader: TypeAlias = Callable[[int, int], ByteView]
"""Position and length → the bytes, fewer only at the end of the file; raises OSError."""

_UNTELLABLE = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class NotCached(Exception):
    """A read would have waited for the disk."""


class ColdLookUp(Exception):
    """A look-up would have waited for the disk.

    `warm` makes it in any thread (it blocks, and fails quietly), which brings all that it needs into memory; then the
    look-up is to be made again, without asking for cached reads.
    """

    def __init__(self, warm: Callable[[], None]) -> None:
        super().__init__("a look-up needs pages that are not in memory")
        self.warm = warm


class CachedReads:
    """Tells whether reading would wait for the disk, where the system can tell."""

    def __init__(self) -> None:
        self.known = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
        self._byte = bytearray(1)

    def holds(self, descriptor: int, position: int) -> bool:
        if not self.known:
            return True
        try:
            os.preadv(descriptor, [self._byte], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as problem:
            self._cannot_tell(problem)
        return True

    def reader(self, file: File) -> Reader:
        """Reads of a file that raise NotCached where they would wait."""
        descriptor = file.fileno()
        if not self.known or descriptor < 0:
            return file.read_at
        return partial(self._read, file, descriptor)

    def _read(self, file: File, descriptor: int, position: int, length: int) -> ByteView:
        data = bytearray(length)
        try:
            count = os.preadv(descriptor, [data], position, os.RWF_NOWAIT)
            if count != length and os.preadv(descriptor, [self._byte], position + count, os.RWF_NOWAIT):
                # More is there, but only now: what lies between was not.
                raise NotCached
        except BlockingIOError:
            raise NotCached from None
        except OSError as problem:
            self._cannot_tell(problem)
            return file.read_at(position, length)
        return data if count == length else data[:count]

    def _cannot_tell(self, problem: OSError) -> None:
        if problem.errno not in _UNTELLABLE:
            raise problem
        self.known = False
