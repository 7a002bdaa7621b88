"""Names of the files in a partition's directory, and how failing files are told.

Owns: Kafka's naming (twenty digits of base offset, one suffix a kind, a second suffix for files in transit), the
`StorageFailure` of the room and the bundle of ports a log works on. Never knows: what is in the files.
"""

import errno
from collections.abc import Callable
from typing import NamedTuple, Self

from ottla.base.ports import Clock, Disk, File, Random
from ottla.log.open_files import UNBOUNDED, OpenFiles

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
ASIDE_SUFFIX = ".aside"
"""For segments that recovery found and could not use: kept for a person to look at, and never touched again."""

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

LARGEST_RELATIVE_OFFSET = 2**31 - 1
"""How far an offset may lie above its segment's base: the indexes keep it in a signed 32-bit field."""

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_NO_BYTES = frozenset({errno.ENOSPC, errno.EDQUOT})
_OUT_OF_SPACE = _NO_BYTES | _NO_DESCRIPTOR | {errno.EAGAIN}
"""Room for bytes or for descriptors, or the log's own turn: all of them come, and nothing is wrong with the disk."""


def _unnamed(path: str) -> str:
    return ""


class World(NamedTuple):
    """The ports a log works on."""

    disk: Disk
    clock: Clock
    random: Random
    boot: str = ""
    """Differs after every start of the machine, and with it the memory that holds what was not synced; empty where the
    system does not tell."""
    place: Callable[[str], str] = _unnamed
    """Names a file and the file system that holds it: another name for every copy of the file, after it was changed,
    and after the file system was attached anew, when it may have lost what was not synced though the machine ran on."""
    open_files: OpenFiles = UNBOUNDED


class StorageFailure(Exception):
    """A file that cannot be read or written: its directory is no longer to be trusted."""

    def __init__(self, path: str, number: int, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.errno = number
        self.message = message

    @property
    def out_of_space(self) -> bool:
        """Whether the disk (or the process's table of files) is merely full, so that a later attempt may succeed."""
        return self.errno in _OUT_OF_SPACE

    @classmethod
    def of(cls, path: str, error: OSError) -> Self:
        return cls(path, error.errno or 0, error.strerror or str(error))


class NotDurable(StorageFailure):
    """A sync that failed, for whatever reason: the system tells of it once and counts the bytes as written from then
    on, so no later sync says anything about them."""

    @property
    def out_of_space(self) -> bool:
        return False


def out_of_space(error: OSError) -> bool:
    return error.errno in _OUT_OF_SPACE


def disk_full(failure: Exception | None) -> bool:
    """Whether it tells of a file system, or a share of one, that has no room for bytes."""
    return isinstance(failure, StorageFailure | OSError) and failure.errno in _NO_BYTES


def how_to_make_room(directory: str) -> str:
    """What a person can do about a full disk without which nothing goes on."""
    return (
        f"free some space on the volume of {directory}, or move the oldest segments of a large topic elsewhere, "
        "and start again."
    )


def offset_path(directory: str, offset: int, suffix: str) -> str:
    return f"{directory}/{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset a file is named by, or None when the name does not begin with twenty digits and a dot."""
    digits = name[:20]
    if len(name) > 20 and name[20] == "." and digits.isascii() and digits.isdigit():
        return int(digits)
    return None


def sync_open(file: File) -> None:
    """Make an open file durable. Blocking; raises NotDurable."""
    try:
        file.sync()
    except OSError as error:
        raise NotDurable.of(file.path, error) from error


def sync_file(disk: Disk, path: str) -> None:
    """Make a file that is not open durable. Blocking; raises NotDurable, and OSError when it cannot be opened."""
    file = disk.open(path)
    try:
        sync_open(file)
    finally:
        file.close()


def sync_names(disk: Disk, directory: str) -> None:
    """Make what was made, renamed and removed in a directory durable. Blocking; raises NotDurable.

    FileNotFoundError is for the caller: the directory itself may have been renamed meanwhile.
    """
    try:
        disk.sync_directory(directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _NO_DESCRIPTOR:
            raise StorageFailure.of(directory, error) from error
        raise NotDurable.of(directory, error) from error
