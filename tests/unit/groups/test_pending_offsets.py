"""Offsets of open transactions."""

from __future__ import annotations

import pytest

from ottla.groups.facts import OffsetFact, StoredOffset
from ottla.groups.offsets import OffsetTable


def fact(offset: int | None, partition: int = 0, group_id: str = "g", topic: str = "t") -> OffsetFact:
    stored = None if offset is None else StoredOffset(offset, -1, "", 1)
    return OffsetFact(group_id, topic, partition, stored)


@pytest.fixture
def table() -> OffsetTable:
    return OffsetTable()


def valid(table: OffsetTable, partition: int = 0) -> int | None:
    committed = table.get("g", "t", partition)
    return None if committed is None else committed.offset


def end(table: OffsetTable, producer_id: int, commit: bool) -> None:
    for committed in table.pending.end(producer_id, commit):
        table.apply(committed)


def test_offsets_hold_when_their_transaction_is_committed(table: OffsetTable) -> None:
    table.pending.note(1, fact(5))
    table.pending.note(1, fact(7, partition=1))
    assert valid(table) is None
    assert table.pending.holds("g", "t", 0)
    end(table, 1, commit=True)
    assert (valid(table), valid(table, 1)) == (5, 7)
    assert not table.pending


def test_offsets_of_an_aborted_transaction_never_hold(table: OffsetTable) -> None:
    table.apply(fact(3))
    table.pending.note(1, fact(5))
    end(table, 1, commit=False)
    assert valid(table) == 3
    assert not table.pending.holds("g", "t", 0)


def test_a_later_commit_outside_outlives_the_transaction_but_stays_unstable_until_its_end(table: OffsetTable) -> None:
    table.pending.note(1, fact(5))
    table.apply(fact(9))
    assert valid(table) == 9
    assert table.pending.holds("g", "t", 0)
    end(table, 1, commit=True)
    assert valid(table) == 9


def test_a_commit_in_the_transaction_after_one_outside_counts(table: OffsetTable) -> None:
    table.pending.note(1, fact(5))
    table.apply(fact(9))
    table.pending.note(1, fact(12))
    end(table, 1, commit=True)
    assert valid(table) == 12


def test_transactions_do_not_end_each_other(table: OffsetTable) -> None:
    table.pending.note(1, fact(5))
    table.pending.note(2, fact(6))
    end(table, 1, commit=True)
    assert valid(table) == 5
    assert table.pending.holds("g", "t", 0)
    end(table, 2, commit=False)
    assert valid(table) == 5
    assert not table.pending.holds("g", "t", 0)


def test_the_end_of_an_unknown_transaction_changes_nothing(table: OffsetTable) -> None:
    end(table, 9, commit=True)
    assert not table.pending


def test_what_a_deleted_group_or_topic_may_yet_get_goes_too(table: OffsetTable) -> None:
    table.pending.note(1, fact(5))
    table.pending.note(1, fact(6, group_id="other"))
    table.pending.note(1, fact(7, topic="gone"))
    for going in [*table.all_of("other"), *table.of_topics(["gone"])]:
        assert isinstance(going, OffsetFact)
        table.apply(going)
    end(table, 1, commit=True)
    assert valid(table) == 5
    assert table.get("other", "t", 0) is None
    assert table.get("g", "gone", 0) is None
