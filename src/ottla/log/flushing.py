"""The blocking halves of what a log does: syncing files, removing files.

Owns: what is left to do once the event loop has decided. Never knows: the log itself; it is handed files and paths.
Invariant: a ticket and a removal hold all they need, so that `run` may happen in any thread while the log goes on.
"""

from contextlib import suppress
from errno import EBADF
from typing import NamedTuple

from ottla.base.ports import Disk, File
from ottla.log.files import EPOCH_CHECKPOINT, NotDurable, StorageFailure, sync_file, sync_names
from ottla.log.segment import Segment
from ottla.log.whole_file import put_in_place


class FlushTicket(NamedTuple):
    """One flush: what it makes durable (`offset`, exclusive), and the files, open or named, to sync for it."""

    offset: int
    generation: int
    disk: Disk
    directory: str
    files: list[tuple[Segment, File]]
    sealed: list[Segment]
    snapshots: list[str]
    epochs: str | None
    names: int
    """The number of the last change of names that it covers; 0 when there was none."""

    def run(self) -> None:
        """Sync everything. Blocking; raises StorageFailure, and then nothing of it counts."""
        try:
            for segment, file in self.files:
                self._sync(segment, file)
            paths = [path for segment in self.sealed for path in segment.index_paths()]
            for path in paths + self.snapshots:
                # Indexes and snapshots of segments deleted since are gone.
                with suppress(FileNotFoundError):
                    sync_file(self.disk, path)
            if self.epochs is not None:
                put_in_place(self.disk, f"{self.directory}/{EPOCH_CHECKPOINT}", self.epochs.encode())
            if self.epochs is not None or self.names:
                sync_names(self.disk, self.directory)
        except FileNotFoundError:
            # The directory has been renamed away with its topic.
            return
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error

    def _sync(self, segment: Segment, file: File) -> None:
        try:
            file.sync()
        except OSError as error:
            if error.errno != EBADF:
                raise NotDurable.of(file.path, error) from error
            # It was closed since the flush began; when it is deleted by now nobody needs it to last.
            with suppress(FileNotFoundError):
                sync_file(self.disk, segment.path)


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
