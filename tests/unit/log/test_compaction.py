"""Proves what compaction keeps, what it may touch, when it is due, and that a stop at any step leaves a whole log."""

import shutil
from pathlib import Path

import pytest

from kit.disks.compacting import (
    COMPACTED,
    NAME,
    append,
    compact,
    compactor,
    contents,
    history,
    latest_values,
    manual_world,
    open_log,
    read_batches_from,
    read_from,
    replicated,
)
from kit.disks.faulty_disk import FaultyDisk
from ottla.log.cleaning import CleanerLimits, CleaningStopped, MapTooSmall
from ottla.log.compaction import group_segments, measure
from ottla.log.files import StorageFailure
from ottla.log.producers import EndMarker
from ottla.log.recovery import load_log
from ottla.records.header import CorruptBatch
from ottla.runtime.disk import RealDisk, RealFile


@pytest.mark.parametrize("compression", range(5))
def test_the_last_record_of_each_key_stays_at_its_offset(tmp_path: Path, compression: int) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2"), (b"c", b"1")], [(b"b", b"2")], compression=compression)
    compact(compactor(world), log, world)
    assert contents(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert [segment.base_offset for segment in log.segments] == [0, 5]


def test_a_batch_that_stays_whole_is_copied_as_it_is_and_another_keeps_its_range(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    append(log, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], producer=(7, 0, 0))
    log.roll()
    append(log, [(b"a", b"2"), (b"c", b"2")], producer=(7, 0, 3))
    log.roll()
    whole = [header for header, _ in read_batches_from(log, 0)]
    compact(compactor(world), log, world)
    kept = [header for header, _ in read_batches_from(log, 0)]
    assert kept[1] == whole[1]
    assert (kept[0].base_offset, kept[0].last_offset, kept[0].base_sequence, kept[0].last_sequence) == (0, 2, 0, 2)
    assert (kept[0].records_count, kept[0].producer_id) == (1, 7)


def test_a_log_is_the_same_after_a_restart(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, *([(b"%d" % (number % 7), b"%d" % number)] for number in range(50)))
    compact(compactor(world), log, world)
    before = contents(log)
    assert len(before) == 7
    log.close()
    assert contents(replicated(load_log(world, NAME, str(tmp_path), COMPACTED, clean=True))) == before
    assert contents(replicated(load_log(world, NAME, str(tmp_path), COMPACTED))) == before


def test_a_tombstone_stays_until_its_horizon_has_passed(tmp_path: Path) -> None:
    world, clock = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", None)], [(b"c", b"1")])
    work = compactor(world)
    compact(work, log, world)
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    horizons = {header.base_offset: header.delete_horizon for header, _ in read_batches_from(log, 0)}
    assert horizons == {0: None, 2: 1_001_000, 3: None}
    clock.now += 999
    history(log, [(b"d", b"1")])
    compact(work, log, world)
    assert (2, b"a", None) in contents(log)
    clock.now += 1
    history(log, [(b"e", b"1")])
    compact(work, log, world)
    assert contents(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1"), (5, b"e", b"1")]


def test_the_horizon_does_not_change_the_timestamps_of_records(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1"), (b"a", None), (b"b", b"1")])
    before = {record.offset: record.timestamp for record in read_from(log, 0)}
    compact(compactor(world), log, world)
    assert {record.offset: record.timestamp for record in read_from(log, 0)} == {1: before[1], 2: before[2]}


def test_records_without_a_key_go(tmp_path: Path) -> None:
    world, _ = manual_world()
    plain = open_log(world, tmp_path, COMPACTED.__class__())
    append(plain, [(None, b"x"), (b"a", b"1")])
    plain.roll()
    plain.settings = COMPACTED
    compact(compactor(world), plain, world)
    assert contents(plain) == [(1, b"a", b"1")]


def test_the_last_batch_of_an_active_producer_stays_empty_so_its_sequence_survives(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    append(log, [(b"a", b"1")], producer=(7, 2, 0))
    append(log, [(b"a", b"2")], producer=(7, 2, 1))
    log.roll()
    history(log, [(b"a", b"3")])
    compact(compactor(world), log, world)
    found = [(header.base_offset, header.producer_id, header.records_count) for header, _ in read_batches_from(log, 0)]
    assert found == [(1, 7, 0), (2, -1, 1)]
    for name in ("snapshot", "snapshot.deleted"):
        for path in tmp_path.glob(f"*.{name}"):
            path.unlink()
    again = load_log(world, NAME, str(tmp_path), COMPACTED)
    state = again.producers.state(7)
    assert state is not None
    assert (state.epoch, state.last_sequence) == (2, 1)


def test_what_lies_past_the_high_watermark_or_in_the_active_segment_is_not_touched(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")])
    append(log, [(b"a", b"4")])
    log.high_watermark = 2
    assert measure(log, None, 0).first_uncleanable_offset == 2
    compact(compactor(world), log, world)
    log.high_watermark = log.end_offset
    assert [offset for offset, _, _ in contents(log)] == [1, 2, 3]


def test_an_open_transaction_holds_compaction_back(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"a", b"2")])
    append(log, [(b"a", b"3")], producer=(7, 0, 0), transactional=True)
    log.roll()
    history(log, [(b"a", b"4")])
    assert measure(log, None, 0).first_uncleanable_offset == 2
    compact(compactor(world), log, world)
    assert [offset for offset, _, _ in contents(log)] == [1, 2, 3]


def test_aborted_data_goes_and_its_marker_follows_a_horizon_later(tmp_path: Path) -> None:
    world, clock = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"kept")])
    append(log, [(b"a", b"aborted")], producer=(7, 0, 0), transactional=True)
    log.append_control(EndMarker(7, 0, 0, commit=False), 0, clock.now)
    log.high_watermark = log.end_offset
    log.roll()
    history(log, [(b"b", b"1")])
    work = compactor(world)
    compact(work, log, world)
    assert contents(log) == [(0, b"a", b"kept"), (3, b"b", b"1")]
    # The data batch stays, empty: it carries the producer's sequence. The index still knows the transaction.
    assert [header.records_count for header, _ in read_batches_from(log, 0)] == [1, 0, 1, 1]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 10)] == [7]
    log.producers.expire(clock.now + 10**9, 0)
    for _ in range(3):
        clock.now += 1001
        history(log, [(b"b", b"%d" % clock.now)])
        compact(work, log, world)
    assert not any(header.control for header, _ in read_batches_from(log, 0))
    assert log.aborted_transactions(0, 100) == []


