"""The ports through which product code reaches time, randomness and files.

Owns: the protocols only. Every room takes the world from here, so the same code runs on the real machine (`runtime/`)
and on a seeded simulation. Invariant: at most eight methods a port.
"""

from typing import Protocol, TypeAlias

ByteView: TypeAlias = bytes | bytearray | memoryview


class Clock(Protocol):
    """Time, wall and monotonic."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for timestamps in records and files."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for deadlines."""
        ...


class Random(Protocol):
    """Where ids and jitter come from."""

    def identity(self) -> bytes:
        """Sixteen random bytes."""
        ...

    def uniform(self, low: float, high: float) -> float: ...


class File(Protocol):
    """One open file. Positions are bytes from the start; every method may raise OSError."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def append(self, *parts: ByteView) -> None:
        """Write all parts, in order, at the end; on OSError the file may hold any prefix of them."""
        ...

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when everything written so far is on stable storage. Blocking: call it from an I/O thread."""
        ...

    def map(self) -> memoryview:
        """A read-only mapping of the present content; later appends are not seen by it."""
        ...

    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 where there is none."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system, named by absolute path; every method may raise OSError."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open for reading and appending; `create` makes the file when it is not there."""
        ...

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted; FileNotFoundError when it is not there."""
        ...

    def make_directory(self, path: str) -> None:
        """Make it and its parents; no error when it is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomically replace `new`; works for files and directories."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all it holds; no error when it is not there."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make renames, creations and removals in a directory durable. Blocking."""
        ...

    def exists(self, path: str) -> bool: ...

    def modified_ms(self, path: str) -> int: ...
