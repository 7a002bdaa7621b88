"""Where an embedded system keeps its files, and which of them a node has open.

Owns: a temporary directory, in memory where the machine offers that, and the descriptors of a node. Never knows: what
is in the files. Invariant: what a killed node had open is closed as the system closes a dead process's files: nothing
is flushed, and locks are free.
"""

import os
import shutil
import tempfile
from weakref import WeakSet

from ottla.runtime.disk import RealDisk, RealFile

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
        opened = super().open(path, create=create, read_only=read_only)
        owned = OwnedFile(opened.path, opened.fileno())
        self._open.add(owned)
        return owned

    def close_all(self) -> None:
        for file in tuple(self._open):
            file.close()


def make_directory(parent: str | os.PathLike[str] | None) -> str:
    """A new directory under `parent`, or wherever there is memory or room for one."""
    if parent is not None:
        os.makedirs(parent, exist_ok=True)
        return tempfile.mkdtemp(prefix="ottla-", dir=parent)
    if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= ROOM_BYTES:
        return tempfile.mkdtemp(prefix="ottla-", dir=IN_MEMORY)
    return tempfile.mkdtemp(prefix="ottla-")
