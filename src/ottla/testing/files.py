"""Where an embedded system keeps its files, and which of them a node has open.

Owns: a temporary directory, in memory where the machine offers that, and the descriptors of a node. Never knows: what
is in the files. Invariant: what a killed node had open is closed as the system closes a dead process's files: nothing
is flushed, and locks are free; a directory whose process was killed is removed by the next one that looks.
"""

import glob
import os
import shutil
import tempfile
from weakref import WeakSet

from ottla.runtime.disk import RealDisk, RealFile

try:
    import fcntl
except ImportError:  # a platform without it cannot tell whose process is gone
    fcntl = None  # type: ignore[assignment]

PREFIX = "ottla-"
LOCK_FILE = ".in-use"
IN_MEMORY = "/dev/shm"
ROOM_BYTES = 256 * 1024 * 1024
"""Containers often have a small one: with less room than this a disk is the better place."""


class OwnedFile(RealFile):
    """One that can be found again without being kept."""

    __slots__ = ("__weakref__",)


class OwnedDisk(RealDisk):
    """The machine's file system for one life of one node."""

    def __init__(self) -> None:
        self._open: WeakSet[OwnedFile] = WeakSet()

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> OwnedFile:
        owned = OwnedFile(path, self.descriptor(path, create=create, read_only=read_only))
        self._open.add(owned)
        return owned

    def close_all(self) -> None:
        for file in tuple(self._open):
            file.close()


class TemporaryDirectory:
    """A new directory under `parent`, or wherever there is memory or room for one."""

    def __init__(self, parent: str | os.PathLike[str] | None) -> None:
        if parent is not None:
            os.makedirs(parent, exist_ok=True)
        elif os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= ROOM_BYTES:
            parent = IN_MEMORY
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        _remove_left_behind(os.path.dirname(self.path))
        self._lock = _hold(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _hold(path: str) -> int:
    """Lock the directory for as long as this process lives."""
    unready, ready = os.path.join(path, ".unready"), os.path.join(path, LOCK_FILE)
    descriptor = os.open(unready, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Under its name it is locked from the beginning: nobody can find it free.
    os.rename(unready, ready)
    return descriptor


def _remove_left_behind(parent: str) -> None:
    """Directories of processes that were killed, which take up memory for nothing."""
    if fcntl is None:
        return
    for path in glob.glob(os.path.join(glob.escape(parent), f"{PREFIX}*")):
        try:
            descriptor = os.open(os.path.join(path, LOCK_FILE), os.O_RDWR)
        except OSError:
            continue  # not ready, not ours, or gone in between
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
