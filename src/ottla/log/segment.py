"""One segment: a run of batches in one file, with its three indexes beside it.

Owns: the files of one base offset, how many bytes of the log file are valid, and when index entries are written
(Kafka's rule: before the batch that comes after `index.interval.bytes` of batches). Never knows: producers, epochs, who
reads or why a segment ends.
Invariants: bytes past `size` do not exist for anyone, and are cut off before the next write; the names in memory are
those on the disk, also while a renaming is half done; files are opened when first needed, and may be closed behind the
segment's back by `OpenFiles`; nothing else here is shared between threads while it changes.
"""

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from ottla.base.ports import ByteView, Disk, File
from ottla.log.cached_reads import CachedReads
from ottla.log.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    StorageFailure,
    offset_path,
    sync_file,
    sync_open,
)
from ottla.log.index import OffsetIndex, TimeIndex, TransactionIndex
from ottla.log.open_files import UNBOUNDED, OpenFiles
from ottla.log.settings import LogSettings
from ottla.records.header import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, BatchHeader, CorruptBatch

_SPAN = Struct(">qi11xi")  # base offset, length, last offset delta: all that a search needs of a header
_SEARCH_BYTES = 8192
_new = tuple.__new__  # half the time of a named tuple's own constructor
_WALK_BYTES = 1 << 16


class FileRange(NamedTuple):
    """Bytes of a file that leave as they are."""

    file: File
    position: int
    length: int


class Located(NamedTuple):
    """Where a batch lies in its segment."""

    position: int
    size: int
    base_offset: int


class SegmentTwin:
    """A segment as it is at one moment, to be read by a thread while the segment itself goes on."""

    __slots__ = ("_place", "base_offset", "latest", "size")

    def __init__(
        self, place: tuple[Disk, str, int, LogSettings, str], size: int, latest: tuple[int, int] | None
    ) -> None:
        self._place = place
        self.base_offset = place[2]
        self.size = size
        self.latest = latest
        """The greatest timestamp and its offset; None as long as nobody has read it."""

    def load(self) -> "Segment":
        """Open it anew. Blocking; raises StorageFailure."""
        segment = Segment.load(*self._place)
        segment.size = min(segment.size, self.size)
        if self.latest is None:
            try:
                self.latest = segment.latest
            except OSError as error:
                raise StorageFailure.of(segment.path, error) from error
        segment._latest = self.latest
        return segment


