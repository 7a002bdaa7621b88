"""Look-ups that would wait for the disk say so, and are made by a thread first."""

import errno
import os
from pathlib import Path
from threading import Thread

import pytest

from kit.disks.workbench import Workbench
from ottla.base.ports import File
from ottla.log.cached_reads import CachedReads, ColdLookUp, NotCached, Reader
from ottla.log.producers import EndMarker
from ottla.log.segment import FileRange
from ottla.log.settings import LogSettings
from ottla.runtime.disk import RealDisk

SMALL = LogSettings(segment_bytes=60_000, index_interval_bytes=100)


class Forgetful(CachedReads):
    """Nothing of certain files is in memory."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self._ending = ending

    def reader(self, file: File) -> Reader:
        def absent(_position: int, _length: int) -> bytes:
            raise NotCached

        return absent if file.path.endswith(self._ending) else super().reader(file)


def warm_in_a_thread(cold: ColdLookUp) -> None:
    thread = Thread(target=cold.warm)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path / "orders-3", SMALL)
    bench.fill(1000)
    bench.flush()
    return bench


@pytest.mark.parametrize("ending", [".log", ".index"])
def test_a_look_up_that_would_wait_is_cold_and_is_answered_after_a_thread_made_it(
    bench: Workbench, ending: str
) -> None:
    log = bench.log
    with pytest.raises(ColdLookUp) as found:
        log.read(100, 1000, 900, True, Forgetful(ending))
    warm_in_a_thread(found.value)
    answer = log.read(100, 1000, 900, True)
    assert isinstance(answer, FileRange)
    assert int.from_bytes(answer.file.read_at(answer.position, 8)) == 100
    assert log.read(100, 1000, 900, True, CachedReads()) == answer, "a warm look-up answers the same"


def test_the_end_of_the_log_is_read_without_a_look_at_any_file(bench: Workbench) -> None:
    assert isinstance(bench.log.read(999, 1000, 1000, True, Forgetful("")), FileRange)
    assert bench.log.read(1000, 1000, 1000, True, Forgetful("")) is None


def test_aborted_transactions_and_bounds_of_answers_are_cold_in_the_same_way(bench: Workbench) -> None:
    log = bench.log
    bench.append(b"x", producer=(7, 0, 0), transactional=True)
    log.append_control(EndMarker(7, 0, 0, commit=False), 0, bench.clock.now)
    with pytest.raises(ColdLookUp) as found:
        log.aborted_transactions(1000, 1002, Forgetful(".txnindex"))
    warm_in_a_thread(found.value)
    assert log.aborted_transactions(1000, 1002, CachedReads()) == log.aborted_transactions(1000, 1002)
    assert len(log.aborted_transactions(1000, 1002)) == 1
    answer = log.read(100, 1000, 900, True)
    assert isinstance(answer, FileRange)
    log.segments[0].index.close()
    with pytest.raises(ColdLookUp) as found:
        log.upper_bound(100, answer, Forgetful(".index"))
    warm_in_a_thread(found.value)
    assert log.upper_bound(100, answer, CachedReads()) == log.upper_bound(100, answer)


def test_a_segment_that_went_meanwhile_does_not_trouble_the_thread(bench: Workbench) -> None:
    with pytest.raises(ColdLookUp) as found:
        bench.log.read(100, 1000, 900, True, Forgetful(".log"))
    bench.log.truncate_fully_and_start_at(5000)
    found.value.warm()
    bench.disk.open_errno = errno.EMFILE
    found.value.warm()


def test_pages_that_the_system_dropped_make_a_look_up_cold_until_they_are_read(bench: Workbench) -> None:
    log, cached = bench.log, CachedReads()
    for name in os.listdir(bench.directory):
        descriptor = os.open(f"{bench.directory}/{name}", os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    for segment in log.segments:
        segment.let_go()
    for _ in range(10):  # memory can be so short that what was read is gone again
        try:
            answer = log.read(100, 1000, 900, True, cached)
        except ColdLookUp as cold:
            cold.warm()
            continue
        assert isinstance(answer, FileRange)
        assert int.from_bytes(answer.file.read_at(answer.position, 8)) == 100
        return
    raise AssertionError("a look-up stays cold though it was made ten times")


def test_a_cached_read_ends_with_its_file(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.append(b"0123456789")
    read = CachedReads().reader(file)
    assert (read(0, 10), read(4, 3), read(8, 100), read(50, 5)) == (b"0123456789", b"456", b"89", b"")


def test_where_the_system_cannot_tell_a_read_is_an_ordinary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.append(b"0123456789")
    problems = [errno.EIO, errno.EOPNOTSUPP]

    def refuse(*_: object) -> int:
        raise OSError(problems.pop(), "no")

    monkeypatch.setattr(os, "preadv", refuse)
    cached = CachedReads()
    assert cached.reader(file)(2, 3) == b"234"
    assert cached.reader(file)(2, 3) == b"234"
    with pytest.raises(OSError, match="no"):
        CachedReads().reader(file)(2, 3)
