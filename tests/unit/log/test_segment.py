"""One segment by itself: what it finds, which index entries it writes, how it is cut and renamed."""

import errno
from pathlib import Path

import pytest

from kit.disks.faulty_disk import FaultyDisk
from kit.disks.workbench import batch
from ottla.log.files import DELETED_SUFFIX, StorageFailure
from ottla.log.open_files import OpenFiles
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.records.header import CorruptBatch, read_header
from ottla.runtime.disk import RealDisk

BASE = 1000
SETTINGS = LogSettings(index_interval_bytes=200)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(RealDisk())


@pytest.fixture
def segment(disk: FaultyDisk, tmp_path: Path) -> Segment:
    return Segment.create(disk, str(tmp_path), BASE, SETTINGS)


def add(segment: Segment, offset: int, *values: bytes, timestamp: int = 5000) -> int:
    data = batch(*values, base_offset=offset, timestamp=timestamp)
    position = segment.write(data, len(data))
    header = read_header(data)
    segment.note(position, len(data), header.last_offset, header.max_timestamp)
    return position


def fill(segment: Segment, batches: int, timestamps: list[int] | None = None) -> list[int]:
    """Batches of two records, some hundred bytes each; answers where they begin."""
    times = timestamps or [5000 + number for number in range(batches)]
    return [add(segment, BASE + 2 * number, b"x" * 20, b"y" * 20, timestamp=times[number]) for number in range(batches)]


def test_every_offset_is_found_in_its_batch(segment: Segment) -> None:
    positions = fill(segment, 50)
    assert segment.index.entries > 5
    for number, position in enumerate(positions):
        for offset in (BASE + 2 * number, BASE + 2 * number + 1):
            located = segment.locate(offset)
            assert located is not None
            assert (located.position, located.base_offset) == (position, BASE + 2 * number)
    assert segment.locate(BASE + 100) is None
    assert segment.next_offset() == BASE + 100
    segment.close()


def test_an_offset_in_a_gap_leads_to_the_batch_behind_it(segment: Segment) -> None:
    add(segment, BASE, b"a")
    position = add(segment, BASE + 50, b"b")
    located = segment.locate(BASE + 7)
    assert located is not None
    assert located.position == position
    segment.close()


def test_a_batch_larger_than_a_search_step_is_stepped_over(segment: Segment) -> None:
    add(segment, BASE, b"x" * 100_000)
    position = add(segment, BASE + 1, b"y" * 100_000)
    located = segment.locate(BASE + 1)
    assert located is not None
    assert located.position == position
    assert [header.base_offset for _, header in segment.headers()] == [BASE, BASE + 1]
    segment.close()


def test_an_entry_names_the_batch_that_comes_after_the_interval(segment: Segment) -> None:
    positions = fill(segment, 10)
    size = positions[1]
    assert 100 < size < 200, "two batches make an interval of 200 bytes full"
    # Kafka counts the bytes before a batch since the batch of the last entry, that batch included.
    expected = [(BASE + 2 * number + 1, positions[number]) for number in (2, 4, 6, 8)]
    found = [segment.index.entry(slot) for slot in range(segment.index.entries)]
    assert [(BASE + relative, position) for relative, position in found] == expected
    segment.close()


def test_time_entries_tell_the_newest_batch_so_far(segment: Segment) -> None:
    fill(segment, 9, [50, 90, 60, 70, 80, 95, 10, 20, 30])
    segment.seal()
    found = [segment.time_index.entry(slot) for slot in range(segment.time_index.entries)]
    assert found == [(90, 3), (95, 11)]
    assert segment.latest == (95, BASE + 11)
    segment.close()


def test_sealing_adds_the_newest_timestamp_once(segment: Segment) -> None:
    add(segment, BASE, b"only", timestamp=77)
    assert segment.time_index.entries == 0
    segment.seal()
    segment.seal()
    assert segment.time_index.last() == (77, BASE)
    assert segment.time_index.entries == 1
    assert Path(segment.index.path).stat().st_size == 0
    segment.close()