def test_a_commit_marker_stays_while_data_of_its_transaction_does(tmp_path: Path) -> None:
    world, clock = manual_world()
    log = open_log(world, tmp_path)
    append(log, [(b"a", b"1")], producer=(7, 0, 0), transactional=True)
    log.append_control(EndMarker(7, 0, 0, commit=True), 0, clock.now)
    log.high_watermark = log.end_offset
    log.roll()
    work = compactor(world)
    log.producers.expire(clock.now + 10**9, 0)
    for _ in range(3):
        clock.now += 1001
        history(log, [(b"b", b"%d" % clock.now)])
        compact(work, log, world)
    kept = [header for header, _ in read_batches_from(log, 0)]
    assert [header.control for header in kept] == [False, True, False]
    assert kept[1].delete_horizon is None


def test_small_segments_are_joined_up_to_a_full_one(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path, COMPACTED)
    history(log, *([(b"%d" % number, b"x" * 100)] for number in range(6)))
    size = log.segments[0].size
    groups = group_segments(log.segments[:-1], 2 * size, 1 << 20, 6)
    assert [[segment.base_offset for segment in group] for group in groups] == [[0, 1], [2, 3], [4, 5]]
    assert len(group_segments(log.segments[:-1], 100 * size, 1 << 20, 6)) == 1
    assert len(group_segments(log.segments[:-1], 100 * size, 1 << 20, 2**31 + 7)) == 2


