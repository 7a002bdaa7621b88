"""Indexes are derived data: one that is found wrong is made anew from the batches, and the reader gets its records."""

import errno
from pathlib import Path
from random import Random

import pytest

from kit.disks.workbench import Workbench
from ottla.base.errors import ErrorCode
from ottla.log.cached_reads import CachedReads, ColdLookUp
from ottla.log.index import OffsetIndex
from ottla.log.segment import FileRange, Segment
from ottla.log.settings import LogSettings
from ottla.records.header import read_header

SETTINGS = LogSettings(segment_bytes=20_000, index_interval_bytes=200)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path / "orders-3", SETTINGS)
    while len(bench.log.segments) < 3:
        bench.fill(10)
    bench.flush()
    bench.restart()
    return bench


def garbage(segment: Segment, kind: str, seed: int = 0) -> None:
    """What a broken disk, or a tool, may leave of an index."""
    path = Path(segment.index.path)
    data = path.read_bytes()
    entries = list(OffsetIndex.ENTRY.iter_unpack(data))
    places = [position for _, position in entries]
    entry = OffsetIndex.ENTRY.pack
    pieces = {
        "noise": Random(seed).randbytes(len(data)),
        "zeros": bytes(len(data)),
        "ahead": b"".join(
            entry(offset, places[min(slot + 1, len(places) - 1)]) for slot, (offset, _) in enumerate(entries)
        ),
        "shifted": b"".join(entry(offset, position + 5) for offset, position in entries),
    }
    path.write_bytes(pieces[kind])


@pytest.mark.parametrize("kind", ["noise", "zeros", "ahead", "shifted"])
@pytest.mark.parametrize("seed", range(3))
def test_what_lies_behind_a_wrong_index_is_read_and_the_index_is_made_anew(
    bench: Workbench, kind: str, seed: int
) -> None:
    segment = bench.log.segments[0]
    before = Path(segment.index.path).read_bytes()
    garbage(segment, kind, seed)
    offsets = list(range(bench.log.end_offset))
    Random(seed).shuffle(offsets)
    for offset in offsets:
        found = bench.log.read(offset, 1, bench.log.end_offset, True)
        assert isinstance(found, FileRange), (offset, found)
        assert read_header(found.file.read_at(found.position, found.length)).base_offset == offset
    if kind != "zeros":  # these lead to the beginning, which is slow, and right
        assert Path(segment.index.path).read_bytes() == before
    bench.crash()
    assert [offset for offset, _ in bench.records()] == list(range(bench.log.end_offset))


def test_a_thread_reads_the_batches_when_the_reader_must_not_wait(bench: Workbench) -> None:
    garbage(bench.log.segments[0], "noise")
    with pytest.raises(ColdLookUp) as cold:
        bench.log.read(100, 1, bench.log.end_offset, True, CachedReads())
    cold.value.warm()
    found = bench.log.read(100, 1, bench.log.end_offset, True)
    assert isinstance(found, FileRange)
    assert read_header(found.file.read_at(found.position, found.length)).base_offset == 100


def test_damaged_batches_are_no_reason_to_change_an_index_and_are_looked_through_once(bench: Workbench) -> None:
    segment = bench.log.segments[0]
    before = Path(segment.index.path).read_bytes()
    with Path(segment.path).open("r+b") as file:
        file.seek(8)
        file.write(b"\xff\xff\xff\xff")
    assert bench.log.read(1, 100, bench.log.end_offset, True) is ErrorCode.CORRUPT_MESSAGE
    calls = len(bench.disk.calls)
    assert bench.log.read(1, 100, bench.log.end_offset, True) is ErrorCode.CORRUPT_MESSAGE
    assert len(bench.disk.calls) - calls < 5
    assert Path(segment.index.path).read_bytes() == before
    assert isinstance(bench.log.read(100, 100, bench.log.end_offset, True), FileRange), "what lies behind is read"


def test_an_index_that_cannot_be_written_anew_serves_from_memory_until_there_is_room(bench: Workbench) -> None:
    segment = bench.log.segments[0]
    before = Path(segment.index.path).read_bytes()
    garbage(segment, "noise")
    bench.disk.fail_when = lambda operation, path: errno.ENOSPC if operation in ("create", "append") else 0
    assert isinstance(bench.log.read(100, 1, bench.log.end_offset, True), FileRange)
    bench.disk.heal()
    bench.flush()
    assert Path(segment.index.path).read_bytes() == before


def test_a_log_is_cut_in_a_segment_whose_index_is_wrong(bench: Workbench) -> None:
    garbage(bench.log.segments[0], "noise")
    bench.log.truncate_to(100)
    assert [offset for offset, _ in bench.records()] == list(range(100))


def test_a_time_is_found_behind_a_wrong_index(bench: Workbench) -> None:
    search = bench.log.time_search(1_700_000_000_000)
    right = search.run()
    garbage(bench.log.segments[0], "noise")
    assert bench.log.time_search(1_700_000_000_000).run() == right
