"""The sparse indexes: what they answer, what their files hold, and how a full disk leaves them."""

import errno
import os
import struct
from pathlib import Path
from random import Random

import pytest

from kit.disks.faulty_disk import FaultyDisk
from ottla.log.files import StorageFailure
from ottla.log.index import TAIL_ENTRIES, AbortedTransaction, CorruptIndex, OffsetIndex, TimeIndex, TransactionIndex
from ottla.runtime.disk import RealDisk


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(RealDisk())


def offset_index(disk: FaultyDisk, tmp_path: Path, entries: int) -> OffsetIndex:
    """Every tenth offset from 1010 on, every hundredth byte from 100 on."""
    index = OffsetIndex(disk, str(tmp_path / "00000000000000001000.index"), 1000)
    for number in range(1, entries + 1):
        index.append(1000 + number * 10, number * 100)
    return index


@pytest.mark.parametrize("entries", [1, 5, TAIL_ENTRIES, TAIL_ENTRIES * 2 + 7, 3000])
def test_an_offset_leads_to_the_last_entry_at_or_below_it(disk: FaultyDisk, tmp_path: Path, entries: int) -> None:
    index = offset_index(disk, tmp_path, entries)
    assert index.position_for(1000) == index.position_for(1009) == 0
    for number in range(1, entries + 1):
        assert index.position_for(1000 + number * 10) == number * 100
        assert index.position_for(1000 + number * 10 + 9) == number * 100
    assert index.position_for(1 << 40) == entries * 100
    assert index.last() == (1000 + entries * 10, entries * 100)


def test_an_index_larger_than_its_window_answers_like_a_list(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, 5000)
    times = TimeIndex(disk, str(tmp_path / "00000000000000001000.timeindex"), 1000)
    for number in range(1, 5001):
        times.append(number * 7, 1000 + number * 10)
    random = Random(1)
    for left in (5000, 4999, 3100, 1024, 1):
        index.truncate_to(1000 + (left + 1) * 10)
        times.truncate_to(1000 + (left + 1) * 10)
        assert (index.entries, times.entries) == (left, left)
        for _ in range(300):
            number = random.randrange(left + 2)
            reached = min(number, left)
            assert index.position_for(1000 + number * 10 + 5) == reached * 100
            following = None if number + 1 > left else (number + 1) * 100
            assert index.bracket(1000 + number * 10) == (reached * 100, following)
            beyond = None if number > left else 1000 + max(number, 1) * 10
            assert index.offset_beyond(number * 100) == beyond
            assert times.offset_for(number * 7 + 6) == 1000 + reached * 10


def test_look_ups_leave_no_descriptor_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    index = OffsetIndex(RealDisk(), str(tmp_path / "00000000000000000000.index"), 0)
    for number in range(TAIL_ENTRIES * 3):
        index.append(number * 10, number * 100)
    assert index.position_for(500) == 5000
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_index_that_lost_its_entries_is_a_storage_failure(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, TAIL_ENTRIES * 2)
    Path(index.path).write_bytes(b"")
    with pytest.raises(StorageFailure, match="shorter than it was"):
        index.position_for(1500)


def test_an_empty_index_leads_to_the_beginning(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, 0)
    assert (index.position_for(5000), index.last(), index.offset_beyond(0)) == (0, (1000, 0), None)
    assert not disk.exists(index.path)


def test_the_file_holds_relative_offsets_and_positions_and_nothing_else(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, 3)
    index.spill()
    assert Path(index.path).read_bytes() == struct.pack(">iiiiii", 10, 100, 20, 200, 30, 300)


def test_a_loaded_index_answers_as_the_one_that_was_written(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, TAIL_ENTRIES + 3)
    index.spill()
    index.close()
    loaded = OffsetIndex(disk, index.path, 1000)
    loaded.load()
    assert loaded.entries == TAIL_ENTRIES + 3
    assert loaded.position_for(1055) == 500
    loaded.append(9999, 99)
    assert loaded.position_for(9999) == 99
    loaded.close()


