"""The sparse indexes of one segment: by offset, by timestamp, and of aborted transactions.

Owns: the bytes of `.index`, `.timeindex` and `.txnindex` files and the look-ups in them. Never knows: batches.
Invariants: keys grow strictly within a file; a file holds whole entries only (no preallocation). Entries not yet
written sit in a small tail that is spilled to the file when it grows, on flush and on seal, so an append pays no
system call for them; after a crash the indexes of unflushed segments are rebuilt from the batches anyway. Files are
open only while they are written or read, and of what is written windows are kept in memory where look-ups were, as
many as there is room for in all indexes together: an index costs no descriptor, and no more memory than that.
Entries are dropped by removing the file, and what is kept is written into a new one: a file that was shortened may stay
so when a power cut brings back the batches, and then it is taken for whole. Names come and go in their order.
"""

import errno
import math
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, TypeAlias

from ottla.base.ports import ByteView, Disk, File
from ottla.log.cached_reads import CachedReads, Reader
from ottla.log.files import StorageFailure

TAIL_ENTRIES = 128
"""How many entries wait in memory before they are written."""
_AT_ONCE = 128
"""How many aborted transactions are read at a time."""
WINDOW_BYTES = 16384
"""A piece of a file that is kept in memory: the offsets of some 8 MB of log."""
MOST_WINDOWS = 2048
"""So many of all indexes together (32 MB); those that were read first go first."""
Window: TypeAlias = tuple[int, ByteView]
"""Entries of a file from a slot on."""
_NOTHING: Window = (0, b"")
_read_windows: "deque[tuple[dict[int, ByteView], int]]" = deque()
"""Those in memory, in the order in which they were read, each with the windows of its index and its number there. Any
thread may add to it; the operations on it are single ones."""
_TWO_POSITIONS = struct.Struct(">4xi4xi")


@contextmanager
def _opened(disk: Disk, path: str, *, read_only: bool = False) -> Iterator[File]:
    """The file for a moment; what fails there is a StorageFailure."""
    try:
        file = disk.open(path, create=not read_only, read_only=read_only)
        try:
            yield file
        finally:
            file.close()
    except OSError as error:
        raise StorageFailure.of(path, error) from error


def _remove(disk: Disk, path: str) -> None:
    try:
        disk.remove(path)
    except OSError as error:
        raise StorageFailure.of(path, error) from error


def _append_at(file: File, size: int, data: ByteView) -> None:
    """Append behind `size` bytes, and leave no piece behind when that fails."""
    if file.size() != size:
        file.truncate(size)
    try:
        file.append(data)
    except OSError:
        file.truncate(size)
        raise


def _exactly(read: Reader, position: int, length: int) -> ByteView:
    """Bytes that were written once, and must be there."""
    data = read(position, length)
    if len(data) != length:
        raise OSError(errno.EIO, "the index is shorter than it was")
    return data


def _reader(file: File, cached: CachedReads | None) -> Reader:
    return file.read_at if cached is None else cached.reader(file)


