"""A disk that fails on demand: for tests of what a log survives.

Wraps another `Disk`. Every call of it and of its files is counted in `calls`; `fail_at` makes one of them fail, or all
from it on, with an error that such a call can give (`possible`); `fail_when` picks calls by name. It can also fill up
after so many bytes (a write that does not fit is taken in part, as a real disk does), fail all writes, syncs or
opening, and stop between two renames.

What the power takes along depends on the disk below. Over a `RealDisk`, `crash` cuts every file of a directory to what
was synced and as much more as the test chooses; names (creation, renaming, removal) and truncation are durable at once.
Over a `SimDisk` (`in_memory`), `cut_power` also loses names whose directory was not synced and undoes truncation,
`kill` ends the process only, and a sync that failed is believed the next time although its bytes are lost, as on Linux.
"""

import errno
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ottla.base.ports import ByteView, Disk, File
from ottla.sim.disk import SimDisk, SimFile

Cut = Callable[[str, int, int], int]
"""Path, synced size, present size → the size that a crash leaves."""

ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO)
"""What the fault stories make calls fail with."""

_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_ERRORS: dict[str, frozenset[int]] = {
    "open": _DESCRIPTORS,
    "create": _DESCRIPTORS | _ROOM,
    "map": _DESCRIPTORS,
    "list": _DESCRIPTORS,
    "sync_directory": _DESCRIPTORS | _ROOM,
    "append": _ROOM,
    "truncate": _ROOM,
    "sync": _ROOM,
    "make_directory": _ROOM,
    "rename": _ROOM,
    "remove": _ROOM,
    "read_at": frozenset(),
    "size": frozenset(),
    "exists": frozenset(),
    "modified_ms": frozenset(),
}


class Call(NamedTuple):
    """One call of the disk or of a file; opening a file that may have to be made is `create`."""

    operation: str
    path: str


def possible(call: Call, number: int) -> bool:
    """Whether a file system gives this error for such a call: every call can meet a broken disk, some a full one."""
    return number == errno.EIO or number in _ERRORS[call.operation]


def lose_unsynced(_path: str, synced: int, _size: int) -> int:
    return synced


class PowerCut(Exception):
    """The machine stopped between two renames."""


class LosesAll(Random):
    """The worst draw of a power cut: nothing that was not synced is kept, no truncation that was not synced either."""

    def random(self) -> float:
        return 0.0

    def randint(self, a: int, b: int) -> int:
        return a

    def choice(self, seq):  # type: ignore[no-untyped-def]
        return seq[0]


