"""Opening a directory after a clean stop, after a crash, and among the leftovers of interrupted work."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.log.files import CLEANED_SUFFIX, StorageFailure
from ottla.log.producers import EndMarker
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from support.faulty_disk import PowerCut, lose_nothing
from support.workbench import Workbench, batch

SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "orders-3", SMALL)


def files(bench: Workbench) -> dict[str, bytes]:
    return {name: Path(bench.directory, name).read_bytes() for name in sorted(os.listdir(bench.directory))}


def test_an_empty_directory_is_an_empty_log(bench: Workbench) -> None:
    log = bench.load(start_offset=40)
    assert (log.start_offset, log.end_offset, log.recovery_point) == (40, 40, 40)
    assert bench.disk.list(bench.directory) == []


def test_a_clean_stop_needs_no_scan(bench: Workbench) -> None:
    bench.fill(30)
    bench.append(b"last", producer=(1, 0, 0), epoch=2)
    before = bench.records()
    bench.log.close()
    # Were a batch read, its checksum would be found wrong.
    first = Path(bench.directory, f"{0:020d}.log")
    damaged = bytearray(first.read_bytes())
    damaged[80] ^= 1
    first.write_bytes(damaged)
    bench.log = bench.load(clean=True, recovery_point=bench.log.recovery_point)
    assert bench.log.end_offset == 31
    assert bench.log.recovery_point == 31
    assert bench.log.epochs.entries == [(0, 0), (2, 30)]
    assert bench.append(b"last", producer=(1, 0, 0)).base_offset == 30
    assert [offset for offset, _ in bench.records()] == [offset for offset, _ in before]


def test_stopping_and_starting_again_changes_no_file(bench: Workbench) -> None:
    bench.fill(30)
    bench.restart()
    before = files(bench)
    bench.restart()
    assert files(bench) == before


def test_a_crash_without_loss_brings_back_the_very_same_indexes(bench: Workbench) -> None:
    for number in range(30):
        bench.append(b"x" * 60, timestamp=bench.clock.now + number % 7, producer=(4, 0, number))
    bench.append(b"t", producer=(5, 0, 0), transactional=True)
    bench.log.append_control(EndMarker(5, 0, 1, False), 0, bench.clock.now)
    bench.log.close()
    before = files(bench)
    for name in before:
        if name.endswith(("index", ".snapshot")):
            os.remove(Path(bench.directory, name))
    bench.log = bench.load()
    assert bench.log.recovery_point == 0, "nothing has been synced by reading it"
    bench.log.close()
    after = files(bench)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("lost", [1, 30, 70, 100, 170, 200])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(bench: Workbench, lost: int) -> None:
    bench.fill(12)
    bench.flush()
    bench.append(b"y" * 100)
    bench.crash(lambda _, synced, size: max(synced, size - lost))
    kept = bench.log.end_offset
    assert kept in (12, 13)
    assert len(bench.records()) == kept
    assert bench.log.segments[-1].size == Path(bench.log.segments[-1].path).stat().st_size
    assert bench.append(b"next").base_offset == kept


def test_garbage_behind_the_last_batch_is_cut(bench: Workbench) -> None:
    bench.fill(3)
    bench.log.abandon()
    with Path(bench.log.segments[-1].path).open("ab") as file:
        file.write(os.urandom(300))
    bench.log = bench.load()
    assert bench.log.end_offset == 3
    assert bench.log.size == Path(bench.log.segments[-1].path).stat().st_size


def test_a_flipped_bit_ends_the_log_there_and_takes_the_segments_behind(bench: Workbench) -> None:
    bench.fill(20)
    bench.log.abandon()
    second = bench.log.segments[1]
    with Path(second.path).open("r+b") as file:
        file.seek(second.size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 8]))
    bench.log = bench.load()
    assert second.base_offset < bench.log.end_offset < bench.log.segments[0].base_offset + 20
    assert len(bench.log.segments) == 2
    assert len(bench.records()) == bench.log.end_offset
    behind = {int(name[:20]) for name in os.listdir(bench.directory) if name[0] == "0"}
    assert max(behind) == bench.log.end_offset, "a snapshot at the new end, and nothing beyond"


def test_whole_batches_missing_before_the_next_segment_end_the_log(bench: Workbench) -> None:
    bench.fill(20)
    first = bench.log.segments[0]
    located = first.locate(2)
    assert located is not None
    bench.log.abandon()
    os.truncate(first.path, located.position)
    bench.log = bench.load()
    assert bench.log.end_offset == 2
    assert len(bench.log.segments) == 1


def test_a_compacted_log_may_have_gaps_between_segments(bench: Workbench) -> None:
    bench.fill(20)
    bench.log.abandon()
    located = bench.log.segments[0].locate(2)
    assert located is not None
    os.truncate(bench.log.segments[0].path, located.position)
    bench.log.abandon()
    bench.settings = SMALL._replace(cleanup_compact=True)
    bench.log = bench.load()
    assert bench.log.end_offset == 20


def test_what_was_flushed_is_not_read_again(bench: Workbench) -> None:
    bench.fill(20)
    bench.flush()
    bench.log.abandon()
    first = Path(bench.log.segments[0].path)
    damaged = bytearray(first.read_bytes())
    damaged[80] ^= 1
    first.write_bytes(damaged)
    log = bench.load(recovery_point=bench.log.recovery_point)
    assert log.end_offset == 20
    assert bench.load(recovery_point=0).end_offset == 0


def test_a_missing_index_is_made_anew_even_after_a_clean_stop(bench: Workbench) -> None:
    bench.fill(20)
    bench.log.close()
    path = Path(bench.log.segments[1].index.path)
    content = path.read_bytes()
    path.unlink()
    bench.log = bench.load(clean=True, recovery_point=20)
    assert path.read_bytes() == content
    assert len(bench.records()) == 20


def test_a_corrupt_transaction_index_is_made_anew(bench: Workbench) -> None:
    bench.append(b"t", producer=(5, 0, 0), transactional=True)
    bench.log.append_control(EndMarker(5, 0, 1, False), 0, bench.clock.now)
    bench.log.close()
    path = Path(bench.log.segments[0].transaction_index.path)
    content = path.read_bytes()
    path.write_bytes(content + b"torn")
    bench.log = bench.load(clean=True, recovery_point=2)
    assert path.read_bytes() == content


def test_an_index_without_its_log_goes(bench: Workbench) -> None:
    bench.fill(3)
    Path(bench.directory, f"{77:020d}.index").write_bytes(b"")
    bench.restart()
    assert f"{77:020d}.index" not in os.listdir(bench.directory)


def test_producers_survive_a_crash(bench: Workbench) -> None:
    for number in range(30):
        bench.append(b"x" * 60, producer=(4, 1, number))
    bench.append(b"t", producer=(6, 0, 0), transactional=True)
    bench.crash(lose_nothing)
    for number in range(26, 30):
        assert bench.append(b"x" * 60, producer=(4, 1, number)).base_offset == number
    assert bench.append(b"x", producer=(4, 1, 31)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.append(b"x", producer=(4, 0, 30)).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.log.last_stable_offset == 30


def test_a_damaged_snapshot_is_passed_over(bench: Workbench) -> None:
    for number in range(30):
        bench.append(b"x" * 60, producer=(4, 1, number))
    bench.log.close()
    Path(bench.directory, f"{30:020d}.snapshot").write_bytes(b"nonsense")
    bench.log = bench.load(clean=True, recovery_point=30)
    assert bench.append(b"x" * 60, producer=(4, 1, 29)).base_offset == 29


def test_snapshots_without_a_segment_go_except_the_last(bench: Workbench) -> None:
    bench.fill(12)
    bench.log.close()
    stray = Path(bench.directory, f"{3:020d}.snapshot")
    stray.write_bytes(b"")
    bench.log = bench.load(clean=True, recovery_point=12)
    assert not stray.exists()
    assert Path(bench.directory, f"{12:020d}.snapshot").exists()


def test_epochs_are_read_back_from_the_batches(bench: Workbench) -> None:
    bench.append(b"a", epoch=3)
    bench.append(b"b", epoch=7)
    bench.crash(lose_nothing)
    assert bench.log.epochs.entries == [(3, 0), (7, 1)]


def test_epochs_that_cannot_be_read_are_made_anew_from_what_is_scanned(bench: Workbench) -> None:
    bench.append(b"a", epoch=3)
    bench.flush()
    Path(bench.directory, "leader-epoch-checkpoint").write_text("nonsense")
    bench.crash(lose_nothing)
    assert bench.log.epochs.entries == [(3, 0)]


def test_a_log_that_ends_below_its_start_is_begun_anew(bench: Workbench) -> None:
    bench.fill(3)
    bench.log.close()
    bench.log = bench.load(clean=True, recovery_point=3, start_offset=50)
    assert (bench.log.start_offset, bench.log.end_offset) == (50, 50)
    assert bench.append(b"x").base_offset == 50
    assert bench.records() == [(50, b"x")]


def test_the_start_offset_is_kept_inside_a_segment(bench: Workbench) -> None:
    bench.fill(4)
    bench.log.delete_records_before(2)
    bench.crash(lose_nothing)
    assert bench.log.start_offset == 2
    assert [offset for offset, _ in bench.records()] == [2, 3]


# Interrupted replacement


def compacted(bench: Workbench) -> tuple[Segment, list[Segment]]:
    """The first two segments, and one that keeps every other record of theirs."""
    bench.fill(20)
    bench.flush()
    old = bench.log.segments[:2]
    new = Segment.create(bench.disk, bench.directory, 0, SMALL, CLEANED_SUFFIX)
    for offset in range(0, bench.log.segments[2].base_offset, 2):
        data = batch(b"kept", base_offset=offset, leader_epoch=0)
        new.note(new.write(data, len(data)), len(data), offset, bench.clock.now)
    new.seal()
    new.sync()
    return new, old


def test_compacted_segments_take_the_place_of_old_ones(bench: Workbench) -> None:
    new, old = compacted(bench)
    third = bench.log.segments[2].base_offset
    bench.log.replace_segments([new], old)
    assert bench.log.segments[0] is new
    expected = [(offset, b"kept") for offset in range(0, third, 2)]
    assert bench.records()[: len(expected)] == expected
    assert [offset for offset, _ in bench.records(1)][:1] == [2]
    for removal in bench.log.take_removals():
        removal.run()
    names = os.listdir(bench.directory)
    assert not [name for name in names if name.endswith((".deleted", ".swap", ".cleaned"))]
    assert f"{third:020d}.snapshot" in names
    assert f"{old[1].base_offset:020d}.snapshot" not in names


@pytest.mark.parametrize("renames", range(12))
def test_a_crash_during_a_replacement_leaves_the_old_or_the_new(bench: Workbench, renames: int) -> None:
    new, old = compacted(bench)
    third = bench.log.segments[2].base_offset
    before = bench.records()
    after = [(offset, b"kept") for offset in range(0, third, 2)] + before[third:]
    recovery_point = bench.log.recovery_point
    bench.disk.renames_left = renames
    with suppress(PowerCut):
        bench.log.replace_segments([new], old)
    bench.disk.heal()
    bench.log.abandon()
    bench.log = bench.load(recovery_point=recovery_point)
    assert bench.records() == (before if renames < 3 else after), "three files make the new segment a `.swap`"
    assert not [name for name in os.listdir(bench.directory) if name.endswith((".deleted", ".swap", ".cleaned"))]


def test_a_directory_that_cannot_be_read_is_a_storage_failure(bench: Workbench, tmp_path: Path) -> None:
    bench.directory = str(tmp_path / "nowhere")
    with pytest.raises(StorageFailure) as failure:
        bench.load()
    assert failure.value.path == bench.directory


@pytest.mark.parametrize("stop", [Workbench.restart, Workbench.crash])
def test_a_restart_knows_producers_again_whose_records_are_old_or_without_time(
    tmp_path: Path, stop: Callable[[Workbench], None]
) -> None:
    bench = Workbench(tmp_path)
    for producer, timestamp in ((7, -1), (8, 1), (9, bench.clock.now - 10 * 86_400_000)):
        assert bench.append(b"once", timestamp=timestamp, producer=(producer, 0, 0)).error is ErrorCode.NONE
    bench.flush()
    stop(bench)
    bench.log.expire_producers(bench.clock.now)
    for producer in (7, 8, 9):
        assert bench.append(b"once", producer=(producer, 0, 0)).base_offset == producer - 7, "the retry is recognized"
    assert bench.log.end_offset == 3