def test_the_dirtiest_log_is_chosen_and_a_clean_one_left_alone(tmp_path: Path) -> None:
    world, _ = manual_world()
    settings = COMPACTED.__class__(cleanup_compact=True, min_cleanable_ratio=0.5)
    log = open_log(world, tmp_path, settings)
    work = compactor(world)
    history(log, [(b"a", b"x" * 100)], [(b"b", b"x" * 100)])
    assert compact(work, log, world) is not None
    assert log.cleaned_offset == 2
    history(log, [(b"c", b"x" * 100)])
    assert measure(log, 2, 0).ratio == pytest.approx(1 / 3)
    assert compact(work, log, world) is None
    history(log, [(b"c", b"x" * 100)], [(b"c", b"x" * 100)])
    assert compact(work, log, world) is not None
    assert [offset for offset, _, _ in contents(log)] == [0, 1, 4]


def test_young_segments_wait_for_the_minimum_lag(tmp_path: Path) -> None:
    world, clock = manual_world()
    log = open_log(world, tmp_path, COMPACTED.__class__(cleanup_compact=True, min_compaction_lag_ms=5000))
    append(log, [(b"a", b"1")], timestamp=clock.now - 10_000)
    log.roll()
    append(log, [(b"a", b"2")], timestamp=clock.now)
    log.roll()
    assert measure(log, None, clock.now).first_uncleanable_offset == 1
    assert measure(log, None, clock.now + 5001).first_uncleanable_offset == 2


def test_old_dirt_is_compacted_whatever_the_ratio(tmp_path: Path) -> None:
    world, clock = manual_world()
    log = open_log(world, tmp_path, COMPACTED.__class__(cleanup_compact=True, max_compaction_lag_ms=5000))
    append(log, [(b"a", b"x" * 1000)], timestamp=clock.now)
    log.roll()
    append(log, [(b"a", b"2")], timestamp=clock.now)
    log.roll()
    assert not measure(log, 1, clock.now + 5000).worth_it
    assert measure(log, 1, clock.now + 5001).worth_it


def test_a_map_too_small_for_all_keys_cleans_in_several_rounds(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, *([(b"%d" % (number % 40), b"%d" % number)] for number in range(120)))
    before = latest_values(read_from(log, 0))
    work = compactor(world, CleanerLimits(map_bytes=24 * 20))
    rounds = 0
    while compact(work, log, world) is not None:
        rounds += 1
        assert latest_values(read_from(log, 0)) == before
        assert rounds < 20
    assert rounds > 3
    assert log.cleaned_offset == 120
    assert len(contents(log)) < 60


def test_a_batch_with_more_keys_than_the_map_takes_is_a_failure_not_an_endless_loop(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"%d" % number, b"x") for number in range(100)])
    work = compactor(world, CleanerLimits(map_bytes=24 * 20))
    running = work.begin([log], 0)
    assert running is not None
    with pytest.raises(MapTooSmall, match=r"log\.cleaner\.dedupe\.buffer\.size") as caught:
        next(running.steps())()
    work.end(running, caught.value)
    assert NAME in work.uncleanable
    assert work.begin([log], 0) is None


def test_a_damaged_batch_makes_the_log_uncleanable_and_changes_nothing(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"a", b"2")])
    path = Path(log.segments[0].path)
    damaged = bytearray(path.read_bytes())
    damaged[-2] ^= 1
    path.write_bytes(damaged)
    names = sorted(entry.name for entry in tmp_path.iterdir())
    work = compactor(world)
    running = work.begin([log], 0)
    assert running is not None
    with pytest.raises(CorruptBatch) as caught:
        next(running.steps())()
    work.end(running, caught.value)
    assert "wrong checksum" in work.uncleanable[NAME]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == names


