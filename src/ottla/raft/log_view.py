"""What the machine knows of its log without reading it: where it begins and ends, its epochs, its voters.

Owns: the comparison of two logs (which is newer, where they part) and the sets of voters by the offset that brought
them. Never knows: records, files. Invariants: epochs and their first offsets both grow; what the log says of voters
goes when the log is truncated below it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.raft.voters import VoterSet
from ottla.records.control import Control, KraftVersion, Voters


class LogPosition(NamedTuple):
    """The end of a log, or of a snapshot: the offset after the last record, and that record's epoch."""

    offset: int
    epoch: int


class Entry(NamedTuple):
    """One batch: where it begins and ends, whose epoch it is, what it tells the quorum itself, and its bytes."""

    base_offset: int
    next_offset: int
    epoch: int
    controls: tuple[Control, ...]
    data: object


class Diverging(NamedTuple):
    """Up to here, in this epoch, two logs can agree."""

    epoch: int
    end_offset: int


_NO_RECORD = -2
"""Where what the settings say stands: before the snapshot with which a log may begin, whose records stand at -1."""


class _VotersAt(NamedTuple):
    offset: int
    voters: VoterSet


class _VersionAt(NamedTuple):
    offset: int
    version: int


class LogView:
    """The shape of one log. `first_voters` are those of the settings, which count until the log names some."""

    def __init__(self, first_voters: VoterSet, first_version: int) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.start_epoch = 0
        """The epoch of the last record before the start."""
        self.snapshot: LogPosition | None = None
        """The newest snapshot there is."""
        self._epochs: list[tuple[int, int]] = []
        self._voters = [_VotersAt(_NO_RECORD, first_voters)]
        self._versions = [_VersionAt(_NO_RECORD, first_version)]

    # --- what it looks like ------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; 0 when there never was one."""
        return self._epochs[-1][0] if self._epochs else self.start_epoch

    @property
    def end(self) -> LogPosition:
        return LogPosition(self.end_offset, self.last_epoch)

    @property
    def voters(self) -> VoterSet:
        return self._voters[-1].voters

    @property
    def voters_before(self) -> VoterSet:
        """Those whom the present ones followed; they count again if the log is truncated."""
        return self._voters[-2].voters if len(self._voters) > 1 else self.voters

    @property
    def voters_offset(self) -> int:
        """Which record named them; less than 0 when none in the log did."""
        return self._voters[-1].offset

    @property
    def kraft_version(self) -> int:
        return self._versions[-1].version

    def voters_at(self, offset: int) -> tuple[VoterSet, int]:
        """The voters and the version of the quorum's protocol after the record at `offset`."""
        voters = [entry for entry in self._voters if entry.offset <= offset][-1].voters
        return voters, [entry for entry in self._versions if entry.offset <= offset][-1].version

    def is_newer_than(self, other: LogPosition) -> bool:
        """Whether this log holds something that one that ends there may lack: no vote for it then."""
        return (self.last_epoch, self.end_offset) > (other.epoch, other.offset)

    def end_of_epoch(self, epoch: int) -> Diverging:
        """The largest epoch up to this one, and where it ends."""
        found = self.start_epoch
        for known, start in self._epochs:
            if known > epoch:
                return Diverging(found, max(start, self.start_offset))
            found = known
        return Diverging(found, self.end_offset)

    def compare(self, offset: int, epoch: int) -> Diverging | LogPosition | None:
        """Can a log that ends like this go on with ours? None: yes; else where it parts, or the snapshot it needs."""
        if offset == 0 and epoch == 0 and self.start_offset == 0:
            return None
        snapshot = self.snapshot
        if snapshot is not None and (
            offset < self.start_offset
            or (offset == self.start_offset > 0 and epoch != self.start_epoch)
            or epoch < self.start_epoch
        ):
            return snapshot
        common = self.end_of_epoch(epoch)
        if common.epoch != epoch or common.end_offset < offset:
            return common
        return None

    # --- how it changes ----------------------------------------------------------------------------------------------

    def append(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            assert entry.base_offset >= self.end_offset, (entry.base_offset, self.end_offset)
            if not self._epochs or entry.epoch > self._epochs[-1][0]:
                self._epochs.append((entry.epoch, entry.base_offset))
            self.end_offset = entry.next_offset
            if entry.controls:
                self._learn(entry.base_offset, entry.controls)

    def _learn(self, offset: int, controls: Sequence[Control]) -> None:
        for at, control in enumerate(controls, offset):
            # A snapshot may have told more already than the old part of the log that is read after it.
            if isinstance(control, Voters) and at > self._voters[-1].offset:
                self._voters.append(_VotersAt(at, VoterSet.of(control.voters)))
            elif isinstance(control, KraftVersion) and at > self._versions[-1].offset:
                self._versions.append(_VersionAt(at, control.kraft_version))

    def truncate(self, offset: int) -> None:
        """The log ends at `offset` now."""
        assert offset >= self.start_offset, (offset, self.start_offset)
        self.end_offset = min(self.end_offset, offset)
        while self._epochs and self._epochs[-1][1] >= offset:
            self._epochs.pop()
        while len(self._voters) > 1 and self._voters[-1].offset >= offset:
            self._voters.pop()
        while len(self._versions) > 1 and self._versions[-1].offset >= offset:
            self._versions.pop()

    def took_snapshot(self, position: LogPosition, start_offset: int) -> None:
        """There is a snapshot of what the log says, and the log may begin later."""
        if self.snapshot is None or position.offset > self.snapshot.offset:
            self.snapshot = position
        self.raise_start(start_offset)

    def raise_start(self, start_offset: int) -> None:
        if start_offset <= self.start_offset:
            return
        for known, start in self._epochs:
            if start < start_offset:
                self.start_epoch = known
        self.start_offset = start_offset

    def begin_at(self, position: LogPosition) -> None:
        """While it is being read: the log begins there, which may be before the newest snapshot."""
        self.start_offset = self.end_offset = position.offset
        self.start_epoch = position.epoch

    def restart_behind(self, position: LogPosition, controls: Sequence[Control]) -> None:
        """The log is empty and begins behind a snapshot, which names voters of its own, or none."""
        self.start_offset = self.end_offset = position.offset
        self.snapshot = position
        self.start_epoch = position.epoch
        self._epochs = []
        del self._voters[1:]
        del self._versions[1:]
        for control in controls:
            self._learn(position.offset - 1, (control,))
