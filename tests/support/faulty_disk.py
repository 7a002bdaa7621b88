"""A disk that fails on demand: for tests of what a log survives.

Wraps another `Disk`. It can fail writes from the nth on, fill up after so many bytes (taking a part of the write that
does not fit, as a real disk does), fail syncs and opening, stop between two renames, and crash: then every file keeps
what was synced, and of what came later only as much as the test chooses. Names (creation, renaming, removal) and
truncation are durable at once.
"""

import errno
from collections.abc import Callable

from ottla.base.ports import ByteView, Disk, File

Cut = Callable[[str, int, int], int]
"""Path, synced size, present size → the size that a crash leaves."""


def lose_unsynced(_path: str, synced: int, _size: int) -> int:
    return synced


def lose_nothing(_path: str, _synced: int, size: int) -> int:
    return size


class PowerCut(Exception):
    """The machine stopped between two renames."""


class FaultyFile:
    """One open file of a `FaultyDisk`."""

    def __init__(self, disk: "FaultyDisk", inner: File, path: str) -> None:
        self._disk = disk
        self._inner = inner
        self.path = path

    def size(self) -> int:
        return self._inner.size()

    def append(self, *parts: ByteView) -> None:
        data = b"".join(parts)
        taken = self._disk.take(self.path, len(data))
        if taken:
            self._inner.append(data[:taken])
        if taken < len(data):
            raise self._disk.write_error(self.path)

    def read_at(self, position: int, length: int) -> bytes:
        return self._inner.read_at(position, length)

    def truncate(self, size: int) -> None:
        if self._disk.truncate_errno:
            raise OSError(self._disk.truncate_errno, "truncate failed", self.path)
        freed = max(self._inner.size() - size, 0)
        self._inner.truncate(size)
        self._disk.truncated(self._inner.path, size, freed)

    def sync(self) -> None:
        if self._disk.sync_errno:
            raise OSError(self._disk.sync_errno, "sync failed", self.path)
        self._disk.synced[self._inner.path] = self._inner.size()

    def map(self) -> memoryview:
        return memoryview(self._inner.read_at(0, self._inner.size()))

    def fileno(self) -> int:
        return self._inner.fileno()

    def close(self) -> None:
        self._inner.close()


class FaultyDisk:
    """See the module. `writes` counts the appends so far, of all files."""

    def __init__(self, inner: Disk) -> None:
        self._inner = inner
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

    def heal(self) -> None:
        self.room = self.fail_writes_from = self.renames_left = None
        self.sync_errno = self.truncate_errno = self.open_errno = 0

    def crash(self, directory: str, cut: Cut = lose_unsynced) -> None:
        """Cut every file in a directory to what the crash leaves; the files that are open are not to be used again."""
        self.heal()
        for name in self._inner.list(directory):
            path = f"{directory}/{name}"
            file = self._inner.open(path)
            size = file.size()
            synced = min(self.synced.get(path, 0), size)
            left = cut(path, synced, size)
            assert synced <= left <= size
            file.truncate(left)
            file.close()
            self.synced[path] = left

    # Disk

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        if self.open_errno:
            raise OSError(self.open_errno, "open failed", path)
        return FaultyFile(self, self._inner.open(path, create=create, read_only=read_only), path)

    def list(self, directory: str) -> list[str]:
        return self._inner.list(directory)

    def make_directory(self, path: str) -> None:
        self._inner.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        if self.renames_left is not None:
            if self.renames_left == 0:
                raise PowerCut
            self.renames_left -= 1
        self._inner.rename(old, new)
        self.synced[new] = self.synced.pop(old, 0)

    def remove(self, path: str) -> None:
        self._inner.remove(path)
        self.synced.pop(path, None)

    def sync_directory(self, path: str) -> None:
        self._inner.sync_directory(path)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def modified_ms(self, path: str) -> int:
        return self._inner.modified_ms(path)
