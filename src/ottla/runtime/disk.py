"""The real file system behind the `Disk` port.

Owns: descriptors. Never knows: what the bytes mean. Invariants: a file is closed at the latest with its last reference;
an append either writes every byte or raises, and the caller decides whether to cut the torn tail.
"""

import errno
import mmap
import os
import shutil

from ottla.base.ports import ByteView

MOST_PARTS = 1024  # what the kernel takes in one writev


class RealFile:
    """One descriptor opened for reading and appending."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def append(self, *parts: ByteView) -> None:
        if len(parts) == 1:
            data = parts[0]
            written = os.write(self._descriptor, data)
            if written != len(data):
                self._append_rest(memoryview(data)[written:])
            return
        for start in range(0, len(parts), MOST_PARTS):
            chunk = parts[start : start + MOST_PARTS]
            total = sum(map(len, chunk))
            written = os.writev(self._descriptor, chunk)
            if written != total:
                self._append_rest(memoryview(b"".join(chunk))[written:])

    def _append_rest(self, rest: memoryview) -> None:
        while len(rest):
            rest = rest[os.write(self._descriptor, rest) :]

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        descriptor = self._descriptor
        if descriptor < 0:
            # Python's fsync alone takes this for a wrong argument, not for a file that cannot be synced.
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fsync(descriptor)

    def map(self) -> memoryview:
        if self.size() == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor = self._descriptor
        if descriptor >= 0:
            # Closing lets other threads run: one of them must not use a number that already means another file.
            self._descriptor = -1
            os.close(descriptor)

    __del__ = close  # whoever holds the file last decides how long it stays open


class RealDisk:
    """The machine's own file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        return RealFile(path, self.descriptor(path, create=create, read_only=read_only))

    @staticmethod
    def descriptor(path: str, *, create: bool, read_only: bool) -> int:
        """For one file object only, which closes it when nobody holds that any more."""
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND
        if create:
            flags |= os.O_CREAT
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o644)

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            # Unlinking a directory is EISDIR on Linux and EPERM elsewhere.
            shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000
