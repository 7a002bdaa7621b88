"""The blocking halves of what a log does: syncing files, removing files.

Owns: what is left to do once the event loop has decided. Never knows: the log itself; it is handed files and paths.
Invariant: a ticket and a removal hold all they need, so that `run` may happen in any thread while the log goes on.
"""

from contextlib import suppress
from typing import NamedTuple

from ottla.base.ports import Disk, File
from ottla.log.files import EPOCH_CHECKPOINT, StorageFailure, sync_file
from ottla.log.segment import Segment
from ottla.log.whole_file import replace_whole


class FlushTicket(NamedTuple):
    """One flush: what it makes durable (`offset`, exclusive), and the files, open or named, to sync for it."""

    offset: int
    generation: int
    disk: Disk
    directory: str
    files: list[tuple[Segment, File]]
    paths: list[str]
    epochs: str | None
    names_changed: bool

    def run(self) -> None:
        """Sync everything. Blocking; raises StorageFailure."""
        try:
            for segment, file in self.files:
                try:
                    file.sync()
                except OSError:
                    # Since the flush began it was deleted, or closed, which syncs what has to last.
                    if not segment.closed:
                        raise
            for path in self.paths:
                # Indexes and snapshots of segments deleted since are gone.
                with suppress(FileNotFoundError):
                    sync_file(self.disk, path)
            if self.epochs is not None:
                replace_whole(self.disk, f"{self.directory}/{EPOCH_CHECKPOINT}", self.epochs.encode())
            elif self.names_changed:
                self.disk.sync_directory(self.directory)
        except FileNotFoundError:
            # The directory has been renamed away with its topic.
            return
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error


class Removal(NamedTuple):
    """Files that have been renamed away and may be removed at `due_ms`; until then ranges of them can be sent."""

    due_ms: int
    disk: Disk
    segments: list[Segment]
    paths: list[str]

    def run(self) -> None:
        """Remove them. Blocking; raises StorageFailure."""
        try:
            for segment in self.segments:
                segment.delete()
            for path in self.paths:
                self.disk.remove(path)
        except OSError as error:
            raise StorageFailure.of(error.filename or "", error) from error