class FaultyFile:
    """One open file of a `FaultyDisk`."""

    def __init__(self, disk: "FaultyDisk", inner: File, path: str) -> None:
        self._disk = disk
        self._inner = inner
        self.path = path

    def size(self) -> int:
        self._disk.call("size", self.path)
        return self._inner.size()

    def append(self, *parts: ByteView) -> None:
        data = b"".join(parts)
        try:
            self._disk.call("append", self.path)
        except OSError:
            self._inner.append(data[: len(data) // 2])
            raise
        taken = self._disk.take(self.path, len(data))
        if taken:
            self._inner.append(data[:taken])
        if taken < len(data):
            raise self._disk.write_error(self.path)

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.call("read_at", self.path)
        return self._inner.read_at(position, length)

    def truncate(self, size: int) -> None:
        self._disk.call("truncate", self.path)
        if self._disk.truncate_errno:
            raise OSError(self._disk.truncate_errno, "truncate failed", self.path)
        freed = max(self._inner.size() - size, 0)
        self._inner.truncate(size)
        self._disk.truncated(self._inner.path, size, freed)

    def sync(self) -> None:
        try:
            self._disk.call("sync", self.path)
            if self._disk.sync_errno:
                raise OSError(self._disk.sync_errno, "sync failed", self.path)
        except OSError:
            if isinstance(self._inner, SimFile):
                self._inner.fail_sync()
            raise
        self._inner.sync()
        self._disk.synced[self._inner.path] = self._inner.size()

    def map(self) -> memoryview:
        self._disk.call("map", self.path)
        return memoryview(self._inner.read_at(0, self._inner.size()))

    def fileno(self) -> int:
        return self._inner.fileno()

    def close(self) -> None:
        self._inner.close()


class FaultyDisk:
    """See the module. `calls` are those so far, `writes` counts the appends among them."""

    def __init__(self, inner: Disk) -> None:
        self.inner = inner
        self.calls: list[Call] = []
        self.failed = 0
        """How many calls `fail_at` made fail."""
        self._fail_at: int | None = None
        self._fail_number = 0
        self._for_good = False
        self.fail_when: Callable[[str, str], int] | None = None
        """Operation and path → the error that every such call fails with, or 0."""
        self.synced: dict[str, int] = {}
        self.writes = 0
        self.room: int | None = None
        self.fail_writes_from: int | None = None
        self.fail_errno = errno.EIO
        self.sync_errno = 0
        self.truncate_errno = 0
        self.open_errno = 0
        self.renames_left: int | None = None

    # What the files ask

    def call(self, operation: str, path: str) -> None:
        """Count a call; raises what it is to fail with."""
        call = Call(operation, path)
        self.calls.append(call)
        number = self.fail_when(operation, path) if self.fail_when is not None else 0
        if number:
            raise OSError(number, f"{operation} failed", path)
        if self._fail_at is None or len(self.calls) < self._fail_at:
            return
        if not possible(call, self._fail_number):
            if not self._for_good:
                self._fail_at = None
            return
        if not self._for_good:
            self._fail_at = None
        self.failed += 1
        raise OSError(self._fail_number, f"{operation} failed", path)

    def take(self, _path: str, size: int) -> int:
        """How many bytes of a write of `size` get through."""
        self.writes += 1
        if self.fail_writes_from is not None and self.writes >= self.fail_writes_from:
            return size // 2
        if self.room is None:
            return size
        taken = min(size, self.room)
        self.room -= taken
        return taken

    def write_error(self, path: str) -> OSError:
        full = self.room is not None and self.fail_writes_from is None
        return OSError(errno.ENOSPC if full else self.fail_errno, "write failed", path)

    def truncated(self, path: str, size: int, freed: int) -> None:
        self.synced[path] = min(self.synced.get(path, 0), size)
        if self.room is not None:
            self.room += freed

    # What tests ask

    def fail_at(self, call: int, number: int, *, for_good: bool = False) -> None:
        """Let the call of this number (the first one is 1) fail; for good: and each later one that can fail so."""
        self._fail_at = call
        self._fail_number = number
        self._for_good = for_good

    def heal(self) -> None:
        self.room = self.fail_writes_from = self.renames_left = self._fail_at = self.fail_when = None
        self.sync_errno = self.truncate_errno = self.open_errno = 0

    def kill(self) -> None:
        """The process is gone; what it wrote is in the system's hands. Over a `SimDisk` only."""
        assert isinstance(self.inner, SimDisk)
        self.heal()
        self.inner.kill()

    def cut_power(self, chance: Random | None = None) -> None:
        """The machine is gone, and with it what was not synced; without a chance, all of it. Over a `SimDisk` only."""
        assert isinstance(self.inner, SimDisk)
        self.heal()
        self.inner.random = chance or LosesAll()
        self.inner.cut_power()

    def crash(self, directory: str, cut: Cut = lose_unsynced) -> None:
        """Cut every file in a directory to what the crash leaves; the files that are open are not to be used again."""
        self.heal()
        for name in self.inner.list(directory):
            path = f"{directory}/{name}"
            file = self.inner.open(path)
            size = file.size()
            synced = min(self.synced.get(path, 0), size)
            left = cut(path, synced, size)
            assert synced <= left <= size
            file.truncate(left)
            file.close()
            self.synced[path] = left

    # Disk

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        self.call("create" if create else "open", path)
        if self.open_errno:
            raise OSError(self.open_errno, "open failed", path)
        return FaultyFile(self, self.inner.open(path, create=create, read_only=read_only), path)

    def list(self, directory: str) -> list[str]:
        self.call("list", directory)
        return self.inner.list(directory)

    def make_directory(self, path: str) -> None:
        self.call("make_directory", path)
        self.inner.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.call("rename", old)
        if self.renames_left is not None:
            if self.renames_left == 0:
                raise PowerCut
            self.renames_left -= 1
        self.inner.rename(old, new)
        self.synced[new] = self.synced.pop(old, 0)

    def remove(self, path: str) -> None:
        self.call("remove", path)
        self.inner.remove(path)
        self.synced.pop(path, None)

    def sync_directory(self, path: str) -> None:
        self.call("sync_directory", path)
        self.inner.sync_directory(path)

    def exists(self, path: str) -> bool:
        self.call("exists", path)
        return self.inner.exists(path)

    def modified_ms(self, path: str) -> int:
        self.call("modified_ms", path)
        return self.inner.modified_ms(path)


def in_memory(now_ms: Callable[[], int]) -> FaultyDisk:
    """A disk that can be killed and lose its power."""
    return FaultyDisk(SimDisk(LosesAll(), now_ms))
