"""A partition's log at work: appends and their outcomes, rolling, reading, looking up, cutting."""

import os
from pathlib import Path

import pytest

from kit.disks.faulty_disk import FaultyFile
from kit.disks.workbench import Workbench, batch
from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.log.index import AbortedTransaction
from ottla.log.producers import EndMarker
from ottla.log.segment import FileRange
from ottla.log.settings import LogSettings
from ottla.records.header import iterate_headers

SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "orders-3", SMALL)


def test_a_new_log_touches_the_disk_with_its_first_batch(bench: Workbench) -> None:
    assert os.listdir(bench.directory) == []
    bench.append(b"first")
    assert os.listdir(bench.directory) == ["00000000000000000000.log"]


def test_offsets_and_epoch_are_set_in_the_very_buffer_that_is_written(bench: Workbench) -> None:
    bench.append(b"a", b"b")
    data = batch(b"c", b"d", b"e")
    outcome = bench.log.append_as_leader(memoryview(data), 6, bench.clock.now)
    assert outcome == (ErrorCode.NONE, 2, -1, 0, None, ())
    assert bench.log.end_offset == 5
    assert bench.log.epochs.entries == [(0, 0), (6, 2)]
    stored = Path(bench.directory, "00000000000000000000.log").read_bytes()
    assert stored.endswith(data)
    assert [header.leader_epoch for header in bench.headers()] == [0, 6]


def test_a_bad_batch_is_refused_with_a_reason(bench: Workbench) -> None:
    data = batch(b"a")
    data[-1] ^= 1
    outcome = bench.log.append_as_leader(memoryview(data), 0, bench.clock.now)
    assert (outcome.error, outcome.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert outcome.message
    assert bench.log.end_offset == 0


def test_append_time_is_stamped_and_answered(bench: Workbench) -> None:
    bench.log.settings = SMALL._replace(log_append_time=True)
    outcome = bench.append(b"a", timestamp=1)
    assert outcome.log_append_time == bench.clock.now
    assert bench.headers()[0].max_timestamp == bench.clock.now
    assert bench.log.time_search(None).run() == (bench.clock.now, 0, 0)


def test_a_repeated_batch_answers_its_first_offset_and_is_not_written_again(bench: Workbench) -> None:
    bench.append(b"other")
    bench.append(b"a", b"b", producer=(5, 0, 0), timestamp=777)
    size = bench.log.size
    outcome = bench.append(b"a", b"b", producer=(5, 0, 0), timestamp=777)
    assert (outcome.error, outcome.base_offset, outcome.log_append_time) == (ErrorCode.NONE, 1, 777)
    assert bench.log.size == size
    assert bench.append(b"x", producer=(5, 0, 7)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_larger_than_a_segment_is_refused(bench: Workbench) -> None:
    assert bench.append(b"x" * 1001).error is ErrorCode.RECORD_LIST_TOO_LARGE
    assert bench.append(b"x" * 800).error is ErrorCode.NONE


def test_a_segment_ends_before_it_would_outgrow_its_bytes(bench: Workbench) -> None:
    bench.fill(30)
    segments = bench.log.segments
    assert len(segments) > 3
    assert all(segment.size <= 1000 for segment in segments)
    assert all(segment.size > 800 for segment in segments[:-1])
    assert len(bench.records()) == 30
    names = os.listdir(bench.directory)
    for segment in segments[1:]:
        assert f"{segment.base_offset:020d}.snapshot" in names


def test_a_segment_ends_when_its_first_batch_is_too_old(bench: Workbench) -> None:
    bench.log.settings = SMALL._replace(segment_ms=100)
    for timestamp in (1000, 1050, 1100, 1101, 1050, 1201, 1202):
        bench.append(b"x", timestamp=timestamp)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 3, 6]


def test_without_timestamps_the_clock_ends_a_segment(bench: Workbench) -> None:
    bench.log.settings = SMALL._replace(segment_ms=100)
    bench.append(b"x", timestamp=-1)
    bench.clock.now += 100
    bench.append(b"x", timestamp=-1)
    bench.clock.now += 1
    bench.append(b"x", timestamp=-1)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2]


def test_new_settings_count_from_the_next_append_on(bench: Workbench) -> None:
    bench.append(b"x", timestamp=1000)
    bench.append(b"x", timestamp=9000)
    bench.log.settings = SMALL._replace(segment_ms=100)
    bench.append(b"x", timestamp=9000)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2]