class Segment:
    """One segment of a log."""

    __slots__ = (
        "_cut",
        "_disk",
        "_file",
        "_first_timestamp",
        "_gap",
        "_interval",
        "_latest",
        "_open_files",
        "base_offset",
        "created_ms",
        "directory",
        "first_bytes",
        "index",
        "jitter_ms",
        "longer",
        "most_index_entries",
        "most_time_entries",
        "size",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        settings: LogSettings,
        suffix: str = "",
        open_files: OpenFiles = UNBOUNDED,
    ) -> None:
        self._disk = disk
        self._open_files = open_files
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = 0
        self.created_ms = 0
        self.jitter_ms = 0
        self.first_bytes = b""
        """What a loaded file begins with, up to the number of its format."""
        self.longer = False
        """Whether the log file may hold bytes past `size`, which have to go before the next write."""
        self.index = OffsetIndex(disk, self._path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(disk, self._path(TIME_INDEX_SUFFIX), base_offset)
        self.transaction_index = TransactionIndex(disk, self._path(TRANSACTION_INDEX_SUFFIX))
        self.most_index_entries = settings.index_bytes // OffsetIndex.ENTRY.size
        # The last slot is kept for the entry that is written when the segment is sealed.
        self.most_time_entries = settings.index_bytes // TimeIndex.ENTRY.size - 1
        self._interval = settings.index_interval_bytes
        self._file: File | None = None
        self._cut = False
        self._gap = 0
        self._latest: tuple[int, int] | None = None
        self._first_timestamp: int | None = None

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        settings: LogSettings,
        suffix: str = "",
        open_files: OpenFiles = UNBOUNDED,
    ) -> "Segment":
        """An empty segment; files of the same name are leftovers and go. Only the log file is made now."""
        segment = cls.lazy(disk, directory, base_offset, settings, suffix, open_files)
        segment.make()
        return segment

    def make(self) -> None:
        """Have its empty log file; can be done again when it failed."""
        self.close()
        try:
            for kind in SEGMENT_SUFFIXES:
                self._disk.remove(self._path(kind))
            self._disk.open(self.path, create=True).close()
        except OSError as error:
            raise StorageFailure.of(self.path, error) from error

    @classmethod
    def lazy(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        settings: LogSettings,
        suffix: str = "",
        open_files: OpenFiles = UNBOUNDED,
    ) -> "Segment":
        """An empty segment that touches the disk when its first batch comes, for the first one of a new log."""
        segment = cls(disk, directory, base_offset, settings, suffix, open_files)
        segment._latest = (-1, base_offset)
        return segment

    @classmethod
    def load(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        settings: LogSettings,
        suffix: str = "",
        open_files: OpenFiles = UNBOUNDED,
    ) -> "Segment":
        """A segment from its files, taken as they are; nothing stays open."""
        segment = cls(disk, directory, base_offset, settings, suffix, open_files)
        try:
            file = disk.open(segment.path)
            try:
                segment.size = file.size()
                segment.first_bytes = file.read_at(0, MAGIC_POSITION + 1)
            finally:
                file.close()
            segment.index.load()
            segment.time_index.load()
        except OSError as error:
            raise StorageFailure.of(segment.path, error) from error
        segment.transaction_index.load()
        return segment

    def twin(self, settings: LogSettings) -> "SegmentTwin":
        """The same files as they are now, for a thread of its own."""
        place = (self._disk, self.directory, self.base_offset, settings, self.suffix)
        return SegmentTwin(place, self.size, self._latest)

    def learn(self, twin: "SegmentTwin") -> None:
        """Know what a thread has read meanwhile, unless it is known already."""
        if self._latest is None and self.size == twin.size:
            self._latest = twin.latest

    def _path(self, kind: str) -> str:
        return offset_path(self.directory, self.base_offset, kind) + self.suffix

    @property
    def path(self) -> str:
        return self._path(LOG_SUFFIX)

    @property
    def file(self) -> File:
        """The log file, opened when it is not open yet."""
        file = self._file
        if file is None:
            file = self._file = self._open_files.open(self._disk, self.path, create=self.size == 0)
            self._open_files.took(self)
        return file

    # Writing

    def write(self, data: ByteView, size: int) -> int:
        """Append `size` bytes of whole batches and answer where they begin; on OSError nothing has been added."""
        position = self.size
        file = self._file or self.file
        try:
            file.append(data)
        except OSError:
            self.longer = True
            self.shorten()
            raise
        self.size = position + size
        return position

    def shorten(self) -> None:
        """Cut the log file to what counts, as after a write that a full disk took in part: if that part stays, whatever
        is appended later stands behind it. Can be done again when it failed."""
        if not self.longer:
            return
        try:
            self.file.truncate(self.size)
        except OSError as error:
            raise StorageFailure.of(self.path, error) from error
        self.longer = False

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Account for one batch just written: newest timestamp, and index entries when it is time for them."""
        latest = self._latest or self.latest
        if max_timestamp > latest[0]:
            self._latest = latest = (max_timestamp, last_offset)
        if position == 0:
            self._first_timestamp = max_timestamp
        gap = self._gap
        if gap > self._interval:
            self.index.append(last_offset, position)
            self.time_index.append(*latest)
            gap = 0
        self._gap = gap + size

    @property
    def full(self) -> bool:
        """Whether an index has no room for another entry."""
        return self.index.entries >= self.most_index_entries or self.time_index.entries >= self.most_time_entries

    @property
    def changed(self) -> bool:
        """Whether batches came or went since its indexes were last written whole."""
        return self._cut or self._gap > 0

    def seal(self, *, lasting: bool = False) -> None:
        """Write what a segment holds that takes no more batches: the last time entry, and its indexes whole.

        `lasting` makes it durable, the offset index last: recovery takes a flushed segment that has one for whole.
        Blocking then; raises StorageFailure.
        """
        if self._latest is not None:
            self.time_index.append(*self._latest)
        self.time_index.spill(create=True)
        self.transaction_index.spill()
        if lasting:
            self.sync()
        self.index.spill(create=True)
        if lasting:
            self.sync()
        self._cut = False

    def index_paths(self) -> list[str]:
        """The files beside the log file, for syncing; there need not be one for transactions. One that was emptied is
        synced too: a power cut must not bring back what was cut off."""
        return [self.index.path, self.time_index.path, self.transaction_index.path]

    def sync(self) -> None:
        """Make a sealed segment durable. Blocking; raises StorageFailure."""
        try:
            sync_open(self.file)
            for path in self.index_paths():
                with suppress(FileNotFoundError):
                    sync_file(self._disk, path)
        except OSError as error:
            raise StorageFailure.of(self.path, error) from error

    # What it holds

    @property
    def latest(self) -> tuple[int, int]:
        """The greatest timestamp and the last offset of the first batch that has it; (-1, base offset) without any."""
        latest = self._latest
        if latest is None:
            latest = self._latest = self.time_index.last()
        return latest

    @property
    def largest_timestamp(self) -> int:
        """The greatest record timestamp, or the time of the last write where the records have none."""
        timestamp = self.latest[0]
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.path)

    @property
    def first_timestamp(self) -> int:
        """The newest timestamp in the first batch; -1 when there is no batch or it has none."""
        timestamp = self._first_timestamp
        if timestamp is None:
            if self.size < HEADER_SIZE:
                return -1
            header = BatchHeader._make(HEADER.unpack(self.file.read_at(0, HEADER_SIZE)))
            timestamp = self._first_timestamp = header.max_timestamp
        return timestamp

    def locate(self, offset: int, cached: CachedReads | None = None) -> Located | None:
        """The first batch that reaches `offset` or lies beyond it; None when there is none here.

        With `cached` it raises NotCached rather than wait for the disk. Raises CorruptBatch where the index does not
        lead to batches, or these do not lead to the end.
        """
        start, following = self.index.bracket(offset, cached)
        position = start
        end = self.size
        if not 0 <= position <= end:
            raise CorruptBatch(position, f"the index of {self.path} names a place that cannot be")
        file = self._file or self.file
        read_at = file.read_at if cached is None else cached.reader(file)
        unpack = _SPAN.unpack_from
        length_read = _SEARCH_BYTES
        if following is not None and 0 < following - position < _SEARCH_BYTES - _SPAN.size:
            # The next entry's batch reaches beyond the offset: no more has to be read than where it begins.
            length_read = following - position + _SPAN.size
        elif following is not None and _SEARCH_BYTES < following - position <= end - position - _SPAN.size:
            # Large batches have an entry each: most likely the next one's batch is it.
            base, length, delta = unpack(read_at(following, _SPAN.size))
            if self.base_offset <= base <= offset <= base + delta:
                return _new(Located, (following, length + LOG_OVERHEAD, base))
        while position < end:
            chunk = read_at(position, length_read)
            length_read = _SEARCH_BYTES
            last = min(len(chunk), end - position) - _SPAN.size
            at = 0
            while at <= last:
                base, length, delta = unpack(chunk, at)
                if base + delta >= offset:
                    if base > offset and start and position + at == start:
                        raise CorruptBatch(position, f"the index of {self.path} leads beyond offset {offset}")
                    return _new(Located, (position + at, length + LOG_OVERHEAD, base))
                if length < HEADER_SIZE - LOG_OVERHEAD:
                    raise CorruptBatch(position + at, f"a batch of {length + LOG_OVERHEAD} bytes in {self.path}")
                at += length + LOG_OVERHEAD
            if at == 0:
                break
            position += at
        if position != end:
            raise CorruptBatch(position, f"the batches of {self.path} do not lead to its end")
        return None

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from one that begins at `position`, read in large pieces."""
        end = self.size
        if position < 0:
            raise CorruptBatch(position, f"the index of {self.path} names a place that cannot be")
        file = self.file
        unpack = HEADER.unpack_from
        while position + HEADER_SIZE <= end:
            chunk = file.read_at(position, _WALK_BYTES)
            last = min(len(chunk), end - position) - HEADER_SIZE
            at = 0
            while at <= last:
                header = BatchHeader._make(unpack(chunk, at))
                if header.length < HEADER_SIZE - LOG_OVERHEAD:
                    raise CorruptBatch(position + at, f"a batch of {header.size} bytes in {self.path}")
                yield position + at, header
                at += header.length + LOG_OVERHEAD
            if at == 0:
                return
            position += at

    def next_offset(self) -> int:
        """The offset after the last batch; the base offset when there is none."""
        found = self.base_offset
        for _, header in self.headers(self.index.last()[1]):
            found = header.base_offset + header.last_offset_delta + 1
        return found

    def ends_whole(self) -> bool:
        """Whether its last index entry is followed by whole batches up to the end of the file."""
        offset, first = self.index.last()
        end = first
        try:
            for at, header in self.headers(first):
                if at == first and first and header.base_offset > offset:
                    return False
                end = at + header.size
        except CorruptBatch:
            return False
        return end == self.size

    # Indexes that are wrong

    def reindex(self) -> bool:
        """Tell the offset and the time index in memory anew, by the batches; answers whether these are whole, as far
        as their headers say. For a segment of one's own over the same files (`twin`). Blocking; raises OSError."""
        self.index.blank()
        self.time_index.blank()
        self._latest = (-1, self.base_offset)
        self._gap = 0
        return self._note_from(0, self.base_offset)

    def _note_from(self, end: int, expected: int) -> bool:
        try:
            for position, header in self.headers(end):
                if not expected <= header.base_offset <= header.last_offset:
                    return False
                self.note(position, header.size, header.last_offset, header.max_timestamp)
                expected = header.next_offset
                end = position + header.size
        except CorruptBatch:
            return False
        return end == self.size

    def adopt_indexes(self, other: "Segment") -> bool:
        """Take what another one over the same files has told anew, which `seal` writes; False when it went another way
        since. Raises StorageFailure, and then nothing has changed for readers but the time that a look-up takes."""
        if other.size > self.size:
            return False
        end, other.size = other.size, self.size
        if not other._note_from(end, self.base_offset):
            return False
        self.index.reset()
        self.time_index.reset()
        self.time_index.take(other.time_index)
        self.index.take(other.index)
        self._latest = other.latest
        self._gap = other._gap
        return True

    # Cutting, renaming, going

    def cut(self, position: int, now_ms: int) -> None:
        """Let it end at a batch's position, for everyone who looks; `finish_cut` does the same to the files."""
        self.size = position
        self.longer = self._cut = True
        self._gap = 0
        if position == 0:
            self.created_ms = now_ms
            self._first_timestamp = None

    def finish_cut(self, offset: int) -> None:
        """After `cut`: shorten the files and learn what is left. Can be done again when it failed."""
        self.index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.shorten()
        try:
            self._latest = self._scan_latest()
        except OSError as error:
            raise StorageFailure.of(self.path, error) from error

    def _scan_latest(self) -> tuple[int, int]:
        timestamp, offset = self.time_index.last()
        for _, header in self.headers(self.index.position_for(offset)):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        return timestamp, offset

    def begin_scan(self) -> None:
        """All that is known of the batches is forgotten; a recovery scan tells it again by `note`. The offset index is
        the first file to go, and the last to come."""
        self.index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._latest = (-1, self.base_offset)
        self._first_timestamp = None
        self._gap = 0

    def end_scan(self, size: int, *, lasting: bool) -> None:
        """The scan is through: only `size` bytes are whole batches. The indexes are written, if need be to last."""
        if size != self.size:
            self.file.truncate(size)
            # The next stop may be a clean one, and nobody looks then whether the rest has come back.
            sync_open(self.file)
            self.size = size
        self._gap = 0
        self.seal(lasting=lasting)
        # Whoever wrote it may have cut it, too, and nothing of that lasts before it is synced.
        self._cut = not lasting

    def rename(self, suffix: str, *, log_last: bool = False) -> None:
        """Give all files another second suffix (`.deleted`, `.swap`, none). Can be done again when it failed.

        The log file goes first, or last, which is the moment at which recovery sees the segment go, or come.
        """
        kinds = [*SEGMENT_SUFFIXES[1:], LOG_SUFFIX] if log_last else SEGMENT_SUFFIXES
        for kind in kinds:
            before = self._present_path(kind)
            after = offset_path(self.directory, self.base_offset, kind) + suffix
            if before == after:
                continue
            try:
                self._disk.rename(before, after)
            except FileNotFoundError as error:
                # Index files come late; a log file that is gone was removed from outside. One that is to stand for
                # others must be there.
                if log_last and kind == LOG_SUFFIX:
                    raise StorageFailure.of(before, error) from error
            except OSError as error:
                raise StorageFailure.of(before, error) from error
            if kind == LOG_SUFFIX:
                self.suffix = suffix
            else:
                self._index(kind).path = after

    def _index(self, kind: str) -> OffsetIndex | TimeIndex | TransactionIndex:
        if kind == INDEX_SUFFIX:
            return self.index
        return self.time_index if kind == TIME_INDEX_SUFFIX else self.transaction_index

    def _present_path(self, kind: str) -> str:
        return self.path if kind == LOG_SUFFIX else self._index(kind).path

    def move(self, directory: str) -> None:
        """The partition's directory has been renamed; open files go with it."""
        length = len(self.directory)
        self.directory = directory
        for index in (self.index, self.time_index, self.transaction_index):
            index.path = directory + index.path[length:]

    def paths(self) -> list[str]:
        return [self._present_path(kind) for kind in SEGMENT_SUFFIXES]

    def has_open(self, file: File) -> bool:
        """Whether this is its log file, as it is open now."""
        return self._file is file

    def let_go(self) -> File | None:
        """Forget the open log file and what is known of the indexes; both come back when the segment is used again.

        The descriptor is closed with the last range of it that is still to be sent, or flush that is under way.
        """
        file, self._file = self._file, None
        self.index.close()
        self.time_index.close()
        return file

    def close(self) -> None:
        """Hold nothing open; the segment can be used again all the same."""
        self.let_go()
        self._open_files.left(self)

    def delete(self) -> None:
        """Remove every file. Blocking."""
        self.close()
        for path in self.paths():
            self._disk.remove(path)
