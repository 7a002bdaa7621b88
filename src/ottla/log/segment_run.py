"""The segments of one log, in order, and what is still to be done to their files.

Owns: which segments there are, finding one by offset, and the steps by which files follow what was decided in memory.
Never knows: offsets of the partition, producers, why a segment has to go.
Invariants: base offsets grow; the last segment takes the appends; files that go are renamed at once and removed later,
because ranges of them may still be on their way to readers. A decision is taken in memory first and whole; `owe` notes
the steps for the disk, `settle` takes them in order, and what fails is owed still: each step can be repeated, and a
process that dies between two of them leaves what recovery takes for the log before the decision or after it. Nothing
else may be done to the log's files while something is owed.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ottla.log.files import DELETED_SUFFIX, SWAP_SUFFIX, StorageFailure, World
from ottla.log.flushing import Removal
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings


class SegmentRun:
    """The segments of one log."""

    __slots__ = ("_going", "_owed", "_world", "directory", "items", "removals")

    def __init__(self, world: World, directory: str, items: list[Segment]) -> None:
        self._world = world
        self.directory = directory
        self.items = items
        self.removals: list[Removal] = []
        self._owed: deque[Callable[[], None]] = deque()
        self._going: list[Segment] = []

    @property
    def settled(self) -> bool:
        """Whether the disk is what memory says."""
        return not self._owed

    # Memory has changed, and the disk follows in steps that can be repeated: design/0020.
    def owe(self, *steps: Callable[[], None]) -> None:
        """Have these steps taken by the next `settle`, after those that are owed already."""
        self._owed.extend(steps)

    def settle(self) -> None:
        """Take the steps that are owed. Raises StorageFailure; the rest is owed still."""
        while self._owed:
            try:
                self._owed[0]()
            except OSError as error:
                raise StorageFailure.of(error.filename or self.directory, error) from error
            self._owed.popleft()

    def prepare(self, base_offset: int, settings: LogSettings) -> Segment:
        """A new empty segment, which has no file yet and is not in the run."""
        segment = Segment.lazy(
            self._world.disk, self.directory, base_offset, settings, open_files=self._world.open_files
        )
        segment.created_ms = self._world.clock.now_ms()
        jitter = min(settings.segment_jitter_ms, settings.segment_ms)
        segment.jitter_ms = int(self._world.random.uniform(0, jitter)) if jitter else 0
        return segment

    def slot(self, offset: int) -> int:
        """Which segment's range holds an offset; the first one for offsets below all."""
        items = self.items
        if offset >= items[-1].base_offset:
            return len(items) - 1
        return max(bisect_right(items, offset, key=_base_offset) - 1, 0)

    def following(self, slot: int) -> int | None:
        """Where the segment after this one begins."""
        return self.items[slot + 1].base_offset if slot + 1 < len(self.items) else None

    def retire(self, going: Sequence[Segment], snapshots: Sequence[Callable[[], str | None]], delay_ms: int) -> None:
        """Owe the renaming of files that go, in this order, then their removal once nobody can be reading them."""
        self._going += going
        self.owe(*[partial(segment.rename, DELETED_SUFFIX) for segment in going])
        retired: list[str] = []
        for snapshot in snapshots:
            self.owe(partial(_collect, snapshot, retired))
        self.owe(partial(self._schedule, list(going), retired, delay_ms))

    def _schedule(self, segments: list[Segment], snapshots: list[str], delay_ms: int) -> None:
        self._going = [segment for segment in self._going if segment not in segments]
        due_ms = self._world.clock.now_ms() + delay_ms
        self.removals.append(Removal(due_ms, self._world.disk, segments, snapshots))

    def begin_swap(self, new: Sequence[Segment]) -> None:
        """Say on disk that compacted segments (synced, named `.cleaned`) stand for old ones. Raises StorageFailure, and
        then the old ones stand and the new ones are owed their removal.

        The names say after a crash how far this came: a `.cleaned` at or below a `.swap`, and the old segments stand;
        `.swap` only, and the new ones do. That is why the last one is renamed first, and its log file last.
        """
        try:
            for segment in reversed(new):
                segment.rename(SWAP_SUFFIX, log_last=True)
        except StorageFailure:
            self.owe(*[segment.delete for segment in new])
            raise

    def take_removals(self) -> list[Removal]:
        taken = self.removals
        self.removals = []
        return taken

    def move(self, directory: str) -> None:
        self.directory = directory
        for segment in self._all():
            segment.move(directory)

    def close(self) -> None:
        for segment in self._all():
            segment.close()

    def _all(self) -> list[Segment]:
        return self.items + self._going + [segment for removal in self.removals for segment in removal.segments]


def _collect(retire: Callable[[], str | None], retired: list[str]) -> None:
    path = retire()
    if path is not None:
        retired.append(path)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
