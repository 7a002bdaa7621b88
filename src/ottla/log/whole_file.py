"""Small files that are read and replaced as a whole.

Owns: the one way to do it: `<name>.tmp`, sync, rename, sync the directory. Never knows: what the bytes mean.
Invariant: after a crash at any point the file holds either its old or its new content, never a mixture.
"""

import os
from collections.abc import Callable

from ottla.base.ports import Disk, File

TEMPORARY_SUFFIX = ".tmp"
_COPIED_AT_ONCE = 1 << 20


def read_whole(disk: Disk, path: str) -> bytes | None:
    """The content, or None when there is no such file."""
    try:
        file = disk.open(path, read_only=True)
    except FileNotFoundError:
        return None
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def replace_whole(disk: Disk, path: str, content: bytes) -> None:
    """Put `content` in the place of whatever is there, durably. Blocking."""
    put_in_place(disk, path, content)
    disk.sync_directory(os.path.dirname(path))


def put_in_place(disk: Disk, path: str, content: bytes) -> None:
    """All of `replace_whole` but the last step: the name is durable when the caller has synced the directory.

    When the sync fails the next attempt writes every byte again, so nothing is believed that was not written.
    """
    _replace(disk, path, lambda file: file.append(content))


def write_again(disk: Disk, path: str) -> None:
    """Write the same bytes to a new file in the place of this one, durably. Blocking.

    For files of which a sync may have failed: the system takes such bytes for written, so another sync of the same
    file proves nothing.
    """
    source = disk.open(path, read_only=True)
    try:
        _replace(disk, path, lambda file: _copy(source, file))
    finally:
        source.close()
    disk.sync_directory(os.path.dirname(path))


def _copy(source: File, target: File) -> None:
    size = source.size()
    for position in range(0, size, _COPIED_AT_ONCE):
        target.append(source.read_at(position, min(_COPIED_AT_ONCE, size - position)))


def _replace(disk: Disk, path: str, write: Callable[[File], None]) -> None:
    temporary = path + TEMPORARY_SUFFIX
    file = disk.open(temporary, create=True)
    try:
        # A crash may have left half a file of an earlier attempt.
        file.truncate(0)
        write(file)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