def test_a_torn_last_entry_is_not_counted_and_is_overwritten(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, 2)
    index.spill()
    index.close()
    with Path(index.path).open("ab") as file:
        file.write(b"\x00\x00\x01")
    loaded = OffsetIndex(disk, index.path, 1000)
    loaded.load()
    loaded.append(1030, 300)
    loaded.spill()
    assert Path(index.path).read_bytes() == struct.pack(">iiiiii", 10, 100, 20, 200, 30, 300)
    loaded.close()


@pytest.mark.parametrize("written", [False, True])
def test_truncation_drops_the_entries_at_and_above_an_offset(disk: FaultyDisk, tmp_path: Path, written: bool) -> None:
    index = offset_index(disk, tmp_path, 9)
    if written:
        index.spill()
        assert index.position_for(1090) == 900
    index.truncate_to(1050)
    assert index.last() == (1040, 400)
    index.append(1055, 555)
    assert [index.position_for(offset) for offset in (1054, 1055)] == [400, 555]
    index.truncate_to(1000)
    assert index.entries == 0
    index.close()


def test_the_first_entry_at_or_after_a_position_bounds_a_range(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, 4)
    assert [index.offset_beyond(at) for at in (0, 100, 101, 400, 401)] == [1010, 1010, 1020, 1040, None]


def test_a_full_disk_fails_no_append_and_loses_no_entry(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, TAIL_ENTRIES - 1)
    disk.room = 100
    index.append(50_000, 50_000)
    assert Path(index.path).stat().st_size == 0, "the part that fitted is cut off again"
    with pytest.raises(StorageFailure) as failure:
        index.spill()
    assert failure.value.out_of_space
    assert index.position_for(1010) == 100
    disk.heal()
    index.append(50_001, 50_001)
    assert Path(index.path).stat().st_size == (TAIL_ENTRIES + 1) * 8
    assert index.position_for(50_000) == 50_000
    index.close()


def test_a_broken_disk_is_a_storage_failure(disk: FaultyDisk, tmp_path: Path) -> None:
    index = offset_index(disk, tmp_path, 1)
    disk.fail_writes_from = 1
    with pytest.raises(StorageFailure) as failure:
        index.spill()
    assert failure.value.errno == errno.EIO
    assert failure.value.path == index.path
    index.close()


def test_time_entries_are_written_only_when_they_are_newer(disk: FaultyDisk, tmp_path: Path) -> None:
    index = TimeIndex(disk, str(tmp_path / "0.timeindex"), 100)
    for timestamp, offset in ((-1, 100), (50, 105), (50, 109), (70, 120)):
        index.append(timestamp, offset)
    index.spill()
    assert Path(index.path).read_bytes() == struct.pack(">qiqi", 50, 5, 70, 20)
    assert index.last() == (70, 120)
    assert [index.offset_for(timestamp) for timestamp in (49, 50, 69, 70, 99)] == [100, 105, 105, 120, 120]
    index.close()


def test_time_entries_are_truncated_by_offset(disk: FaultyDisk, tmp_path: Path) -> None:
    index = TimeIndex(disk, str(tmp_path / "0.timeindex"), 100)
    for number in range(1, 6):
        index.append(number * 10, 100 + number)
    index.truncate_to(103)
    assert index.last() == (20, 102)
    index.append(15, 104)
    assert index.entries == 2, "older than what is left"
    index.append(25, 104)
    assert index.last() == (25, 104)


ABORTED = [
    AbortedTransaction(1, 10, 19, 20),
    AbortedTransaction(2, 5, 29, 30),
    AbortedTransaction(1, 40, 49, 50),
]


@pytest.fixture
def transactions(disk: FaultyDisk, tmp_path: Path) -> TransactionIndex:
    index = TransactionIndex(disk, str(tmp_path / "0.txnindex"))
    for aborted in ABORTED:
        index.append(aborted)
    return index


def test_aborted_transactions_are_kept_in_kafkas_thirty_four_bytes(transactions: TransactionIndex) -> None:
    data = Path(transactions.path).read_bytes()
    assert data[:34] == struct.pack(">hqqqq", 0, 1, 10, 19, 20)
    assert len(data) == 3 * 34