class SparseIndex:
    """A file of equal entries of two growing numbers, looked up by bisection of the file and of the unwritten tail."""

    __slots__ = (
        "_disk",
        "_firsts",
        "_per_window",
        "_tail",
        "_tail_bytes",
        "_window",
        "_windows",
        "_written",
        "base_offset",
        "entries",
        "path",
    )

    ENTRY: ClassVar[struct.Struct]
    FIELDS: ClassVar[tuple[struct.Struct, struct.Struct]]
    """Its numbers, one by one."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._per_window = WINDOW_BYTES // self.ENTRY.size
        self.close()
        self._tail = bytearray()
        self._tail_bytes: float = TAIL_ENTRIES * self.ENTRY.size
        self._written = 0
        self.entries = 0

    def load(self) -> None:
        """Learn how many entries the file holds, without keeping it open. A torn last entry is not counted."""
        size = 0
        if self._disk.exists(self.path):
            file = self._disk.open(self.path, read_only=True)
            try:
                size = file.size()
            finally:
                file.close()
        self._written = self.entries = size // self.ENTRY.size

    def _add(self, entry: bytes) -> None:
        self._tail += entry
        self.entries += 1
        if len(self._tail) >= self._tail_bytes:
            self._spill_where_there_is_room()

    def _spill_where_there_is_room(self) -> None:
        """A full disk must not fail an append that is already written, or a cut: the tail waits for room."""
        try:
            self.spill()
        except StorageFailure as failure:
            if not failure.out_of_space:
                raise

    def spill(self, *, create: bool = False) -> None:
        """Write the tail to the file; `create` makes the file even when there is nothing to write."""
        if not self._tail and not create:
            return
        with _opened(self._disk, self.path) as file:
            if self._tail:
                _append_at(file, self._written * self.ENTRY.size, self._tail)
        self._written = self.entries
        self._tail = bytearray()
        self._tail_bytes = TAIL_ENTRIES * self.ENTRY.size

    def entry(self, slot: int, cached: CachedReads | None = None) -> tuple[int, int]:
        """The numbers of one entry as they stand in the file."""
        size = self.ENTRY.size
        written = self._written
        if slot >= written:
            return self.ENTRY.unpack_from(self._tail, (slot - written) * size)
        first, view = self._window
        if not first <= slot < first + len(view) // size:
            first, view = self._window_at(slot // self._per_window, cached)
        return self.ENTRY.unpack_from(view, (slot - first) * size)

    def _window_at(self, number: int, cached: CachedReads | None) -> Window:
        """One of the windows that the file is divided into, read when it is not in memory (or has grown since)."""
        per = self._per_window
        first = number * per
        count = min(self._written - first, per)
        windows = self._windows
        view = windows.get(number, b"")
        if len(view) < count * self.ENTRY.size:
            view = self._read(first, count * self.ENTRY.size, cached)
            if number not in windows:
                _read_windows.append((windows, number))
                if len(_read_windows) > MOST_WINDOWS:
                    others, oldest = _read_windows.popleft()
                    others.pop(oldest, None)
            windows[number] = view
        self._window = window = (first, view)
        return window

    def _read_first(self, number: int, cached: CachedReads | None) -> tuple[int, int]:
        """The entry that a window begins with: it stays the same, and there are few."""
        read = self._read(number * self._per_window, self.ENTRY.size, cached)
        entry = self._firsts[number] = self.ENTRY.unpack(read)
        return entry

    def _read(self, slot: int, length: int, cached: CachedReads | None) -> ByteView:
        with _opened(self._disk, self.path, read_only=True) as file:
            return _exactly(_reader(file, cached), slot * self.ENTRY.size, length)

    def _slot(self, key: int, field: int = 0, cached: CachedReads | None = None) -> int:
        """The last slot whose number `field` (both grow) is at most `key`, or -1."""
        # A plain loop: `bisect` with a key function takes half as long again.
        unpack = self.FIELDS[field].unpack_from
        size = self.ENTRY.size
        view: ByteView = self._tail
        first = self._written
        if not view or unpack(view)[0] > key:
            if not first:
                return -1
            written = first
            first, view = self._window
            end = len(view) - size
            if (
                end < 0
                or (unpack(view)[0] > key and first)
                or (unpack(view, end)[0] <= key and first + end // size + 1 < written)
            ):
                first, view = self._find_window(key, field, cached)
        low, high = 0, len(view) // size
        while low < high:
            middle = (low + high) >> 1
            if key < unpack(view, middle * size)[0]:
                high = middle
            else:
                low = middle + 1
        return first + low - 1

    def _find_window(self, key: int, field: int, cached: CachedReads | None) -> Window:
        """The window where the last written entry up to `key` is; the first one when there is none."""
        low, high = 0, (self._written - 1) // self._per_window
        known = self._firsts.get
        while low < high:
            middle = (low + high + 1) >> 1
            if key < (known(middle) or self._read_first(middle, cached))[field]:
                high = middle - 1
            else:
                low = middle
        return self._window_at(low, cached)

    def keep(self, entries: int) -> None:
        """Drop every entry from this slot on."""
        if entries >= self.entries:
            return
        size = self.ENTRY.size
        if entries >= self._written:
            del self._tail[(entries - self._written) * size :]
        else:
            kept = bytearray(self._read(0, entries * size, None)) if entries else bytearray()
            _remove(self._disk, self.path)
            self.close()
            self._tail = kept
            self._written = 0
            self.entries = entries
            self._spill_where_there_is_room()
        self.entries = entries

    def reset(self) -> None:
        """Begin with nothing, whatever the file holds; there is none until the next `spill` by name."""
        _remove(self._disk, self.path)
        self.blank()

    def blank(self) -> None:
        """Know nothing, and leave the file alone: what is told from here on stays in memory."""
        self.close()
        self._tail = bytearray()
        self._tail_bytes = math.inf
        self._written = self.entries = 0

    def take(self, other: "SparseIndex") -> None:
        """After `reset`: hold what another one has in memory; `spill` writes it."""
        self._tail = other._tail
        self.entries = other.entries

    def close(self) -> None:
        """Let the windows go; what is in the tail stays, and the file is read again when needed."""
        self._window = _NOTHING
        self._windows: dict[int, ByteView] = {}
        self._firsts: dict[int, tuple[int, int]] = {}


class OffsetIndex(SparseIndex):
    """Offset → position: an entry names the last offset of a batch and where that batch begins."""

    __slots__ = ()

    ENTRY = struct.Struct(">ii")
    FIELDS = (struct.Struct(">i"), struct.Struct(">4xi"))

    def append(self, offset: int, position: int) -> None:
        self._add(self.ENTRY.pack(offset - self.base_offset, position))

    def position_for(self, offset: int) -> int:
        """Where a scan for `offset` has to begin."""
        slot = self._slot(offset - self.base_offset)
        return self.entry(slot)[1] if slot >= 0 else 0

    def bracket(self, offset: int, cached: CachedReads | None = None) -> tuple[int, int | None]:
        """Where a scan for `offset` has to begin, and where the next entry's batch begins, which reaches beyond it."""
        slot = self._slot(offset - self.base_offset, 0, cached)
        first, view = self._window
        at = (slot - first) * 8
        if 0 <= at <= len(view) - 16 and slot >= 0:
            return _TWO_POSITIONS.unpack_from(view, at)
        start = self.entry(slot, cached)[1] if slot >= 0 else 0
        return start, self.entry(slot + 1, cached)[1] if slot + 1 < self.entries else None

    def last(self) -> tuple[int, int]:
        """The last entry as (offset, position); the segment's beginning when there is none."""
        if not self.entries:
            return self.base_offset, 0
        relative, position = self.entry(self.entries - 1)
        return self.base_offset + relative, position

    def offset_beyond(self, position: int, cached: CachedReads | None = None) -> int | None:
        """The offset of the first entry at or after a position in the log, or None when there is none."""
        slot = self._slot(position - 1, 1, cached) + 1
        return None if slot == self.entries else self.base_offset + self.entry(slot, cached)[0]

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above an offset."""
        self.keep(self._slot(offset - 1 - self.base_offset) + 1)


class TimeIndex(SparseIndex):
    """Timestamp → offset: up to this offset (the last one of its batch) no record is newer than this timestamp."""

    __slots__ = ("_last",)

    ENTRY = struct.Struct(">qi")
    FIELDS = (struct.Struct(">q"), struct.Struct(">8xi"))

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset)
        self._last: tuple[int, int] | None = None

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry when it is newer than the last one; the same entry again changes nothing."""
        if timestamp > self.last()[0]:
            self._last = (timestamp, offset)
            self._add(self.ENTRY.pack(timestamp, offset - self.base_offset))

    def last(self) -> tuple[int, int]:
        """The last entry as (timestamp, offset); (-1, base offset) when there is none."""
        last = self._last
        if last is None:
            if self.entries:
                timestamp, relative = self.entry(self.entries - 1)
                last = (timestamp, self.base_offset + relative)
            else:
                last = (-1, self.base_offset)
            self._last = last
        return last

    def offset_for(self, timestamp: int) -> int:
        """The offset after which records at least this new may begin."""
        slot = self._slot(timestamp)
        return self.base_offset + (self.entry(slot)[1] if slot >= 0 else 0)

    def keep(self, entries: int) -> None:
        super().keep(entries)
        self._last = None

    def blank(self) -> None:
        super().blank()
        self._last = None

    def take(self, other: SparseIndex) -> None:
        super().take(other)
        self._last = None

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above an offset."""
        self.keep(self._slot(offset - 1 - self.base_offset, 1) + 1)


class AbortedTransaction(NamedTuple):
    """One aborted transaction: its records lie in [first_offset, last_offset], the marker being the last."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CorruptIndex(Exception):
    """An index file whose content cannot be right."""


