"""Which log files are open: a bound for all, kept by those that are used least; and what goes on while they close."""

import errno
import os
from pathlib import Path

import pytest

from kit.disks.faulty_disk import FaultyDisk
from kit.disks.workbench import Workbench, batch
from ottla.log.files import StorageFailure
from ottla.log.open_files import LOOKS, OpenFiles
from ottla.log.segment import FileRange, Segment
from ottla.log.settings import LogSettings
from ottla.runtime.disk import RealDisk

SMALL = LogSettings(segment_bytes=400)


def descriptors(directory: Path) -> int:
    """How many descriptors of this process are files of the directory."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(directory))
        except FileNotFoundError:
            continue  # the listing's own
    return found


class Segments:
    """Segments of one node."""

    def __init__(self, directory: Path, most: int) -> None:
        self.directory = str(directory)
        self.disk = FaultyDisk(RealDisk())
        self.open_files = OpenFiles(most, lambda: self.seconds)
        self.seconds = 0.0
        self._count = 0

    def made(self) -> Segment:
        self._count += 1
        segment = Segment.create(
            self.disk, self.directory, self._count * 100, LogSettings(), open_files=self.open_files
        )
        grow(segment)
        return segment


def grow(segment: Segment) -> None:
    data = batch(b"value", base_offset=segment.base_offset)
    segment.write(data, len(data))


def test_no_more_files_are_open_than_there_may_be(tmp_path: Path) -> None:
    segments = Segments(tmp_path, most=5)
    made = [segments.made() for _ in range(20)]
    assert len(segments.open_files) == descriptors(tmp_path) == 5
    for segment in made:
        grow(segment)
        assert segment.locate(segment.base_offset) == (0, segment.size // 2, segment.base_offset)
    assert len(segments.open_files) == descriptors(tmp_path) == 5
    for segment in made:
        segment.close()
    assert len(segments.open_files) == descriptors(tmp_path) == 0


def test_files_that_grow_stay_open_before_those_that_do_not(tmp_path: Path) -> None:
    segments = Segments(tmp_path, most=4)
    made = [segments.made() for _ in range(12)]
    for segment in made:
        segment.close()
    busy, silent, *read = made
    held, other = busy.file, silent.file
    for segment in read:
        grow(busy)
        assert segment.file.size() == segment.size
    assert busy.has_open(held)
    assert not silent.has_open(other)


def test_one_goes_even_when_all_of_them_grow(tmp_path: Path) -> None:
    segments = Segments(tmp_path, most=LOOKS * 2)
    made = [segments.made() for _ in range(LOOKS * 2)]
    for segment in made:
        grow(segment)
    segments.made()
    assert descriptors(tmp_path) == LOOKS * 2


def test_a_range_on_its_way_keeps_the_descriptor_it_began_with(tmp_path: Path) -> None:
    segments = Segments(tmp_path, most=1)
    first = segments.made()
    answer = FileRange(first.file, 0, first.size)
    number = answer.file.fileno()
    segments.made()
    assert not first.has_open(answer.file), "the segment has let it go"
    assert answer.file.fileno() == number
    assert answer.file.read_at(0, 8) == (100).to_bytes(8, "big")
    assert descriptors(tmp_path) == 2
    del answer
    assert descriptors(tmp_path) == 1, "it is closed with the range"


def test_a_log_goes_on_while_others_take_its_files(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, SMALL)
    bench.open_files.most = 1
    bench.fill(20)
    ticket = bench.log.begin_flush()
    assert ticket is not None
    for segment in bench.log.segments:
        segment.let_go()
    ticket.run()
    bench.log.finish_flush(ticket)
    assert bench.log.recovery_point == 20
    bench.log.segments[-1].let_go()
    bench.fill(1)
    bench.log.segments[-1].let_go()
    bench.flush()
    bench.crash()
    assert len(bench.records()) == 21, "what was written by a descriptor that is closed was synced by the next"


def test_a_log_whose_files_were_taken_still_closes_in_order(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, LogSettings(index_interval_bytes=0))
    bench.fill(10)
    bench.flush()
    bench.log.segments[-1].let_go()
    bench.restart()
    assert bench.log.segments[0].index.entries == 9, "its index was written down"


def test_a_process_out_of_descriptors_closes_some_of_its_logs(tmp_path: Path) -> None:
    segments = Segments(tmp_path, most=100)
    made = [segments.made() for _ in range(16)]
    made[0].let_go()
    failures = iter([errno.EMFILE])
    opened = segments.disk.open

    class Short(FaultyDisk):
        def open(self, path: str, *, create: bool = False, read_only: bool = False):  # type: ignore[no-untyped-def]
            number = next(failures, 0)
            if number:
                raise OSError(number, "no descriptors", path)
            return opened(path, create=create, read_only=read_only)

    assert segments.open_files.open(Short(RealDisk()), made[0].path, create=False).size() == made[0].size
    assert len(segments.open_files) == 14


def test_without_anything_to_close_being_out_of_descriptors_is_told(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    bench.fill(1)
    bench.log.segments[0].close()
    bench.disk.open_errno = errno.EMFILE
    with pytest.raises((OSError, StorageFailure)):
        bench.log.read(0, 100, 1, True)


def test_a_node_that_is_short_of_files_says_so_now_and_then(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    segments = Segments(tmp_path, most=2)
    for _ in range(2):
        segments.made()
    assert caplog.messages == []
    for _ in range(20):
        segments.made()
    assert len(caplog.messages) == 1
    assert "ulimit -n" in caplog.messages[0]
    segments.seconds = 601.0
    segments.made()
    assert len(caplog.messages) == 2
    assert segments.open_files.reclaimed == 21
