"""The judge of histories: it must see each kind of wrong, and nothing in what is right."""

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.records.record import Record
from ottla.sim.history import Attempt, Fate, History

LOG = TopicPartition("log", 0)
COPIES = TopicPartition("copies", 0)


def history() -> History:
    return History(lambda text: None)


def values(*numbers: int) -> list[bytes]:
    return [b"writer/0/%d" % number for number in numbers]


def contents(*numbers: int) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    return {LOG: list(enumerate(values(*numbers)))}


def test_what_was_acknowledged_and_is_there_once_in_order_is_right() -> None:
    judged = history()
    judged.acknowledge(LOG, 0, values(0, 1))
    judged.acknowledge(LOG, 2, values(2))
    judged.judge_writes(contents(0, 1, 2, 3))
    assert judged.violations == []


@pytest.mark.parametrize(
    ("found", "wrong"),
    [((0,), "lost write"), ((0, 1, 1), "duplicate"), ((0, 1, 3), "gap"), ((1, 0), "disorder")],
)
def test_a_log_that_lacks_repeats_skips_or_mixes_is_wrong(found: tuple[int, ...], wrong: str) -> None:
    judged = history()
    judged.acknowledge(LOG, 0, values(0, 1))
    judged.judge_writes(contents(*found))
    assert any(wrong in violation for violation in judged.violations)


def test_one_offset_for_two_values_is_wrong() -> None:
    judged = history()
    judged.acknowledge(LOG, 0, values(0))
    judged.acknowledge(LOG, 0, values(1))
    judged.see("one", LOG, [Record(5, 0, None, b"a")], committed=False)
    judged.see("other", LOG, [Record(5, 0, None, b"b")], committed=False)
    assert ["inconsistent offset" in violation for violation in judged.violations] == [True, True]


def test_a_poll_that_goes_back_is_wrong() -> None:
    judged = history()
    judged.see("one", LOG, [Record(5, 0, None, b"a"), Record(4, 0, None, b"b")], committed=False)
    assert "non-monotonic" in judged.violations[0]


def test_what_was_seen_and_is_gone_is_wrong() -> None:
    judged = history()
    judged.see("one", LOG, [Record(1, 0, None, values(1)[0])], committed=False)
    judged.judge_writes(contents(0))
    assert "lost read" in judged.violations[0]


def transaction(judged: History, fate: Fate, *numbers: int) -> list[bytes]:
    attempt = Attempt(f"copier.{len(judged.attempts)}")
    attempt.values = [f"copy:log-0@{number}#{attempt.name}".encode() for number in numbers]
    attempt.fate = fate
    judged.attempts[attempt.name] = attempt
    return attempt.values


@pytest.mark.parametrize(
    ("fate", "shown", "wrong"),
    [
        (Fate.COMMITTED, 2, None),
        (Fate.COMMITTED, 0, "lost write"),
        (Fate.COMMITTED, 1, "in part"),
        (Fate.ABORTED, 0, None),
        (Fate.ABORTED, 2, "aborted read"),
        (Fate.UNKNOWN, 0, None),
        (Fate.UNKNOWN, 1, "in part"),
        (Fate.UNKNOWN, 2, None),
    ],
)
def test_a_transaction_is_seen_whole_or_not_at_all(fate: Fate, shown: int, wrong: str | None) -> None:
    judged = history()
    written = transaction(judged, fate, 0, 1)
    judged.judge_transactions({COPIES: list(enumerate(written[:shown]))})
    assert [wrong in violation for violation in judged.violations if wrong] == ([True] if wrong else [])
    assert bool(judged.violations) == (wrong is not None)


def test_a_record_copied_twice_is_wrong() -> None:
    judged = history()
    twice = [*transaction(judged, Fate.COMMITTED, 0), *transaction(judged, Fate.COMMITTED, 0)]
    judged.judge_transactions({COPIES: list(enumerate(twice))})
    assert "copied 2 times" in judged.violations[0]


def test_copies_are_exactly_what_lies_below_the_committed_offset() -> None:
    judged = history()
    visible = {COPIES: list(enumerate(transaction(judged, Fate.COMMITTED, 0, 2)))}
    judged.judge_copies(visible, LOG, 3, [0, 2, 3])
    assert judged.violations == []
    judged.judge_copies(visible, LOG, 4, [0, 2, 3])
    judged.judge_copies(visible, LOG, 1, [0, 2, 3])
    assert ["missing [3]" in judged.violations[0], "too many [2]" in judged.violations[1]] == [True, True]


def test_a_committed_offset_goes_back_only_by_a_commit_that_was_not_answered() -> None:
    judged = history()
    judged.commit("group", LOG, 7)
    judged.doubt_commit("group", LOG, 5)
    judged.expect_committed("member", "group", LOG, 7, least=7)
    judged.expect_committed("member", "group", LOG, 5, least=7)
    assert judged.violations == []
    judged.expect_committed("member", "group", LOG, 6, least=7)
    assert "went back" in judged.violations[0]


def test_a_partition_has_one_owner_at_a_time() -> None:
    judged = history()
    judged.own("group", LOG, "one")
    judged.disown("group", LOG, "one")
    judged.own("group", LOG, "other")
    assert judged.violations == []
    judged.own("group", LOG, "one")
    assert "two owners" in judged.violations[0]