def test_a_full_index_ends_a_segment(bench: Workbench, tmp_path: Path) -> None:
    settings = LogSettings(index_bytes=24, index_interval_bytes=0)
    other = Workbench(tmp_path / "other-0", settings)
    for number in range(8):
        other.append(b"x", timestamp=other.clock.now + number)
    assert len(other.log.segments) > 2
    assert len(other.records()) == 8


def test_an_offset_too_far_above_the_base_begins_a_segment(bench: Workbench) -> None:
    bench.append(b"x")
    far = batch(b"y", base_offset=2**31, leader_epoch=1)
    assert bench.log.append_as_follower(memoryview(far)).error is ErrorCode.NONE
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2**31]
    assert bench.records() == [(0, b"x"), (2**31, b"y")]
    assert bench.log.read(1, 100, bench.log.end_offset, True) == bench.log.read(2**31, 100, 2**31 + 1, True)


# Reading


def length_of(answer: object) -> int:
    assert isinstance(answer, FileRange), answer
    return answer.length


@pytest.mark.parametrize("remembered", [True, False])
def test_a_read_is_bounded_by_bytes_and_by_the_upper_offset(bench: Workbench, remembered: bool) -> None:
    for number in range(6):
        bench.append(b"%d" % number, b"+")
    if not remembered:
        bench.restart()
    log = bench.log
    size = log.size // 6
    end = log.end_offset
    assert log.read(end, 100, end, True) is None
    assert log.read(end + 1, 100, end, True) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(3, 10_000, end, True) == (log.segments[0].file, size, 5 * size)
    assert log.read(3, size + 10, end, True) == (log.segments[0].file, size, size + 10)
    assert length_of(log.read(3, 10, end, True)) == size, "the first batch comes whole"
    assert log.read(3, 10, end, False) is None, "or not at all"
    assert log.read(3, 0, end, False) is None
    assert length_of(log.read(3, size, end, False)) == size
    assert length_of(log.read(3, 10_000, 8, True)) == 3 * size
    assert length_of(log.read(3, 10_000, 9, True)) == 3 * size, "the batch that holds the upper offset stays out"
    assert log.read(2, 10_000, 3, True) is None
    assert log.read(8, 10_000, 8, True) is None
    assert log.read(9, 10_000, 4, True) is None


def test_a_range_ends_with_its_segment(bench: Workbench) -> None:
    bench.fill(20)
    first, second = bench.log.segments[:2]
    answer = bench.log.read(0, 1 << 20, bench.log.end_offset, True)
    assert answer == (first.file, 0, first.size)
    answer = bench.log.read(second.base_offset, 1 << 20, bench.log.end_offset, True)
    assert answer == (second.file, 0, second.size)


def test_a_read_below_the_start_is_out_of_range(bench: Workbench) -> None:
    bench.fill(5)
    assert bench.log.delete_records_before(3) is ErrorCode.NONE
    assert bench.log.read(2, 100, 5, True) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert isinstance(bench.log.read(3, 100, 5, True), FileRange)


def test_damage_under_a_read_is_told_as_such(bench: Workbench) -> None:
    bench.fill(5)
    bench.restart()
    with Path(bench.log.segments[0].path).open("r+b") as file:
        file.seek(8)
        file.write(b"\xff\xff\xff\xff")
    assert bench.log.read(1, 100, 5, True) is ErrorCode.CORRUPT_MESSAGE


# Looking up


def test_a_timestamp_leads_to_the_first_record_that_new(bench: Workbench) -> None:
    times = [100, 200, 150, 300, 250, 400, 400, 350]
    for number, timestamp in enumerate(times):
        bench.append(b"%d" % number + b"." * 200, timestamp=timestamp, epoch=number)
    assert len(bench.log.segments) > 1
    for wanted in (0, 100, 101, 200, 201, 299, 300, 301, 399, 400):
        offset = next(number for number, timestamp in enumerate(times) if timestamp >= wanted)
        assert bench.log.time_search(wanted).run() == (times[offset], offset, offset)
    assert bench.log.time_search(401).run() is None
    assert bench.log.time_search(None).run() == (400, 5, 5)


def test_a_timestamp_is_found_inside_a_batch_and_above_the_start(bench: Workbench) -> None:
    bench.append(b"a", b"b", b"c", timestamp=100)
    bench.append(b"d", timestamp=90)
    bench.log.delete_records_before(1)
    assert bench.log.time_search(95).run() == (100, 1, 0)
    bench.log.delete_records_before(3)
    assert bench.log.time_search(95).run() is None
    assert bench.log.time_search(90).run() == (90, 3, 0)


