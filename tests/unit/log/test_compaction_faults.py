"""Compaction on a disk that is full, or broken."""

import errno
from pathlib import Path

import pytest

from kit.disks.compacting import compact, compactor, contents, history, manual_world, open_log, replicated
from kit.disks.faulty_disk import FaultyDisk
from ottla.log.files import StorageFailure
from ottla.runtime.disk import RealDisk


def test_a_disk_that_fills_up_under_compaction_leaves_the_log_and_no_files(tmp_path: Path) -> None:
    disk = FaultyDisk(RealDisk())
    world, _ = manual_world(disk)
    log = open_log(world, tmp_path)
    history(log, *([(b"%d" % (number % 5), b"x" * 100)] for number in range(20)))
    before = contents(log)
    work = compactor(world)
    disk.room = 300
    running = work.begin([log], 0)
    assert running is not None
    steps = running.steps()
    next(steps)()
    with pytest.raises(OSError, match="write failed") as caught:
        next(steps)()
    work.end(running, caught.value)
    assert contents(log) == before
    assert not list(tmp_path.glob("*.cleaned"))
    disk.heal()
    compact(work, log, world)
    assert contents(log) == before[-5:]


def test_what_a_failed_compaction_left_is_gone_before_the_next_one_writes(tmp_path: Path) -> None:
    """Both use the same names, and the removal that is owed would take what the second one has made."""
    disk = FaultyDisk(RealDisk())
    world, _ = manual_world(disk)
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")])
    work = compactor(world)
    running = work.begin([log], 0)
    assert running is not None
    steps = running.steps()
    next(steps)()
    next(steps)()
    disk.fail_when = lambda operation, path: errno.ENOSPC if operation in ("rename", "remove") else 0
    with pytest.raises(StorageFailure, match="rename failed") as caught:
        next(steps)
    work.end(running, caught.value)
    disk.heal()
    compact(work, log, world)
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", b"2")]
    log.close()
    assert contents(replicated(open_log(world, tmp_path))) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_a_compacted_segment_that_went_stands_for_nothing(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")])
    before = contents(log)
    work = compactor(world)
    running = work.begin([log], 0)
    assert running is not None
    steps = running.steps()
    next(steps)()
    next(steps)()
    (tmp_path / "00000000000000000000.log.cleaned").unlink()
    with pytest.raises(StorageFailure) as caught:
        next(steps)
    work.end(running, caught.value)
    assert contents(log) == before
    compact(work, log, world)
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_a_failing_disk_is_passed_on_and_a_full_one_waited_for(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"a", b"2")])
    work = compactor(world)
    for number, fatal in ((errno.ENOSPC, False), (errno.ENOENT, False), (errno.EIO, True)):
        running = work.begin([log], 0)
        assert running is not None
        error = OSError(number, "told by the disk")
        if fatal:
            with pytest.raises(StorageFailure, match="told by the disk"):
                work.end(running, error)
        else:
            work.end(running, error)
    assert work.uncleanable == {}
