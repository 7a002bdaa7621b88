"""Power cuts at places where nothing failed before: what a flush, a roll and a cut leave unsynced between them."""

import errno
import struct
from contextlib import suppress
from itertools import product
from random import Random

import pytest

from kit.disks.faulty_log import DATA, KEYED, SMALL, Down, FaultyLog
from ottla.log.checkpoints import Checkpoint
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import FileRange


def lose_power(life: FaultyLog) -> None:
    assert life.end("loses power", 0)
    life.boot()
    life.compare(power_lost=True)


@pytest.mark.parametrize("first", ["roll", "checkpoint"])
def test_what_was_aborted_stays_aborted_when_a_log_rolls_at_the_very_offset_that_was_flushed(first: str) -> None:
    for chance in range(60):
        life = FaultyLog(SMALL)
        life.boot()
        life.make()
        life.append(b"doomed", producer=2, transactional=True)
        life.append(b"plain")
        life.end_transaction(2, commit=False)
        life.flush()
        if first == "checkpoint":
            life.checkpoint()
        life.append(b"too large for the segment" * 9)
        assert life.log is not None
        assert [segment.base_offset for segment in life.log.segments] == [0, 3]
        if first == "roll":
            life.checkpoint()
        life.end("loses power by chance", chance)
        life.boot()
        life.compare(power_lost=True)


def test_a_segment_that_was_cut_and_left_behind_by_a_roll_does_not_grow_back_over_the_ones_behind_it() -> None:
    life = FaultyLog(SMALL._replace(segment_bytes=2000))
    life.boot()
    life.make()
    life.follow(9)
    life.flush()
    life.cut(3)
    life.checkpoint()
    assert life.log is not None
    life.log.settings = life.settings = SMALL._replace(segment_bytes=300)
    life.epoch = 2
    life.follow(4)
    assert life.log.segments[1].base_offset == 3
    life.flush()

    lose_power(life)


def test_what_was_cut_off_an_active_segment_does_not_come_back_after_a_clean_stop() -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.follow(3)
    life.flush()
    life.cut(0)
    life.stop()
    life.lasting = 0
    life.disk.cut_power()
    life.boot()

    assert life.log is not None
    assert life.log.end_offset == 0


def test_an_emptied_index_of_transactions_does_not_come_back_after_a_flush() -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.append(b"one", producer=2, transactional=True)
    life.end_transaction(2, commit=False)
    life.stop()
    life.boot()
    life.cut(1)
    life.checkpoint()
    life.epoch = 2
    life.end_transaction(2, commit=True)
    life.append(b"too large for the segment" * 12)
    life.flush()
    life.checkpoint()

    lose_power(life)


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_indexes_are_whole_when_a_power_cut_brings_back_batches_that_were_cut_off(offset: int) -> None:
    for chance in range(40):
        life = FaultyLog(SMALL)
        life.boot()
        life.make()
        for number in range(3):
            life.append(b"doomed %d" % number, producer=2, transactional=True)
            life.end_transaction(2, commit=False)
            life.follow(2)
        life.flush()
        life.checkpoint()
        life.cut(offset)
        life.end("loses power by chance", chance)
        life.boot()
        life.compare(power_lost=True)


def test_a_recovery_that_loses_power_leaves_no_flushed_segment_with_half_its_indexes() -> None:
    for call, chance in product(range(60, 100), range(3)):
        life = FaultyLog(SMALL)
        life.boot()
        life.make()
        life.append(b"doomed", producer=2, transactional=True)
        life.end_transaction(2, commit=False)
        life.follow(9)
        life.flush()
        life.checkpoint()
        life.end("is killed", 0)
        life.disk.inner.remove("/data/orders-0/00000000000000000000.index")
        life.disk.inner.sync_directory("/data/orders-0")
        life.disk.fail_at(len(life.disk.calls) + call, errno.EIO, for_good=True)
        with suppress(Down):
            life.boot()
        life.end("loses power by chance", chance)
        life.boot()
        life.compare(power_lost=True)


@pytest.mark.parametrize("ending", ["is killed", "loses power"])
def test_what_recovery_takes_away_does_not_come_back_after_a_clean_stop(ending: str) -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.follow(9)
    if ending == "is killed":
        life.flush()
        life.checkpoint()
        life.cut(0)
    else:
        assert life.log is not None
        for segment in life.log.segments[1:]:
            segment.sync()
    life.end(ending, 0)
    life.boot()
    assert life.log is not None
    assert life.log.end_offset == 0
    life.stop()
    life.disk.cut_power()
    life.boot()

    assert life.log is not None
    assert life.log.end_offset == 0


def test_an_index_of_a_compaction_that_was_given_up_takes_nobodys_place() -> None:
    life = FaultyLog(KEYED)
    life.boot()
    life.make()
    for number in range(9):
        life.append(b"%d" % number * 20, key=b"k%d" % number)
    life.flush()
    life.checkpoint()
    file = life.disk.inner.open("/data/orders-0/00000000000000000000.timeindex.swap", create=True)
    file.append(struct.pack(">qi", 1, 0))
    file.sync()

    lose_power(life)


@pytest.mark.parametrize("late", [False, True], ids=["no checkpoint between", "one that began before"])
def test_a_topic_that_comes_again_is_not_held_against_the_checkpoints_of_the_one_that_went(late: bool) -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.follow(9)
    life.delete_before(7)
    life.flush()
    life.checkpoint()
    assert life.store is not None
    work = life.store.begin_checkpoint(*Checkpoint)
    life.delete()
    life.make()
    if late:
        work.run()
        life.store.finish_checkpoint(work)
    life.follow(6)
    life.end("is killed", 0)
    life.boot()
    life.compare(power_lost=False)