def test_a_search_by_time_opens_no_file_that_is_known_to_be_older(bench: Workbench) -> None:
    for number in range(8):
        bench.append(b"%d" % number + b"." * 200, timestamp=100 + number)
    bench.restart()
    opened: list[str] = []
    real = bench.disk.open

    def counted(path: str, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        opened.append(path)
        return real(path, create=create, read_only=read_only)

    bench.disk.open = counted  # type: ignore[method-assign]
    for known in (False, True):
        search = bench.log.time_search(107)
        opened.clear()
        assert search.run() == (107, 7, 0)
        logs = {path for path in opened if path.endswith(".log")}
        assert len(logs) == (1 if known else len(bench.log.segments))
        assert bench.log.searched(search)


def test_a_log_that_was_cut_under_a_search_is_searched_again(bench: Workbench) -> None:
    for number in range(8):
        bench.append(b"%d" % number + b"." * 200, timestamp=100 + number)
    cut, begun, raised = (bench.log.time_search(105) for _ in range(3))
    bench.log.truncate_to(6)
    assert cut.run() == (105, 5, 0)
    assert not bench.log.searched(cut)
    bench.log.high_watermark = 6
    bench.log.delete_records_before(2)
    assert not bench.log.searched(raised)
    bench.log.truncate_fully_and_start_at(50)
    with pytest.raises(StorageFailure):
        begun.run()
    assert not bench.log.searched(begun)


def test_an_empty_log_has_no_timestamps(bench: Workbench) -> None:
    assert bench.log.time_search(None).run() is None
    assert bench.log.time_search(0).run() is None


# Transactions


def end(bench: Workbench, producer_id: int, *, commit: bool) -> None:
    outcome = bench.log.append_control(EndMarker(producer_id, 0, 1, commit), 0, bench.clock.now)
    assert outcome.error is ErrorCode.NONE
    bench.log.high_watermark = bench.log.end_offset


def test_the_last_stable_offset_waits_for_open_transactions(bench: Workbench) -> None:
    bench.append(b"plain")
    bench.append(b"t", producer=(1, 0, 0), transactional=True)
    bench.append(b"u", producer=(2, 0, 0), transactional=True)
    assert (bench.log.last_stable_offset, bench.log.high_watermark) == (1, 3)
    end(bench, 1, commit=True)
    assert bench.log.last_stable_offset == 2
    end(bench, 2, commit=False)
    assert bench.log.last_stable_offset == bench.log.end_offset == 5
    assert bench.log.aborted_transactions(0, 5) == [AbortedTransaction(2, 2, 4, 5)]
    assert bench.log.aborted_transactions(0, 2) == []


def test_aborted_transactions_are_found_from_the_segments_behind(bench: Workbench) -> None:
    bench.append(b"t", producer=(1, 0, 0), transactional=True)
    bench.fill(20)
    end(bench, 1, commit=False)
    assert len(bench.log.segments) > 2
    expected = [AbortedTransaction(1, 0, 21, 22)]
    assert bench.log.aborted_transactions(0, 5) == expected
    bench.restart()
    assert bench.log.aborted_transactions(0, 5) == expected
    bench.crash(lambda _, synced, size: size)
    assert bench.log.aborted_transactions(0, 5) == expected


def test_a_read_is_told_only_of_the_transactions_it_can_meet(bench: Workbench) -> None:
    for number in range(12):
        bench.append(b"x" * 60, producer=(1, 0, number), transactional=True)
        end(bench, 1, commit=False)
    log = bench.log
    assert len(log.segments) > 2
    for offset in range(0, log.end_offset, 2):
        answer = log.read(offset, 200, log.end_offset, True)
        assert isinstance(answer, FileRange)
        upper = log.upper_bound(offset, answer)
        data = answer.file.read_at(answer.position, answer.length)
        last = max(header.last_offset for _, header in iterate_headers(data))
        assert last < upper <= log.end_offset
        aborted = log.aborted_transactions(offset, upper)
        assert aborted[0].first_offset == offset
        assert len(aborted) <= 4


def test_a_watermark_below_a_marker_keeps_the_transaction_unstable(bench: Workbench) -> None:
    bench.append(b"t", producer=(1, 0, 0), transactional=True)
    bench.log.append_control(EndMarker(1, 0, 1, True), 0, bench.clock.now)
    assert bench.log.last_stable_offset == 0
    bench.log.high_watermark = 1
    assert bench.log.last_stable_offset == 0
    bench.log.high_watermark = 2
    assert bench.log.last_stable_offset == 2


def test_a_marker_of_an_old_epoch_is_not_written(bench: Workbench) -> None:
    bench.append(b"t", producer=(1, 3, 0), transactional=True)
    outcome = bench.log.append_control(EndMarker(1, 2, 1, True), 0, bench.clock.now)
    assert outcome.error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.log.end_offset == 1


def test_producers_expire(bench: Workbench) -> None:
    bench.append(b"t", producer=(1, 0, 0))
    assert bench.log.expire_producers(bench.clock.now + 86_399_999) == 0
    assert bench.log.expire_producers(bench.clock.now + 86_400_000) == 1
    assert bench.append(b"u", producer=(1, 0, 9)).error is ErrorCode.NONE


# Following


def test_a_follower_takes_batches_as_they_are(bench: Workbench, tmp_path: Path) -> None:
    follower = Workbench(tmp_path / "copy-0", SMALL)
    for number in range(12):
        bench.append(b"%d" % number, b"." * 40, producer=(1, 0, number * 2), epoch=number // 5)
    while follower.log.end_offset < bench.log.end_offset:
        answer = bench.log.read(follower.log.end_offset, 500, bench.log.end_offset, True)
        assert isinstance(answer, FileRange)
        data = bytearray(answer.file.read_at(answer.position, answer.length))
        assert follower.log.append_as_follower(memoryview(data)).error is ErrorCode.NONE
    assert follower.log.epochs.entries == bench.log.epochs.entries
    bench.log.close()
    follower.log.close()
    names = os.listdir(bench.directory)
    assert sorted(names) == sorted(os.listdir(follower.directory))
    for name in names:
        assert Path(bench.directory, name).read_bytes() == Path(follower.directory, name).read_bytes(), name


def test_a_follower_refuses_what_does_not_fit(bench: Workbench) -> None:
    bench.fill(3)
    again = batch(b"x", base_offset=2)
    assert bench.log.append_as_follower(memoryview(again)).error is ErrorCode.OFFSET_OUT_OF_RANGE
    spoiled = batch(b"x", base_offset=3)
    spoiled[-1] ^= 1
    assert bench.log.append_as_follower(memoryview(spoiled)).error is ErrorCode.CORRUPT_MESSAGE
    assert bench.log.append_as_follower(memoryview(batch(b"x", base_offset=3)[:-1])).error is ErrorCode.NONE
    assert bench.log.end_offset == 3


# Cutting


def test_records_are_deleted_up_to_the_watermark_only(bench: Workbench) -> None:
    bench.fill(10)
    bench.log.high_watermark = 6
    assert bench.log.delete_records_before(7) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.log.delete_records_before(6) is ErrorCode.NONE
    assert bench.log.delete_records_before(2) is ErrorCode.NONE, "already so"
    assert bench.log.start_offset == 6
    assert bench.log.epochs.entries == [(0, 6)]


def test_segments_below_the_start_go_and_their_files_follow_later(bench: Workbench) -> None:
    bench.fill(30)
    log = bench.log
    gone = log.segments[0]
    reader = log.read(0, 1 << 20, log.end_offset, True)
    log.delete_records_before(log.segments[1].base_offset)
    assert log.expired_segments(bench.clock.now) == [gone]
    log.delete_segments(log.expired_segments(bench.clock.now))
    assert gone not in log.segments
    assert f"{0:020d}.log.deleted" in os.listdir(bench.directory)
    assert isinstance(reader, FileRange)
    assert len(reader.file.read_at(reader.position, reader.length)) == reader.length, "a reader may finish"
    (removal,) = log.take_removals()
    assert removal.due_ms == bench.clock.now + SMALL.file_delete_delay_ms
    removal.run()
    assert not [name for name in os.listdir(bench.directory) if name.startswith(f"{0:020d}")]
    assert log.take_removals() == []


def test_when_all_segments_expire_the_log_rolls_first(bench: Workbench) -> None:
    bench.fill(12)
    end_offset = bench.log.end_offset
    bench.clock.now += SMALL.retention_ms + 1
    bench.log.delete_segments(bench.log.expired_segments(bench.clock.now))
    assert [segment.base_offset for segment in bench.log.segments] == [end_offset]
    assert bench.log.start_offset == bench.log.end_offset == end_offset
    bench.restart()
    assert bench.log.end_offset == end_offset, "the empty segment's name remembers it"
    assert bench.append(b"next").base_offset == end_offset


def test_truncation_takes_producers_and_epochs_back(bench: Workbench) -> None:
    for number in range(20):
        bench.append(b"x" * 100, producer=(1, 0, number), epoch=number // 6)
    assert len(bench.log.segments) > 3
    assert bench.log.truncate_to(7)
    assert (bench.log.end_offset, bench.log.high_watermark) == (7, 7)
    assert bench.log.epochs.entries == [(0, 0), (1, 6)]
    assert bench.append(b"y", producer=(1, 0, 9)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.append(b"y", producer=(1, 0, 7), epoch=1).base_offset == 7
    assert [offset for offset, _ in bench.records()] == list(range(8))
    assert not bench.log.truncate_to(100)


def test_truncation_below_the_first_segment_begins_anew(bench: Workbench) -> None:
    bench.fill(20)
    bench.log.delete_records_before(bench.log.segments[2].base_offset)
    bench.log.delete_segments(bench.log.expired_segments(bench.clock.now))
    assert bench.log.truncate_to(1)
    assert (bench.log.start_offset, bench.log.end_offset, bench.log.high_watermark) == (1, 1, 1)
    assert bench.append(b"x").base_offset == 1


def test_a_log_can_be_started_at_any_offset(bench: Workbench) -> None:
    bench.append(b"x", producer=(1, 0, 0))
    bench.log.truncate_fully_and_start_at(500)
    assert (bench.log.start_offset, bench.log.end_offset) == (500, 500)
    assert len(bench.log.producers) == 0
    assert bench.log.epochs.entries == []
    assert bench.append(b"y").base_offset == 500
    bench.restart()
    assert bench.records() == [(500, b"y")]


# Flushing


def test_a_flush_covers_what_was_there_when_it_began(bench: Workbench) -> None:
    bench.fill(3)
    assert bench.log.unflushed_messages == 3
    ticket = bench.log.begin_flush()
    assert ticket is not None
    bench.fill(2)
    ticket.run()
    bench.log.finish_flush(ticket)
    assert (bench.log.recovery_point, bench.log.unflushed_messages) == (3, 2)
    bench.flush()
    assert bench.log.begin_flush() is None


def test_a_flush_of_the_active_segment_syncs_one_file(bench: Workbench) -> None:
    bench.fill(3)
    bench.flush()
    bench.fill(1)
    ticket = bench.log.begin_flush()
    assert ticket is not None
    assert [file.path for _, file in ticket.files] == [bench.log.segments[0].path]
    assert not ticket.names
    assert ticket.epochs is None


def test_closed_segments_can_be_flushed_by_themselves(bench: Workbench) -> None:
    bench.fill(12)
    assert bench.log.has_unflushed_sealed
    ticket = bench.log.begin_flush(sealed_only=True)
    assert ticket is not None
    ticket.run()
    bench.log.finish_flush(ticket)
    assert bench.log.recovery_point == bench.log.segments[-1].base_offset
    assert not bench.log.has_unflushed_sealed
    assert bench.log.unflushed_messages > 0


def test_the_indexes_of_a_flushed_segment_are_synced_once_it_is_closed(bench: Workbench) -> None:
    bench.fill(3)
    bench.flush()
    bench.log.roll()
    assert bench.log.recovery_point == bench.log.segments[-1].base_offset
    assert bench.log.has_unflushed_sealed
    bench.flush()
    assert not bench.log.has_unflushed_sealed
    assert bench.disk.synced[bench.log.segments[0].time_index.path] == 12


def test_a_flush_that_a_truncation_overtook_moves_nothing(bench: Workbench) -> None:
    bench.fill(6)
    ticket = bench.log.begin_flush()
    assert ticket is not None
    bench.log.truncate_to(2)
    bench.fill(3)
    ticket.run()
    bench.log.finish_flush(ticket)
    assert bench.log.recovery_point == 0


def test_the_epochs_are_on_disk_after_a_flush(bench: Workbench) -> None:
    bench.append(b"x", epoch=4)
    bench.flush()
    assert Path(bench.directory, "leader-epoch-checkpoint").read_text() == "0\n1\n4 0\n"


def test_a_log_goes_on_where_its_directory_was_renamed_to(bench: Workbench) -> None:
    bench.fill(12)
    moved = bench.directory + ".0123-delete"
    bench.disk.rename(bench.directory, moved)
    bench.log.move(moved)
    assert len(bench.records()) == 12
    bench.log.roll()
    assert f"{12:020d}.log" in os.listdir(moved)


def test_aborted_transactions_are_told_in_the_order_in_which_they_began(bench: Workbench) -> None:
    for producer in (7, 8):
        bench.append(b"x", producer=(producer, 0, 0), transactional=True)
    for producer in (8, 7):
        bench.log.append_control(EndMarker(producer, 0, 0, commit=False), 0, bench.clock.now)
    assert [(each.producer_id, each.first_offset) for each in bench.log.aborted_transactions(0, 4)] == [(7, 0), (8, 1)]
