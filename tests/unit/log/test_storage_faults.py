"""A log on a disk that is full, or broken."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.disks.compacting import manual_world
from kit.disks.faulty_disk import FaultyDisk
from kit.disks.workbench import Workbench
from ottla.base.errors import ErrorCode
from ottla.log.files import NotDurable, StorageFailure
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore, NoUsableDirectory
from ottla.runtime.disk import RealDisk

SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "orders-3", SMALL)


@pytest.mark.parametrize("room", range(0, 400, 23))
def test_a_full_disk_refuses_an_append_and_takes_it_when_there_is_room(bench: Workbench, room: int) -> None:
    bench.fill(4)
    before = bench.records()
    bench.disk.room = room
    outcomes = [bench.append(b"z" * 100, producer=(1, 0, number)) for number in range(3)]
    written = sum(outcome.error is ErrorCode.NONE for outcome in outcomes)
    assert written < 3
    failed = outcomes[written]
    assert failed.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert failed.message is not None
    assert "No room" in failed.message
    assert len(bench.records()) == len(before) + written, "what is there can be read"
    bench.disk.heal()
    assert bench.append(b"z" * 100, producer=(1, 0, written)).base_offset == 4 + written
    bench.crash(lambda _, synced, size: size)
    assert len(bench.records()) == 5 + written


def test_a_disk_that_fills_during_a_roll_leaves_the_log_usable(bench: Workbench) -> None:
    bench.fill(5)
    assert len(bench.log.segments) == 1
    for room in range(0, 300, 7):
        bench.disk.room = room
        outcome = bench.append(b"z" * 100)
        if outcome.error is ErrorCode.NONE:
            break
        assert outcome.error is ErrorCode.KAFKA_STORAGE_ERROR
    bench.disk.heal()
    bench.fill(10)
    assert [offset for offset, _ in bench.records()] == list(range(bench.log.end_offset))
    bench.crash(lambda _, synced, size: size)
    assert [offset for offset, _ in bench.records()] == list(range(bench.log.end_offset))


def test_a_failing_write_is_a_storage_failure(bench: Workbench) -> None:
    bench.fill(2)
    bench.disk.fail_writes_from = bench.disk.writes + 1
    with pytest.raises(StorageFailure) as failure:
        bench.append(b"x")
    assert failure.value.errno == errno.EIO
    assert failure.value.path.endswith(".log")
    assert len(bench.records()) == 2


def test_a_failing_sync_is_a_storage_failure_and_moves_no_recovery_point(bench: Workbench) -> None:
    bench.fill(2)
    ticket = bench.log.begin_flush()
    assert ticket is not None
    bench.disk.sync_errno = errno.EIO
    with pytest.raises(StorageFailure):
        ticket.run()
    assert bench.log.recovery_point == 0


def test_a_flush_of_a_segment_that_was_deleted_meanwhile_is_no_failure(bench: Workbench) -> None:
    bench.fill(20)
    ticket = bench.log.begin_flush()
    assert ticket is not None
    bench.log.delete_records_before(10)
    bench.log.delete_segments(bench.log.expired_segments(bench.clock.now))
    for removal in bench.log.take_removals():
        removal.run()
    ticket.run()
    bench.log.finish_flush(ticket)
    assert bench.log.recovery_point == 20


def test_a_flush_of_a_log_that_was_closed_meanwhile_is_no_failure(bench: Workbench) -> None:
    bench.fill(2)
    ticket = bench.log.begin_flush()
    assert ticket is not None
    bench.log.close()
    ticket.run()


def test_running_out_of_descriptors_refuses_an_append_and_no_more(bench: Workbench) -> None:
    bench.fill(1)
    bench.log.abandon()
    bench.disk.open_errno = errno.EMFILE
    assert bench.append(b"x").error is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(StorageFailure) as failure:
        bench.load(clean=True)
    assert failure.value.out_of_space
    bench.disk.heal()
    assert bench.append(b"x").base_offset == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_an_abort_without_a_descriptor_for_its_index_is_told_to_readers_all_the_same(
    bench: Workbench, number: int
) -> None:
    bench.append(b"doomed", producer=(7, 0, 0), transactional=True)
    bench.disk.open_errno = number
    marker = EndMarker(7, 0, 0, commit=False)
    assert bench.log.append_control(marker, 0, bench.clock.now).error is ErrorCode.NONE
    aborted = [AbortedTransaction(7, 0, 1, 2)]
    assert bench.log.aborted_transactions(0, 2) == aborted
    bench.disk.heal()
    bench.restart()
    assert bench.log.aborted_transactions(0, 2) == aborted


def test_an_offline_log_is_let_go_without_a_write(bench: Workbench) -> None:
    bench.fill(3)
    bench.disk.fail_writes_from = 0
    bench.log.abandon()
    assert len(bench.open_files) == 0


# What fails half-way


def fail_on(bench: Workbench, ending: str, operation: str, number: int = errno.ENOSPC) -> None:
    """Let one kind of call on files of one kind fail until the disk is healed."""
    bench.disk.fail_when = lambda what, path: number if what == operation and path.endswith(ending) else 0


@pytest.mark.parametrize("restart", [Workbench.restart, lambda bench: bench.crash(lambda _, synced, size: size)])
def test_a_roll_without_room_for_its_snapshot_leaves_no_segment_that_others_pass(
    bench: Workbench, restart: Callable[[Workbench], None]
) -> None:
    bench.fill(4)
    fail_on(bench, ".snapshot", "create")
    assert bench.append(b"b" * 700).error is ErrorCode.KAFKA_STORAGE_ERROR
    bench.disk.heal()
    assert [bench.append(b"small").base_offset for _ in range(3)] == [4, 5, 6]
    restart(bench)
    assert bench.log.end_offset == 7
    assert len(bench.records()) == 7


def test_a_torn_piece_that_cannot_be_cut_off_is_cut_off_before_the_next_append(bench: Workbench) -> None:
    bench.fill(1)
    bench.disk.room = 30
    bench.disk.truncate_errno = errno.ENOSPC
    assert bench.append(b"torn").error is ErrorCode.KAFKA_STORAGE_ERROR
    bench.disk.room = None
    assert bench.append(b"still torn").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(bench.records()) == 1
    bench.disk.heal()
    assert bench.append(b"second").base_offset == 1
    assert bench.records()[1:] == [(1, b"second")]
    bench.crash(lambda _, synced, size: size)
    assert bench.records()[1:] == [(1, b"second")]


def test_a_flush_that_failed_has_everything_still_to_do(bench: Workbench) -> None:
    for epoch in range(1, 6):
        bench.append(b"x" * 300, epoch=epoch)
        bench.append(b"y" * 300, epoch=epoch)
    history = list(bench.log.epochs.entries)
    fail_on(bench, ".tmp", "create", errno.EMFILE)
    with pytest.raises(StorageFailure) as failure:
        bench.flush()
    assert failure.value.out_of_space
    bench.disk.heal()
    assert bench.log.recovery_point == 0
    bench.flush()
    assert bench.log.recovery_point == 10
    bench.crash()
    assert bench.log.epochs.entries == history
    assert len(bench.records()) == 10


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_sync_that_fails_is_never_a_mere_lack_of_room(bench: Workbench, number: int) -> None:
    bench.fill(2)
    bench.disk.sync_errno = number
    with pytest.raises(NotDurable) as failure:
        bench.flush()
    assert not failure.value.out_of_space


def test_a_log_that_begins_anew_without_a_descriptor_is_whole_and_goes_on(bench: Workbench) -> None:
    bench.fill(10)
    fail_on(bench, f"{50:020d}.log", "create", errno.EMFILE)
    with pytest.raises(StorageFailure) as failure:
        bench.log.truncate_fully_and_start_at(50)
    assert failure.value.out_of_space
    assert (bench.log.start_offset, bench.log.end_offset, bench.log.high_watermark) == (50, 50, 50)
    assert bench.log.read(2, 1000, 50, True) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.append(b"x").error is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(StorageFailure):
        bench.log.begin_flush()
    bench.disk.heal()
    assert bench.append(b"x").base_offset == 50
    bench.restart()
    assert bench.records() == [(50, b"x")]


def test_a_cut_that_stops_half_way_is_finished_before_the_next_append(bench: Workbench) -> None:
    bench.fill(20)
    fail_on(bench, f"{5:020d}.log", "rename")
    with pytest.raises(StorageFailure):
        bench.log.truncate_to(3)
    assert (bench.log.end_offset, bench.log.high_watermark, bench.log.last_stable_offset) == (3, 3, 3)
    assert bench.append(b"early").error is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(bench.records()) == 3
    bench.disk.heal()
    assert bench.append(b"late").base_offset == 3
    bench.crash(lambda _, synced, size: size)
    assert bench.records()[3:] == [(3, b"late")]


def test_a_log_that_was_cut_below_its_checkpoint_rolls_when_the_lower_one_is_written(bench: Workbench) -> None:
    bench.fill(20)
    bench.flush()
    bench.log.checkpointed = 20
    bench.log.truncate_to(2)
    outcomes = [bench.append(b"z" * 400).error for _ in range(3)]
    assert outcomes[-1] is ErrorCode.KAFKA_STORAGE_ERROR, "after a power cut such a segment would be believed unread"
    bench.log.checkpointed = bench.log.recovery_point
    assert bench.append(b"z" * 400).error is ErrorCode.NONE


def test_a_store_whose_directories_are_full_says_what_to_do(tmp_path: Path) -> None:
    disk = FaultyDisk(RealDisk())
    disk.fail_when = lambda operation, path: errno.ENOSPC if operation == "create" else 0
    world, _ = manual_world(disk)
    with pytest.raises(NoUsableDirectory, match=f"free some space on the volume of {tmp_path}"):
        LogStore([str(tmp_path)], world).open(1)
