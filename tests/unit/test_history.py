"""The history checker finds each kind of fault in a history that has it, and nothing in one that has none."""

from __future__ import annotations

import pytest

from kit.brokers.history import History


def good_history() -> History:
    history = History()
    for number in range(4):
        history.sent("p", 0, b"v%d" % number)
        history.acknowledged(b"v%d" % number, number)
    history.sent("p", 0, b"unknown")
    reader = history.reader("final")
    for number in range(4):
        reader.polled(0, number, b"v%d" % number)
    return history


def kinds(history: History) -> list[str]:
    return [fault.kind for fault in history.judge("final")]


def test_a_history_of_a_log_has_no_fault() -> None:
    assert kinds(good_history()) == []


def test_an_unacknowledged_value_may_be_there_or_not() -> None:
    history = good_history()
    history.reader("final").polled(0, 4, b"unknown")
    assert kinds(history) == []


def test_an_acknowledged_value_that_the_last_reader_does_not_meet_is_lost() -> None:
    history = good_history()
    history.sent("p", 0, b"gone")
    history.acknowledged(b"gone", 4)
    assert kinds(history) == ["lost write"]


def test_an_acknowledgement_without_offset_counts_as_well() -> None:
    history = good_history()
    history.sent("p", 0, b"gone")
    history.acknowledged(b"gone", -1)
    assert kinds(history) == ["lost write"]


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    history = good_history()
    history.reader("final").polled(0, 4, b"v3")
    assert kinds(history) == ["duplicate"]


def test_a_value_that_was_acknowledged_at_another_offset_than_it_is_read_from_is_a_duplicate() -> None:
    history = good_history()
    history.acknowledged(b"v3", 7)
    assert kinds(history) == ["duplicate"]


def test_two_values_at_one_offset_are_inconsistent_also_between_readers_at_different_times() -> None:
    history = good_history()
    history.sent("q", 0, b"other")
    history.reader("early").polled(0, 2, b"other")
    assert kinds(history) == ["inconsistent offset"]


def test_reading_what_was_refused_or_never_sent_is_an_aborted_read() -> None:
    history = good_history()
    history.refused(b"unknown")
    history.reader("final").polled(0, 4, b"unknown")
    history.reader("final").polled(0, 5, b"from nowhere")
    assert kinds(history) == ["aborted read", "aborted read"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_read_whole_when_it_was_committed_and_not_at_all_when_it_was_aborted(committed: bool) -> None:
    history = good_history()
    for number in (5, 6):
        history.sent("t", 0, b"t%d" % number, "one")
        history.acknowledged(b"t%d" % number, number)
        history.reader("final").polled(0, number, b"t%d" % number)
    history.ended("one", committed=committed)
    assert kinds(history) == ([] if committed else ["aborted read", "aborted read"])


def test_half_a_committed_transaction_is_a_lost_write_and_torn() -> None:
    history = good_history()
    for number in (5, 6):
        history.sent("t", 0, b"t%d" % number, "one")
        history.acknowledged(b"t%d" % number, number)
    history.reader("final").polled(0, 5, b"t5")
    history.ended("one", committed=True)
    assert kinds(history) == ["lost write", "torn transaction"]


def test_half_a_transaction_whose_end_nobody_knows_is_torn() -> None:
    history = good_history()
    for number in (5, 6):
        history.sent("t", 0, b"t%d" % number, "one")
        history.acknowledged(b"t%d" % number, number)
    history.reader("final").polled(0, 5, b"t5")
    assert kinds(history) == ["torn transaction"]


def test_a_reader_that_goes_back_without_being_moved_is_not_monotonic() -> None:
    history = good_history()
    reader = history.reader("some")
    for offset in (1, 2, 1):
        reader.polled(0, offset, b"v%d" % offset)
    assert kinds(history) == ["non-monotonic poll"]


def test_a_reader_that_was_moved_may_read_again() -> None:
    history = good_history()
    reader = history.reader("some")
    reader.polled(0, 2, b"v2")
    reader.moved(0)
    reader.polled(0, 0, b"v0")
    assert kinds(history) == []


def test_a_reader_that_passes_over_a_record_others_met_has_skipped_it() -> None:
    history = good_history()
    reader = history.reader("some")
    reader.polled(0, 0, b"v0")
    reader.polled(0, 3, b"v3")
    assert kinds(history) == ["skipped poll"]


def test_values_of_one_producer_lie_in_the_order_they_were_sent() -> None:
    history = History()
    for value in (b"first", b"second"):
        history.sent("p", 0, value)
    history.reader("final").polled(0, 0, b"second")
    history.reader("final").polled(0, 1, b"first")
    assert kinds(history) == ["reordered"]
