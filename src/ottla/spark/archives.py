"""Where the segment files of partitions are: in a data directory, or in an archive of one.

Owns: finding them, and their bytes. Never knows: batches, Spark. Invariants: nothing is written beside what is read; a
plain tar is read in place, whatever is compressed is unpacked by each process once, to a place that goes with it.
"""

import atexit
import mmap
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, NamedTuple

from ottla.base.ports import ByteView
from ottla.base.vocabulary import TopicPartition
from ottla.log.data_directory import parse_name
from ottla.log.files import LOG_SUFFIX, offset_of
from ottla.spark.errors import BadOption


class SegmentFile(NamedTuple):
    """The bytes of a segment, in a file that may hold more."""

    base_offset: int
    path: Path
    start: int
    size: int

    def mapped(self) -> ByteView:
        """Its bytes; the mapping goes when nobody holds them any more."""
        if self.size == 0:
            return b""
        with self.path.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return whole[self.start : self.start + self.size]


Partitions = dict[TopicPartition, list[SegmentFile]]


def find_segments(path: str) -> Partitions:
    """The partitions at `path`, with their segments in order."""
    place = Path(path.removeprefix("file://"))
    if place.is_dir():
        files = _of_files(place.glob(f"*/*{LOG_SUFFIX}"))
    elif place.is_file():
        files = _of_archive(place)
    else:
        raise BadOption(f"path cannot be {path!r}: it is neither a directory nor an archive of one")
    found: Partitions = {}
    for partition, file in sorted(files):
        found.setdefault(partition, []).append(file)
    return found


def _of_files(paths: Iterable[Path]) -> Iterator[tuple[TopicPartition, SegmentFile]]:
    for path in paths:
        place = _place(path)
        if place is not None:
            partition, base = place
            yield partition, SegmentFile(base, path, 0, path.stat().st_size)


def _of_archive(archive: Path) -> Iterator[tuple[TopicPartition, SegmentFile]]:
    try:
        with tarfile.open(archive, "r:") as plain:
            for member in plain:
                place = _place(PurePosixPath(member.name)) if member.isfile() else None
                if place is not None:
                    partition, base = place
                    yield partition, SegmentFile(base, archive, member.offset_data, member.size)
    except tarfile.ReadError:
        yield from _of_files(_unpacked(archive, archive.stat().st_mtime_ns).rglob(f"*{LOG_SUFFIX}"))


def _place(path: PurePath) -> tuple[TopicPartition, int] | None:
    """Which segment of which partition a file is, told by the last two names of its path."""
    name = parse_name(path.parent.name)
    base = offset_of(path.name) if path.suffix == LOG_SUFFIX else None
    return None if name is None or name.mark is not None or base is None else (name.topic_partition, base)


@cache
def _unpacked(archive: Path, _changed: int) -> Path:
    """The segments of a compressed archive, on disk."""
    target = Path(tempfile.mkdtemp(prefix="ottla-archive-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for name in zipped.namelist():
                    _unpack(target, name, partial(zipped.open, name))
        else:
            with tarfile.open(archive, "r:*") as packed:
                for member in packed:
                    if member.isfile():
                        _unpack(target, member.name, partial(packed.extractfile, member))
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as problem:
        said = f"path cannot be {str(archive)!r}: it is no tar or zip of a data directory ({problem})"
        raise BadOption(said) from None
    return target


def _unpack(target: Path, name: str, begin: Callable[[], IO[bytes] | None]) -> None:
    """Segments only, under names of our own: those of an archive may lead anywhere."""
    place = _place(PurePosixPath(name))
    source = None if place is None else begin()
    if place is not None and source is not None:
        directory = target / str(place[0])
        directory.mkdir(exist_ok=True)
        with source, (directory / f"{place[1]:020d}{LOG_SUFFIX}").open("wb") as file:
            shutil.copyfileobj(source, file)
