"""Which leader epoch began at which offset.

Owns: the history of a partition's leader epochs and the text of `leader-epoch-checkpoint`. Never knows: files, batches.
Invariants: epochs and start offsets both grow along the history; `dirty` says that the file is behind. What is not on
disk yet, or still is on disk and was cut off, can be told from the batches of unflushed segments, so a flush may write
it.
"""

from typing import NamedTuple


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochHistory:
    """The leader epochs of one partition."""

    __slots__ = ("dirty", "entries", "latest_epoch")

    def __init__(self) -> None:
        self.entries: list[EpochStart] = []
        self.latest_epoch = -1
        self.dirty = False

    @classmethod
    def from_text(cls, text: str) -> "EpochHistory":
        """From the content of a checkpoint file; ValueError when it is malformed."""
        history = cls()
        lines = text.splitlines()
        if not lines:
            return history
        if lines[0].strip() != "0" or len(lines) < 2:
            raise ValueError("not a leader epoch checkpoint of version 0")
        rows = [line for line in lines[2:] if line.strip()]
        if len(rows) != int(lines[1]):
            raise ValueError(f"{lines[1]} entries announced, {len(rows)} found")
        for row in rows:
            epoch, start_offset = row.split()
            history.assign(int(epoch), int(start_offset))
        history.dirty = False
        return history

    def text(self) -> str:
        """The content of the checkpoint file."""
        return "".join(["0\n", f"{len(self.entries)}\n", *(f"{epoch} {offset}\n" for epoch, offset in self.entries)])

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins at an offset; entries that contradict it go."""
        entries = self.entries
        if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        self._changed()

    def truncate_end(self, end_offset: int) -> None:
        """The log ends at `end_offset` now."""
        entries = self.entries
        before = len(entries)
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        if len(entries) != before:
            self._changed()

    def truncate_start(self, start_offset: int) -> None:
        """The log begins at `start_offset` now: the epoch that holds it begins there."""
        entries = self.entries
        count = sum(1 for entry in entries if entry.start_offset <= start_offset)
        if count > 1 or (count and entries[0].start_offset != start_offset):
            entries[:count] = [EpochStart(entries[count - 1].epoch, start_offset)]
            self._changed()

    def clear(self) -> None:
        self.entries.clear()
        self._changed()

    def _changed(self) -> None:
        self.dirty = True
        self.latest_epoch = self.entries[-1].epoch if self.entries else -1

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at an offset; -1 when it is not known."""
        found = -1
        for epoch, start_offset in self.entries:
            if start_offset > offset:
                break
            found = epoch
        return found

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """(epoch, end offset) for the largest epoch up to the one asked for; None when it cannot be told."""
        if epoch < 0:
            return None
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        floor = None
        for entry in self.entries:
            if entry.epoch > epoch:
                return (epoch if floor is None else floor.epoch), entry.start_offset
            floor = entry
        return None


class RetoldEpochs:
    """A history whose end is not believed, told again by the batches from an offset on.

    What the history said of an epoch's start is kept where the batches do not contradict it: compaction may have taken
    the very first of them.
    """

    __slots__ = ("_before", "_claims", "_end", "_history")

    def __init__(self, history: EpochHistory, from_offset: int) -> None:
        self._history = history
        self._before = None if history.dirty else history.text()
        self._claims = {entry.epoch: entry.start_offset for entry in history.entries}
        self._end = from_offset
        history.truncate_end(from_offset)

    def tell(self, epoch: int, base_offset: int, next_offset: int) -> None:
        """The next batch, and its epoch."""
        if epoch >= 0 and epoch != self._history.latest_epoch:
            claimed = self._claims.get(epoch, base_offset)
            self._history.assign(epoch, claimed if self._end <= claimed <= base_offset else base_offset)
        self._end = next_offset

    def end(self) -> None:
        """All batches are told; a history that came out as it was needs no writing."""
        if self._history.text() == self._before:
            self._history.dirty = False
