"""A log on a disk that is full, or broken."""

import errno
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker
from ottla.log.settings import LogSettings
from support.workbench import Workbench

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
