"""Small files that are read and replaced as a whole.

Owns: the one way to do it: `<name>.tmp`, sync, rename, sync the directory. Never knows: what the bytes mean.
Invariant: after a crash at any point the file holds either its old or its new content, never a mixture.
"""

import os

from ottla.base.ports import Disk


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
    temporary = path + ".tmp"
    file = disk.open(temporary, create=True)
    try:
        # A crash may have left half a file of an earlier attempt.
        file.truncate(0)
        file.append(content)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))