@pytest.mark.parametrize("after", range(4))
def test_a_crash_after_any_step_leaves_a_log_with_the_same_last_values(tmp_path: Path, after: int) -> None:
    world, _ = manual_world()
    settings = COMPACTED.__class__(cleanup_compact=True, min_cleanable_ratio=0.0, segment_bytes=400)
    log = open_log(world, tmp_path, settings)
    history(log, *([(b"%d" % (number % 5), b"%d" % number)] for number in range(20)))
    before = latest_values(read_from(log, 0))
    running = compactor(world).begin([log], 0)
    assert running is not None
    steps = running.steps()
    for _ in range(after + 1):
        next(steps)()
    if after:
        assert list(tmp_path.glob("*.cleaned")), "the step's segment waits for its exchange"
    again = replicated(load_log(world, NAME, str(tmp_path), settings))
    assert latest_values(read_from(again, 0)) == before
    assert not list(tmp_path.glob("*.cleaned")) + list(tmp_path.glob("*.swap"))
    assert again.end_offset == 20


class PoweredOff(BaseException):
    """The machine stops; nobody catches this."""


class StoppingDisk(RealDisk):
    """Stops for good before its nth change to the names on disk."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def _change(self) -> None:
        if self.left <= 0:
            raise PoweredOff
        self.left -= 1

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        if create:
            self._change()
        return super().open(path, create=create, read_only=read_only)

    def rename(self, old: str, new: str) -> None:
        self._change()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self._change()
        super().sync_directory(path)


def test_a_stop_before_any_change_of_names_leaves_the_old_or_the_new_log(tmp_path: Path) -> None:
    settings = COMPACTED.__class__(cleanup_compact=True, min_cleanable_ratio=0.0, segment_bytes=400)
    calm, _ = manual_world()
    seed = open_log(calm, tmp_path / "seed", settings)
    history(seed, *([(b"%d" % (number % 5), b"%d" % number)] for number in range(12)))
    before = latest_values(read_from(seed, 0))
    seed.close()
    finished = changes = 0
    while not finished:
        directory = tmp_path / f"stop-{changes}"
        shutil.copytree(tmp_path / "seed", directory)
        disk = StoppingDisk(10**9)
        world, _ = manual_world(disk)
        log = replicated(load_log(world, NAME, str(directory), settings, clean=True))
        disk.left = changes
        try:
            compact(compactor(world), log, world)
            for removal in log.take_removals():
                removal.run()
            finished = 1
        except PoweredOff:
            changes += 1
        again = replicated(load_log(calm, NAME, str(directory), settings))
        assert latest_values(read_from(again, 0)) == before, f"stopped before change {changes}"
        assert again.end_offset == 12
        leftovers = [path.suffix for path in directory.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
        assert leftovers == [], f"stopped before change {changes}"
    assert changes > 30


@pytest.mark.parametrize("after", range(6))
def test_a_power_cut_after_any_step_leaves_every_flushed_last_value(tmp_path: Path, after: int) -> None:
    settings = COMPACTED.__class__(cleanup_compact=True, min_cleanable_ratio=0.0, segment_bytes=400)
    disk = FaultyDisk(RealDisk())
    world, _ = manual_world(disk)
    log = open_log(world, tmp_path, settings)
    history(log, *([(b"%d" % (number % 5), b"%d" % number)] for number in range(20)))
    before = latest_values(read_from(log, 0))
    ticket = log.begin_flush()
    assert ticket is not None
    ticket.run()
    log.finish_flush(ticket)
    running = compactor(world).begin([log], 0)
    assert running is not None
    steps = running.steps()
    for _ in range(after):
        next(steps)()
    log.abandon()
    disk.crash(str(tmp_path))
    again = replicated(load_log(world, NAME, str(tmp_path), settings, recovery_point=20))
    assert latest_values(read_from(again, 0)) == before


def test_segments_that_went_meanwhile_call_the_exchange_off(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"a", b"2")], [(b"b", b"1")])
    work = compactor(world)
    running = work.begin([log], 0)
    assert running is not None
    steps = running.steps()
    next(steps)()
    next(steps)()
    log.delete_segments(log.segments[:1])
    with pytest.raises(CleaningStopped) as caught:
        next(steps)
    work.end(running, caught.value)
    assert not list(tmp_path.glob("*.cleaned"))
    assert contents(log) == [(1, b"a", b"2"), (2, b"b", b"1")]
    assert NAME not in work.uncleanable
    assert log.cleaned_offset is None


@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_log_cut_under_a_running_compaction_is_not_called_uncleanable(tmp_path: Path, steps_before: int) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")])
    work = compactor(world)
    running = work.begin([log], 0)
    assert running is not None
    steps = running.steps()
    for _ in range(steps_before):
        next(steps)()
    step = next(steps)
    log.truncate_to(1)
    with pytest.raises((FileNotFoundError, CorruptBatch)) as caught:
        step()
    work.end(running, caught.value)
    assert NAME not in work.uncleanable
    assert log.cleaned_offset is None
    assert [offset for offset, _, _ in contents(log)] == [0]


def test_work_on_a_deleted_log_stops_and_leaves_no_files(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"a", b"2")])
    work = compactor(world)
    running = work.begin([log], 0)
    assert running is not None
    steps = running.steps()
    next(steps)()
    cleaning = next(steps)
    work.forget(NAME)
    with pytest.raises(CleaningStopped) as caught:
        cleaning()
    work.end(running, caught.value)
    assert not list(tmp_path.glob("*.cleaned"))


def test_reading_and_writing_keep_to_their_rate(tmp_path: Path) -> None:
    world, clock = manual_world()
    log = open_log(world, tmp_path)
    history(log, *([(b"%d" % number, b"x" * 1000)] for number in range(10)))
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock.now += round(seconds * 1000)

    work = compactor(world, CleanerLimits(bytes_per_second=10_000))
    work._wait = wait
    running = compact(work, log, world)
    assert running is not None
    moved = 2 * running.cleaned[0].bytes_read + running.cleaned[0].bytes_kept
    assert sum(waited) == pytest.approx(moved / 10_000, rel=0.05)


def test_cutting_a_log_makes_what_follows_dirty_again(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"a", b"1")], [(b"b", b"2")], [(b"c", b"3")])
    compact(compactor(world), log, world)
    assert log.cleaned_offset == 3
    history(log, [(b"d", b"4")])
    log.truncate_to(3)
    assert log.cleaned_offset == 3
    log.truncate_to(1)
    assert log.cleaned_offset == 1
    log.truncate_fully_and_start_at(9)
    assert log.cleaned_offset is None


def test_a_cut_between_the_passes_takes_no_older_value_along(tmp_path: Path) -> None:
    world, _ = manual_world()
    log = open_log(world, tmp_path)
    history(log, [(b"account", b"old")], [(b"b", b"1")], [(b"account", b"diverged")], [(b"c", b"1")])
    work = compactor(world)
    running = work.begin([log], 0)
    assert running is not None
    steps = running.steps()
    next(steps)()
    log.truncate_to(2)
    ended: Exception | None = None
    try:
        for step in steps:
            step()
    except (CleaningStopped, OSError, StorageFailure, CorruptBatch) as problem:
        ended = problem
    work.end(running, ended)
    assert contents(log) == [(0, b"account", b"old"), (1, b"b", b"1")]
    assert NAME not in work.uncleanable
    assert not list(tmp_path.glob("*.cleaned")) + list(tmp_path.glob("*.swap"))
    history(log, [(b"account", b"new")], [(b"d", b"1")])
    assert compact(work, log, world) is not None
    assert contents(log)[0] == (1, b"b", b"1")