def test_a_log_that_was_cut_below_its_start_is_whole_after_a_kill() -> None:
    life = FaultyLog(SMALL)
    life.boot(boot="monday")
    life.make()
    life.follow(9)
    life.delete_before(3)
    life.checkpoint()
    life.cut(0)
    life.epoch = 2
    life.follow(2)
    life.end("is killed", 0)
    life.boot(boot="monday")
    life.compare(power_lost=False)

    assert life.log is not None
    assert (life.log.start_offset, life.log.end_offset) == (0, 2)


def test_a_piece_that_recovery_cut_off_does_not_come_back_after_a_clean_stop() -> None:
    for chance in range(20):
        life = FaultyLog(SMALL)
        life.boot()
        life.make()
        life.append(b"whole")
        assert life.log is not None
        path = life.log.roll().path
        life.flush()
        life.checkpoint()
        life.disk.kill()
        file = life.disk.inner.open(path)
        file.append(b"a piece of a batch")
        file.sync()
        life.boot()
        life.stop()
        life.disk.cut_power(Random(chance))
        life.boot()
        life.append(b"behind it")
        life.compare(power_lost=False)


@pytest.mark.parametrize("damaged", [".log", ".index"])
def test_a_damaged_end_is_noticed_after_a_clean_stop(damaged: str) -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.follow(4)
    life.stop()
    file = life.disk.inner.open(f"/data/orders-0/00000000000000000000{damaged}")
    file.truncate(file.size() - 8)
    if damaged == ".index":
        file.append(struct.pack(">ii", 3, 1 << 20))
    life.boot()
    life.make()

    assert life.log is not None
    assert life.log.end_offset == (3 if damaged == ".log" else 4)
    assert life.log.intact == (damaged != ".log")
    life.now.pop(life.log.end_offset, None)
    life.append(b"behind it")
    life.compare(power_lost=False)


def test_a_clean_log_whose_last_segment_is_garbage_is_opened_up_to_it() -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.follow(7)
    assert life.log is not None
    last = life.log.segments[-1]
    life.stop()
    file = life.disk.inner.open(last.path)
    file.truncate(0)
    file.append(b"\xee" * 200)
    life.boot()
    life.make()

    assert life.log is not None
    assert (life.log.end_offset, life.log.intact) == (last.base_offset, False)
    assert f"{last.base_offset:020d}.log.cut-0" in life.disk.inner.list("/data/orders-0")


def test_an_index_that_names_impossible_places_is_made_anew() -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.follow(9)
    life.stop()
    file = life.disk.inner.open("/data/orders-0/00000000000000000000.index")
    size = file.size()
    file.truncate(0)
    file.append(struct.pack(">ii", 1, -5) * (size // 8))
    life.boot()
    life.make()

    assert life.log is not None
    assert isinstance(life.log.read(3, 1 << 20, life.log.end_offset, True), FileRange)
    life.compare(power_lost=False)


def test_a_compacted_log_ends_before_a_torn_batch_behind_which_old_names_came_back() -> None:
    """It was cut, a batch came, and the power went: what is missing of the batch is no gap of compaction."""
    life = FaultyLog(KEYED)
    life.boot()
    life.make()
    for number in range(12):
        life.append(b"some value", key=b"k%d" % number)
    life.flush()
    life.checkpoint()
    assert life.log is not None
    first, second = life.log.segments[:2]
    assert life.end("loses power", 0)
    file = life.disk.inner.open(first.path)
    file.truncate(file.size() - 10)
    file.sync()
    life.boot()
    assert [header.base_offset for header, _ in life.batches()] == list(range(second.base_offset - 1))


def test_a_log_that_grew_up_to_an_old_recovery_point_does_not_roll_there_before_another_is_written() -> None:
    """The segment would be taken for flushed with its indexes, of which the new part is not."""
    life = FaultyLog(SMALL._replace(segment_bytes=2000))
    life.boot()
    life.make()
    life.follow(3)
    life.attempt(PartitionLog.roll)
    life.follow(2)
    life.flush()
    life.attempt(PartitionLog.roll)
    life.checkpoint()
    life.cut(1)
    life.epoch += 1
    life.clock.now += 1000
    life.follow(2)
    life.flush()
    assert life.log is not None
    assert life.log.recovery_point == life.log.checkpointed == 3
    assert life.log.truncated_below_checkpoint
    assert not life.attempt(PartitionLog.roll)
    life.checkpoint()
    assert not life.log.truncated_below_checkpoint
    assert life.attempt(PartitionLog.roll)
    life.disk.sync_directory(f"{DATA}/orders-0")
    assert life.end("loses power", 0)
    life.boot()
    life.compare(power_lost=True)


def test_indexes_that_come_back_unsynced_after_a_new_beginning_are_made_anew() -> None:
    life = FaultyLog(SMALL)
    life.boot()
    life.make()
    life.follow(2)
    life.stop()
    life.boot()
    life.make()
    life.clock.now += 1000
    life.follow(1)
    life.flush()
    assert life.attempt(PartitionLog.roll)
    life.disk.sync_directory(f"{DATA}/orders-0")  # as a compaction does
    life.begin_anew(10)
    life.checkpoint()
    assert life.end("loses power", 0)
    life.boot()
    life.compare(power_lost=True)


def test_a_log_that_is_whole_is_not_read_through_after_a_clean_stop() -> None:
    life = FaultyLog(SMALL._replace(segment_bytes=9000))
    life.boot()
    life.make()
    life.follow(40)
    life.stop()
    before = len(life.disk.calls)
    life.boot()

    assert not [call for call in life.disk.calls[before:] if call.operation in ("map", "append") and "log" in call.path]