def test_a_loaded_segment_is_as_it_was(disk: FaultyDisk, segment: Segment, tmp_path: Path) -> None:
    positions = fill(segment, 30)
    segment.seal()
    segment.close()
    loaded = Segment.load(disk, str(tmp_path), BASE, SETTINGS)
    assert loaded.size == segment.size
    assert loaded.latest == segment.latest
    assert loaded.first_timestamp == 5000
    assert loaded.next_offset() == BASE + 60
    located = loaded.locate(BASE + 31)
    assert located is not None
    assert located.position == positions[15]
    loaded.close()


def test_a_segment_that_does_nothing_holds_no_descriptor(disk: FaultyDisk, tmp_path: Path) -> None:
    open_files = OpenFiles(10)
    Segment.create(disk, str(tmp_path), BASE, SETTINGS, open_files=open_files)
    assert len(open_files) == 0
    assert disk.list(str(tmp_path)) == [f"{BASE:020d}.log"]
    lazy = Segment.lazy(disk, str(tmp_path), 0, SETTINGS, open_files=open_files)
    assert not disk.exists(lazy.path)
    add(lazy, 0, b"first")
    assert len(open_files) == 1
    lazy.close()
    assert len(open_files) == 0


@pytest.mark.parametrize("offset", [BASE + 20, BASE + 21])
def test_truncation_takes_the_batch_that_reaches_the_offset(segment: Segment, offset: int) -> None:
    positions = fill(segment, 20)
    located = segment.locate(offset)
    assert located is not None
    segment.cut(located.position, 0)
    segment.finish_cut(offset)
    assert segment.size == positions[10] == Path(segment.path).stat().st_size
    assert segment.next_offset() == BASE + 20
    assert segment.latest == (5009, BASE + 19)
    assert segment.index.last()[0] < BASE + 20
    add(segment, BASE + 20, b"again")
    assert segment.next_offset() == BASE + 21
    segment.close()


def test_truncation_to_nothing_begins_a_new_life(segment: Segment) -> None:
    fill(segment, 5)
    segment.cut(0, 123)
    segment.finish_cut(BASE)
    assert (segment.size, segment.created_ms, segment.first_timestamp) == (0, 123, -1)
    assert segment.latest == (-1, BASE)
    segment.close()


def test_a_failed_write_leaves_no_trace(disk: FaultyDisk, segment: Segment) -> None:
    fill(segment, 3)
    size = segment.size
    disk.room = 50
    with pytest.raises(OSError, match="write failed"):
        add(segment, BASE + 6, b"z" * 100)
    assert segment.size == size == Path(segment.path).stat().st_size
    disk.heal()
    assert add(segment, BASE + 6, b"z" * 100) == size
    segment.close()


def test_a_torn_tail_that_cannot_be_cut_is_a_storage_failure(disk: FaultyDisk, segment: Segment) -> None:
    add(segment, BASE, b"a")
    disk.room = 5
    disk.truncate_errno = errno.EIO
    with pytest.raises(StorageFailure):
        add(segment, BASE + 1, b"b")
    segment.close()


def test_all_files_are_renamed_and_go_together(disk: FaultyDisk, segment: Segment, tmp_path: Path) -> None:
    fill(segment, 10)
    segment.seal()
    segment.rename(DELETED_SUFFIX)
    assert disk.list(str(tmp_path)) == [f"{BASE:020d}{kind}.deleted" for kind in (".index", ".log", ".timeindex")]
    located = segment.locate(BASE + 3)
    assert located is not None, "who still holds it can read on"
    file = segment.file
    segment.delete()
    assert disk.list(str(tmp_path)) == []
    assert not segment.has_open(file)


def test_a_damaged_length_is_corruption_and_not_an_endless_walk(segment: Segment) -> None:
    fill(segment, 2)
    with Path(segment.path).open("r+b") as file:
        file.seek(8)
        file.write(b"\x00\x00\x00\x00")
    with pytest.raises(CorruptBatch):
        segment.locate(BASE + 3)
    with pytest.raises(CorruptBatch):
        list(segment.headers())
    segment.close()


def test_an_index_without_room_makes_the_segment_full(disk: FaultyDisk, tmp_path: Path) -> None:
    segment = Segment.create(disk, str(tmp_path), BASE, LogSettings(index_bytes=24, index_interval_bytes=0))
    fill(segment, 1)
    assert not segment.full
    add(segment, BASE + 2, b"x", timestamp=6000)
    assert segment.full, "of the two time entries that fit, the last waits for the seal"
    segment.close()
