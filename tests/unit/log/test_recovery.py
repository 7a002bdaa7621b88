"""Opening a directory after a clean stop, after a crash, and among the leftovers of interrupted work."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kit.disks.compacting import CountingRandom, ManualClock
from kit.disks.faulty_disk import PowerCut
from kit.disks.workbench import NAME, Workbench, batch
from kit.wire.batches import old_message_set
from ottla.base.errors import ErrorCode
from ottla.log.files import CLEANED_SUFFIX, StorageFailure, World
from ottla.log.producers import EndMarker
from ottla.log.recovery import load_log
from ottla.log.scanning import UnknownFormat
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.runtime.disk import RealDisk

SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "orders-3", SMALL)


def lose_nothing(_path: str, _synced: int, size: int) -> int:
    """A crash of the process alone: what was written stays."""
    return size


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


def test_a_flipped_bit_in_what_was_not_flushed_ends_the_log_there(bench: Workbench) -> None:
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
    names = [name for name in os.listdir(bench.directory) if name[0] == "0"]
    behind = {int(name[:20]) for name in names if ".aside" not in name}
    assert max(behind) == bench.log.end_offset, "a snapshot at the new end, and nothing beyond"
    assert not bench.log.intact
    aside = sorted(name for name in names if name.endswith(".log.aside"))
    assert [int(name[:20]) for name in aside] == [10, 15], "what was behind is kept for a person"
    kept = [name for name in names if ".cut-" in name]
    assert kept == [f"{second.base_offset:020d}.log.cut-{bench.log.segments[1].size}"]
    assert (Path(bench.directory) / kept[0]).stat().st_size == second.size - bench.log.segments[1].size


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
    assert bench.records() == (before if renames < 4 else after), "four names make the new segment a `.swap`"
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


# What recovery does not believe


def damage(path: str, position: int, bit: int = 8) -> None:
    with Path(path).open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ bit]))


@pytest.mark.parametrize("clean", [True, False])
def test_a_flipped_bit_in_an_old_flushed_segment_costs_that_segment_only(bench: Workbench, clean: bool) -> None:
    bench.fill(40)
    bench.flush()
    bench.log.close()
    second, segments = bench.log.segments[1], len(bench.log.segments)
    damage(second.path, 400)
    Path(second.index.path).unlink()
    bench.log = bench.load(clean=clean, recovery_point=40)
    assert (bench.log.end_offset, len(bench.log.segments)) == (40, segments)
    offsets = [offset for offset, _ in bench.records()]
    assert offsets[:7] == list(range(7))
    assert offsets[7:] == list(range(bench.log.segments[2].base_offset, 40))
    assert not bench.log.intact
    assert list(Path(bench.directory).glob("*.log.cut-*"))


def test_gaps_that_compaction_left_are_no_loss_once_the_topic_is_no_longer_compacted(bench: Workbench) -> None:
    bench.fill(20)
    first = bench.log.segments[0]
    located = first.locate(2)
    assert located is not None
    bench.log.abandon()
    os.truncate(first.path, located.position)
    world = World(bench.disk, bench.clock, CountingRandom())
    log = load_log(world, NAME, bench.directory, SMALL, cleaned_offset=10)
    assert (log.end_offset, log.intact) == (20, True)
    log.abandon()
    log = load_log(world, NAME, bench.directory, SMALL, power_kept=True)
    assert (log.end_offset, log.intact) == (20, True), "a killed process loses nothing that it wrote"
    log.abandon()
    log = load_log(world, NAME, bench.directory, SMALL)
    assert (log.end_offset, log.intact) == (2, False)
    assert len(list(Path(bench.directory).glob("*.log.aside"))) == 3, "and what is behind is kept"


@pytest.mark.parametrize("number", [1, 19])
def test_a_batch_whose_offset_contradicts_its_neighbours_is_noticed(bench: Workbench, number: int) -> None:
    bench.fill(20)
    bench.log.abandon()
    segment = bench.log.segments[0 if number < 5 else -1]
    located = segment.locate(number)
    assert located is not None
    damage(segment.path, located.position + 6, bit=255)
    bench.log = bench.load()
    assert bench.log.end_offset == number
    assert [offset for offset, _ in bench.records()] == list(range(number))
    assert not bench.log.intact
    assert bench.append(b"next").base_offset == number


def test_a_gap_that_its_neighbours_confirm_is_believed(bench: Workbench) -> None:
    for offset in (0, 1, 7, 8, 20):
        data = batch(b"kept", base_offset=offset, leader_epoch=0)
        assert bench.log.append_as_follower(memoryview(data)).error is ErrorCode.NONE
    bench.crash(lose_nothing)
    assert [offset for offset, _ in bench.records()] == [0, 1, 7, 8, 20]
    assert bench.log.intact


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_an_older_format_are_refused_and_nothing_is_cut(tmp_path: Path, magic: int, clean: bool) -> None:
    path = tmp_path / "orders-3" / f"{0:020d}.log"
    path.parent.mkdir()
    content = old_message_set(magic, b"value") * 3
    path.write_bytes(content)
    world = World(RealDisk(), ManualClock(1_700_000_000_000), CountingRandom())
    with pytest.raises(UnknownFormat, match=f"{path} holds records of message format {magic} at byte 0"):
        load_log(world, NAME, str(path.parent), SMALL, clean=clean)
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == content


def test_a_batch_of_a_format_to_come_is_refused_and_nothing_is_cut(bench: Workbench) -> None:
    bench.fill(3)
    bench.log.abandon()
    segment = bench.log.segments[0]
    located = segment.locate(1)
    assert located is not None
    damage(segment.path, located.position + 16, bit=1)
    size = Path(segment.path).stat().st_size
    with pytest.raises(UnknownFormat, match="message format 3"):
        bench.load()
    assert Path(segment.path).stat().st_size == size


def test_zeros_behind_the_last_batch_are_nothing_to_keep(bench: Workbench) -> None:
    bench.fill(3)
    bench.log.abandon()
    with Path(bench.log.segments[0].path).open("ab") as file:
        file.write(bytes(500))
    bench.log = bench.load()
    assert bench.log.end_offset == 3
    assert not list(Path(bench.directory).glob("*.cut-*"))


def test_a_full_disk_keeps_nobody_from_cutting_an_append_that_never_ended(bench: Workbench) -> None:
    bench.fill(3)
    bench.log.abandon()
    with Path(bench.log.segments[0].path).open("ab") as file:
        file.write(batch(b"never acknowledged", base_offset=3)[:70])
    bench.disk.room = 60
    bench.log = bench.load()
    assert bench.log.end_offset == 3


def test_a_segment_that_begins_inside_the_one_before_it_is_put_aside(bench: Workbench) -> None:
    bench.fill(5)
    bench.log.abandon()
    stray = Path(bench.directory) / f"{3:020d}.log"
    stray.write_bytes(batch(b"renamed away before the power went", base_offset=3))
    bench.log = bench.load()
    assert bench.log.end_offset == 5
    assert len(bench.records()) == 5
    assert Path(f"{stray}.aside").exists()
    assert not bench.log.intact


def test_an_empty_segment_inside_the_one_before_it_is_a_leftover_even_after_a_clean_stop(bench: Workbench) -> None:
    bench.fill(5)
    bench.log.close()
    (Path(bench.directory) / f"{3:020d}.log").write_bytes(b"")
    bench.log = bench.load(clean=True)
    assert bench.log.end_offset == 5
    assert len(bench.records()) == 5


def test_epochs_that_were_cut_off_do_not_come_back(bench: Workbench) -> None:
    def follow(offset: int, epoch: int) -> None:
        data = batch(b"x", base_offset=offset, leader_epoch=epoch)
        assert bench.log.append_as_follower(memoryview(data)).error is ErrorCode.NONE

    for offset in range(6):
        follow(offset, 4 if offset < 4 else 5)
    bench.flush()
    bench.log.truncate_to(4)
    for offset in range(4, 8):
        follow(offset, 4)
    bench.crash(lose_nothing)
    follow(8, 6)
    assert bench.log.epochs.entries == [(4, 0), (6, 8)]
    assert bench.log.end_offset_for_epoch(4) == (4, 8)


def test_what_a_failed_sync_may_have_lost_is_written_again(bench: Workbench) -> None:
    bench.fill(3)
    bench.log.abandon()
    before = Path(bench.log.segments[0].path)
    inode, content = before.stat().st_ino, before.read_bytes()
    world = World(bench.disk, bench.clock, CountingRandom())
    bench.log = load_log(world, NAME, bench.directory, SMALL, unproven=True)
    assert (before.stat().st_ino != inode, before.read_bytes()) == (True, content)
    assert len(bench.records()) == 3
