"""The segments of one log, in order.

Owns: which segments there are, finding one by offset, and the renames by which segments go and are replaced. Never
knows: offsets of the partition, producers, why a segment has to go.
Invariants: base offsets grow; the last segment takes the appends; files that go are renamed at once and removed later,
because ranges of them may still be on their way to readers.
"""

from bisect import bisect_right
from collections.abc import Sequence

from ottla.log.files import DELETED_SUFFIX, SWAP_SUFFIX, World
from ottla.log.flushing import Removal
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings


class SegmentRun:
    """See the module."""

    __slots__ = ("_world", "directory", "items", "removals")

    def __init__(self, world: World, directory: str, items: list[Segment]) -> None:
        self._world = world
        self.directory = directory
        self.items = items
        self.removals: list[Removal] = []

    def create(self, base_offset: int, settings: LogSettings) -> Segment:
        """A new empty segment, which is not in the run yet."""
        segment = Segment.create(
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

    def remove(self, going: Sequence[Segment]) -> None:
        """Take segments out, and rename their files."""
        gone = set(map(id, going))
        self.items[:] = [segment for segment in self.items if id(segment) not in gone]
        for segment in going:
            segment.rename(DELETED_SUFFIX)

    def schedule(self, segments: Sequence[Segment], snapshots: Sequence[str], delay_ms: int) -> None:
        """Have renamed files removed once nobody can be reading them any more."""
        due_ms = self._world.clock.now_ms() + delay_ms
        self.removals.append(Removal(due_ms, self._world.disk, list(segments), list(snapshots)))

    def replace(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put compacted segments (synced, named `.cleaned`) in the place of neighbouring old ones.

        The names say after a crash how far this came: a `.cleaned` at or below a `.swap`, and the old segments stand;
        `.swap` only, and the new ones do. That is why the last one is renamed first.
        """
        for segment in reversed(new):
            segment.rename(SWAP_SUFFIX)
        first = self.items.index(old[0])
        self.items[first : first + len(old)] = new
        for segment in old:
            segment.rename(DELETED_SUFFIX)
        for segment in new:
            segment.rename("")

    def take_removals(self) -> list[Removal]:
        taken = self.removals
        self.removals = []
        return taken

    def move(self, directory: str) -> None:
        self.directory = directory
        for segment in self.items:
            segment.move(directory)
        for removal in self.removals:
            for segment in removal.segments:
                segment.move(directory)

    def close(self) -> None:
        for segment in self.items:
            segment.close()
        for removal in self.removals:
            for segment in removal.segments:
                segment.close()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