class TransactionIndex:
    """The aborted transactions whose markers lie in one segment; the file comes with the first of them.

    An entry is written at once. When there is no room for it the marker is in the log already, so it waits in a tail,
    known to readers, and goes before the next one or when the segment is sealed. Entries stand in the order of their
    last offsets, so that a reader finds its own by bisection, and one beyond them all without a look at the file.
    """

    __slots__ = ("_disk", "_last_offset", "_size", "_tail", "path")

    ENTRY = struct.Struct(">hqqqq")
    LAST_OFFSET = struct.Struct(">18xq")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._size: int | None = 0
        self._tail = bytearray()
        self._last_offset: int | None = -1

    def load(self) -> None:
        """Take what an earlier life left; it is read when first asked for."""
        self._size = self._last_offset = None

    def append(self, aborted: AbortedTransaction) -> None:
        self._tail += self.ENTRY.pack(0, *aborted)
        self._last_offset = aborted.last_offset
        try:
            self.spill()
        except StorageFailure as failure:
            if not failure.out_of_space:
                raise

    def spill(self) -> None:
        """Write the entries that wait."""
        if not self._tail:
            return
        with _opened(self._disk, self.path) as file:
            size = self._size
            if size is None:
                size = file.size() // self.ENTRY.size * self.ENTRY.size
            _append_at(file, size, self._tail)
        self._size = size + len(self._tail)
        self._tail = bytearray()

    def all(self) -> list[AbortedTransaction]:
        entries = self._entry_bytes() + self._tail
        return [AbortedTransaction(*fields[1:]) for fields in self.ENTRY.iter_unpack(entries)]

    def overlapping(
        self, from_offset: int, upper_offset: int, cached: CachedReads | None = None
    ) -> tuple[list[AbortedTransaction], bool]:
        """Those that touch [from_offset, upper_offset), and whether no later segment can hold any more of them."""
        found: list[AbortedTransaction] = []
        if self._last_offset is not None and self._last_offset < from_offset:
            return found, False
        for aborted in self._ending_from(from_offset, cached):
            if aborted.first_offset < upper_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def _ending_from(self, offset: int, cached: CachedReads | None) -> Iterator[AbortedTransaction]:
        """Those that end at an offset or after it, read as far as they are asked for."""
        size = self.ENTRY.size
        last_of = self.LAST_OFFSET
        if self.present:
            with _opened(self._disk, self.path, read_only=True) as file:
                read = _reader(file, cached)
                end = self._written(file, read)
                low, high = 0, end // size
                while low < high:
                    middle = (low + high) >> 1
                    if last_of.unpack(_exactly(read, middle * size, last_of.size))[0] < offset:
                        low = middle + 1
                    else:
                        high = middle
                for position in range(low * size, end, _AT_ONCE * size):
                    chunk = _exactly(read, position, min(_AT_ONCE * size, end - position))
                    for fields in self.ENTRY.iter_unpack(chunk):
                        yield AbortedTransaction(*fields[1:])
        for fields in self.ENTRY.iter_unpack(self._tail):
            if fields[3] >= offset:
                yield AbortedTransaction(*fields[1:])

    def _written(self, file: File, read: Reader) -> int:
        """How many bytes of the file are entries; learns it, and where they end, when an earlier life left them."""
        size = self.ENTRY.size
        if self._size is None:
            self._size = file.size() // size * size
        if self._last_offset is None and self._size and not self._tail:
            self._last_offset = self.LAST_OFFSET.unpack(_exactly(read, self._size - size, self.LAST_OFFSET.size))[0]
        return self._size

    def check(self, base_offset: int) -> None:
        """Raise CorruptIndex when the entries cannot belong to a segment that begins at `base_offset`."""
        data = self._entry_bytes(whole_file=True)
        if len(data) % self.ENTRY.size:
            raise CorruptIndex(f"{self.path} holds {len(data)} bytes, not a multiple of {self.ENTRY.size}")
        for version, _, _, last_offset, _ in self.ENTRY.iter_unpack(data):
            if version != 0 or last_offset < base_offset:
                raise CorruptIndex(f"{self.path} holds an entry of version {version} that ends at {last_offset}")

    def truncate_to(self, offset: int) -> None:
        """Drop those that end at an offset or after it."""
        entries = self.all()
        kept = [aborted for aborted in entries if aborted.last_offset < offset]
        if len(kept) == len(entries):
            return
        if self._size:
            _remove(self._disk, self.path)
        self._size = 0
        self._tail = bytearray().join(self.ENTRY.pack(0, *aborted) for aborted in kept)
        self._last_offset = kept[-1].last_offset if kept else -1

    def reset(self) -> None:
        """Begin with nothing, whatever the file holds."""
        _remove(self._disk, self.path)
        self._size = 0
        self._tail = bytearray()
        self._last_offset = -1

    def _entry_bytes(self, *, whole_file: bool = False) -> bytes:
        """The entries as written; also learns the size when an earlier life left the file."""
        if not self.present:
            self._size = 0
            return b""
        with _opened(self._disk, self.path) as file:
            size = file.size()
            if not whole_file:
                size -= size % self.ENTRY.size
                self._size = size
            return file.read_at(0, size)

    @property
    def present(self) -> bool:
        """Whether there is a file with entries."""
        return self._size != 0 and (self._size is not None or self._disk.exists(self.path))
