"""A disk in memory that forgets what was not synced when the power goes.

Owns: files, directories, and which of their changes would survive. Never knows: what the bytes mean. Invariants: what
was synced survives every crash; of what was written since, a power cut keeps a prefix of each file (its end torn at
any byte) and of each directory's changes; a truncation that was not synced happened or did not. As on journalling file
systems, syncing a file also keeps the names that lead to it. As on Linux, a sync that failed says so once: what it was
to write counts as written from then on and is nowhere but in memory. A killed process loses nothing that it wrote, and
can do nothing more: its open files are dead.
"""

import errno
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from ottla.base.ports import ByteView

NO_FAULT = 0
Fault: TypeAlias = Callable[[str, str], int]
"""Operation (open, append, sync, truncate, rename) and path → the error it fails with, or 0."""


class _Content:
    """The bytes of one file. `floor` of them are safe, unless the last truncation is undone to `before`, and but for
    the ranges in `lost`."""

    __slots__ = ("before", "data", "floor", "lost", "modified_ms")

    def __init__(self) -> None:
        self.data = bytearray()
        self.floor = 0
        self.before: tuple[bytes, int, list[tuple[int, int]]] | None = None
        self.lost: list[tuple[int, int]] = []
        self.modified_ms = 0

    def sync(self) -> None:
        self.floor = len(self.data)
        self.before = None

    def fail_sync(self) -> None:
        """A sync failed: nobody will try to write these bytes again."""
        if self.floor < len(self.data):
            self.lost = [*self.lost, (self.floor, len(self.data))]
            self.floor = len(self.data)

    def truncate(self, size: int) -> None:
        if size < self.floor and self.before is None:
            self.before = (bytes(self.data), self.floor, self.lost)
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))
        self.floor = min(self.floor, size)
        self.lost = [(start, min(end, size)) for start, end in self.lost if start < size]

    def cut_power(self, random: Random) -> None:
        if self.before is not None and random.random() < 0.5:
            # What was written since is not there either, nor are the holes in it.
            data, self.floor, self.lost = self.before
            self.data = bytearray(data)
        for start, end in self.lost:
            self.data[start:end] = bytes(end - start)
        self.lost = []
        size = len(self.data)
        if size > self.floor:
            chance = random.random()
            if chance < 0.4:
                size = self.floor
            elif chance < 0.8:
                size = random.randint(self.floor, size)
            del self.data[size:]
        self.sync()


class _Directory:
    """Names. `changes` are those since the last sync, oldest first, over `safe`."""

    __slots__ = ("changes", "entries", "safe")

    def __init__(self) -> None:
        self.entries: dict[str, _Content | _Directory] = {}
        self.safe: dict[str, _Content | _Directory] = {}
        self.changes: list[dict[str, _Content | _Directory | None]] = []

    def change(self, names: "dict[str, _Content | _Directory | None]") -> None:
        self.changes.append(names)
        _apply(self.entries, names)

    def sync(self) -> None:
        self.safe = dict(self.entries)
        self.changes.clear()

    def sync_name(self, name: str) -> None:
        """Make everything durable up to the last change of this name."""
        last = max((place for place, names in enumerate(self.changes) if name in names), default=-1)
        for names in self.changes[: last + 1]:
            _apply(self.safe, names)
        del self.changes[: last + 1]

    def cut_power(self, random: Random) -> None:
        if self.changes:
            kept = random.choice((0, len(self.changes), random.randint(0, len(self.changes))))
            for names in self.changes[:kept]:
                _apply(self.safe, names)
        self.entries = dict(self.safe)
        self.changes.clear()
        for entry in self.entries.values():
            entry.cut_power(random)


def _apply(entries: dict[str, _Content | _Directory], names: dict[str, _Content | _Directory | None]) -> None:
    for name, entry in names.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry


class SimFile:
    """One open file."""

    __slots__ = ("_content", "_disk", "_life", "_names", "_read_only", "path")

    def __init__(self, disk: "SimDisk", content: _Content, path: str, read_only: bool) -> None:
        self._disk = disk
        self._content = content
        self._life = disk.life
        self._read_only = read_only
        self.path = path

    def _check(self, operation: str) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EBADF, "the process that opened it is gone", self.path)
        self._disk.check(operation, self.path)

    def size(self) -> int:
        return len(self._content.data)

    def append(self, *parts: ByteView) -> None:
        if self._read_only:
            raise OSError(errno.EBADF, "opened for reading", self.path)
        data = b"".join(parts)
        try:
            self._check("append")
        except OSError as problem:
            if problem.errno == errno.ENOSPC:
                self._content.data += data[: self._disk.random.randint(0, len(data))]
            raise
        self._content.data += data
        self._content.modified_ms = self._disk.now_ms()

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(self._content.data[position : position + length])

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._content.truncate(size)
        self._content.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        try:
            self._check("sync")
        except OSError:
            self.fail_sync()
            raise
        self._content.sync()
        self._disk.sync_names(self.path, self._content)

    def fail_sync(self) -> None:
        """Leave the file as a sync does that fails: once told, what was not written counts as written."""
        self._content.fail_sync()

    def map(self) -> memoryview:
        return memoryview(bytes(self._content.data))

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        """Nothing is held."""