def test_a_range_finds_the_transactions_it_touches_and_knows_when_no_more_can_come(
    transactions: TransactionIndex,
) -> None:
    assert transactions.overlapping(0, 5) == ([], True)
    assert transactions.overlapping(0, 30) == (ABORTED[:2], True)
    assert transactions.overlapping(20, 100) == (ABORTED[1:], False)
    assert transactions.overlapping(50, 100) == ([], False)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_long_transaction_index_answers_as_if_all_of_it_were_looked_at(
    disk: FaultyDisk, tmp_path: Path, loaded: bool
) -> None:
    entries = [AbortedTransaction(n, n * 10 - n % 7 * 10, n * 10 + 9, n * 10 - 5) for n in range(7, 1007)]
    index = TransactionIndex(disk, str(tmp_path / "0.txnindex"))
    for aborted in entries:
        index.append(aborted)
    if loaded:
        index.load()
    random = Random(1)
    for _ in range(200):
        lower = random.randrange(10_100)
        upper = lower + random.choice((1, 30, 5000))
        touched = [each for each in entries if each.last_offset >= lower and each.first_offset < upper]
        last = next((each for each in entries if each.last_stable_offset >= upper), None)
        expected = [each for each in touched if last is None or each.last_offset <= last.last_offset]
        assert index.overlapping(lower, upper) == (expected, last is not None), (lower, upper)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_reader_beyond_all_aborted_transactions_costs_no_look_at_the_file(
    disk: FaultyDisk, transactions: TransactionIndex, loaded: bool
) -> None:
    if loaded:
        transactions.load()
        assert transactions.overlapping(0, 100) == (ABORTED, False)
    disk.open_errno = errno.EMFILE
    assert transactions.overlapping(50, 100) == ([], False)


def test_a_transaction_index_comes_into_being_with_its_first_entry(disk: FaultyDisk, tmp_path: Path) -> None:
    index = TransactionIndex(disk, str(tmp_path / "0.txnindex"))
    assert index.all() == []
    assert not index.present
    assert not disk.exists(index.path)


def test_a_loaded_transaction_index_goes_on(disk: FaultyDisk, transactions: TransactionIndex) -> None:
    loaded = TransactionIndex(disk, transactions.path)
    loaded.load()
    assert loaded.all() == ABORTED
    loaded.append(AbortedTransaction(9, 60, 69, 70))
    loaded.truncate_to(49)
    assert loaded.all() == ABORTED[:2]
    loaded.reset()
    assert loaded.all() == []


def test_an_entry_that_cannot_be_of_the_segment_is_corruption(transactions: TransactionIndex) -> None:
    transactions.check(19)
    with pytest.raises(CorruptIndex):
        transactions.check(20)
    with Path(transactions.path).open("ab") as file:
        file.write(b"\x00")
    with pytest.raises(CorruptIndex):
        transactions.check(0)


def test_a_transaction_entry_without_room_waits_and_is_known_meanwhile(
    disk: FaultyDisk, transactions: TransactionIndex
) -> None:
    more = [AbortedTransaction(9, 60, 69, 70), AbortedTransaction(9, 70, 79, 80), AbortedTransaction(9, 80, 89, 90)]
    disk.room = 10
    transactions.append(more[0])
    transactions.append(more[1])
    assert transactions.all() == ABORTED + more[:2]
    assert Path(transactions.path).stat().st_size == 3 * 34
    transactions.truncate_to(79)
    assert transactions.all() == ABORTED + more[:1]
    disk.heal()
    transactions.append(more[2])
    assert transactions.all() == [*ABORTED, more[0], more[2]]
    assert Path(transactions.path).stat().st_size == 5 * 34


def test_a_transaction_entry_on_a_broken_disk_is_a_storage_failure(
    disk: FaultyDisk, transactions: TransactionIndex
) -> None:
    disk.fail_writes_from = 0
    with pytest.raises(StorageFailure):
        transactions.append(AbortedTransaction(9, 60, 69, 70))
