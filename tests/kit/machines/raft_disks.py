"""What one replica of the quorum has written, without files.

Owns: the log, the vote and the snapshot of a replica as values, what of them is synced, and the effects of `raft` that
write. Never knows: time, links, the machine.
"""

from ottla.raft.effects import Effect, Truncate, WriteControls, WriteEntries
from ottla.raft.log_view import Entry, LogPosition, LogView
from ottla.raft.messages import Answer, Fetched
from ottla.raft.voters import Election, VoterSet
from ottla.records.control import Control


class ReplicaDisk:
    """Survives the machine. What is not synced may be gone after a crash."""

    def __init__(self) -> None:
        self.election = Election()
        self.entries: list[Entry] = []
        self.synced = 0
        self.start = LogPosition(0, 0)
        self.snapshot: LogPosition | None = None

    @property
    def end_offset(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.start.offset

    @property
    def unsynced(self) -> int:
        """How many entries are not synced."""
        return sum(1 for entry in self.entries if entry.next_offset > self.synced)

    def view(self, first_voters: VoterSet, first_version: int, snapshot_controls: tuple[Control, ...]) -> LogView:
        """What a machine that begins with this log has to know of it."""
        view = LogView(first_voters, first_version)
        if self.snapshot is not None:
            view.restart_behind(self.snapshot, snapshot_controls)
        view.begin_at(self.start)
        view.append(self.entries)
        return view

    def write(self, effect: Effect) -> None:
        """Do an effect that writes the log; others are left alone."""
        if isinstance(effect, WriteEntries):
            self.entries += effect.entries
        elif isinstance(effect, WriteControls):
            base, epoch, controls = effect
            self.entries.append(Entry(base, base + len(controls), epoch, controls, None))
        elif isinstance(effect, Truncate):
            while self.entries and self.entries[-1].next_offset > effect.offset:
                self.entries.pop()
            self.synced = min(self.synced, self.end_offset)

    def forget(self, entries: int) -> None:
        """The newest entries were not synced, and are gone."""
        for _ in range(entries):
            self.entries.pop()
        self.synced = min(self.synced, self.end_offset)

    def filled(self, answer: Answer, most: int) -> Answer:
        """An answer to Fetch with the entries that it promises."""
        if not isinstance(answer, Fetched) or answer.read_from is None:
            return answer
        found = [entry for entry in self.entries if entry.base_offset >= answer.read_from]
        return answer._replace(entries=tuple(found[:most]), read_from=None)

    def install(self, position: LogPosition) -> None:
        """A snapshot takes the log's place."""
        self.entries = []
        self.synced = position.offset
        self.start = self.snapshot = position

    def end_below(self, offset: int) -> LogPosition | None:
        """Where a snapshot of what lies below this offset would stand; None where there is nothing."""
        below = [entry for entry in self.entries if entry.next_offset <= offset]
        return LogPosition(below[-1].next_offset, below[-1].epoch) if below else None

    def trim(self, position: LogPosition) -> None:
        """There is a snapshot up to here, and the log before it goes."""
        self.entries = [entry for entry in self.entries if entry.base_offset >= position.offset]
        self.snapshot = self.start = position
        self.synced = max(self.synced, position.offset)