class SimDisk:
    """The file system of one machine; it outlives the processes on it."""

    def __init__(self, random: Random, now_ms: Callable[[], int]) -> None:
        self.random = random
        self.now_ms = now_ms
        self.life = 0
        """Which process uses it; files opened by an earlier one are dead."""
        self.fault: Fault | None = None
        self._root = _Directory()

    # --- what happens to the machine ---

    def kill(self) -> None:
        """The process is gone; what it wrote is in the system's hands, and safe there."""
        self.life += 1

    def cut_power(self) -> None:
        """The machine is gone, and with it what was not synced."""
        self.life += 1
        self._root.cut_power(self.random)

    def lose(self, path: str) -> None:
        """A file or folder is gone for good, as if somebody had removed it from another system."""
        directory, name = self._place(path)
        directory.entries.pop(name, None)
        directory.safe.pop(name, None)
        directory.changes = [names for names in directory.changes if name not in names]

    def damage(self, path: str, position: int) -> None:
        """One byte of a file is not what was written."""
        content = self._find(path)
        assert isinstance(content, _Content), path
        content.data[position] ^= 0xFF

    def check(self, operation: str, path: str) -> None:
        number = self.fault(operation, path) if self.fault is not None else NO_FAULT
        if number != NO_FAULT:
            raise OSError(number, errno.errorcode[number], path)

    def sync_names(self, path: str, content: _Content) -> None:
        """The names on the way to a file are durable, unless it was renamed or removed since it was opened."""
        parts = _parts(path)
        directory = self._root
        for part in parts[:-1]:
            entry = directory.entries.get(part)
            if not isinstance(entry, _Directory):
                return
            directory.sync_name(part)
            directory = entry
        if parts and directory.entries.get(parts[-1]) is content:
            directory.sync_name(parts[-1])

    # --- the port ---

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimFile:
        self.check("open", path)
        directory, name = self._place(path)
        content = directory.entries.get(name)
        if content is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            content = _Content()
            content.modified_ms = self.now_ms()
            directory.change({name: content})
        if isinstance(content, _Directory):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return SimFile(self, content, path, read_only)

    def list(self, directory: str) -> list[str]:
        found = self._find(directory)
        if not isinstance(found, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return sorted(found.entries)

    def make_directory(self, path: str) -> None:
        self.check("open", path)
        directory = self._root
        for part in _parts(path):
            entry = directory.entries.get(part)
            if entry is None:
                entry = _Directory()
                directory.change({part: entry})
            if not isinstance(entry, _Directory):
                raise FileExistsError(errno.EEXIST, "a file", path)
            directory = entry

    def rename(self, old: str, new: str) -> None:
        self.check("rename", old)
        before, old_name = self._place(old)
        after, new_name = self._place(new)
        entry = before.entries.get(old_name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        assert before is after, "product code renames within a directory"
        before.change({old_name: None, new_name: entry})

    def remove(self, path: str) -> None:
        try:
            directory, name = self._place(path)
        except FileNotFoundError:
            return
        if name in directory.entries:
            directory.change({name: None})

    def sync_directory(self, path: str) -> None:
        self.check("sync", path)
        parts = _parts(path)
        directory = self._root
        for part in parts:
            entry = directory.entries.get(part)
            if not isinstance(entry, _Directory):
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            directory.sync_name(part)
            directory = entry
        directory.sync()

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def modified_ms(self, path: str) -> int:
        found = self._find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return found.modified_ms if isinstance(found, _Content) else 0

    def _find(self, path: str) -> _Content | _Directory | None:
        entry: _Content | _Directory | None = self._root
        for part in _parts(path):
            if not isinstance(entry, _Directory):
                return None
            entry = entry.entries.get(part)
        return entry

    def _place(self, path: str) -> tuple[_Directory, str]:
        parts = _parts(path)
        directory = self._find("/".join(parts[:-1]))
        if not isinstance(directory, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return directory, parts[-1]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
