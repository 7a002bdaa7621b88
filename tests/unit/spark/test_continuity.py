"""Whether a stream may go on where its checkpoint says it was."""

from __future__ import annotations

from ottla.base.vocabulary import TopicPartition
from ottla.spark.continuity import Onwards, find_breaks
from ottla.spark.positions import Reached

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def onwards(reached: Reached, ends: dict[TopicPartition, int], ids: dict[str, str]) -> dict[TopicPartition, Onwards]:
    written = {each: end for each, end in ends.items() if end < reached.offsets.get(each, end)}
    return {each.partition: each.onwards for each in find_breaks(reached, ends, written, ids)}


def test_a_log_that_has_grown_is_no_break() -> None:
    for ids in ({}, {"t": "x"}):
        assert onwards(Reached({A: 5, B: 5}, ids), {A: 5, B: 9}, {"t": "x"}) == {}
    assert onwards(Reached({A: 5}, {"t": "x"}), {A: 5}, {}) == {}


def test_a_topic_that_was_made_again_is_begun_anew_also_when_it_has_overtaken() -> None:
    reached = Reached({A: 5, B: 5}, {"t": "x"})
    assert onwards(reached, {A: 9}, {"t": "y"}) == {A: Onwards.BEGINNING, B: Onwards.NOWHERE}


def test_a_log_that_was_cut_goes_on_at_its_end_and_one_without_an_id_anew() -> None:
    assert onwards(Reached({A: 5}, {"t": "x"}), {A: 3}, {"t": "x"}) == {A: Onwards.END}
    assert onwards(Reached({A: 5}), {A: 3}, {"t": "x"}) == {A: Onwards.BEGINNING}


def test_a_partition_that_is_gone_is_waited_for() -> None:
    assert onwards(Reached({A: 5, B: 2}, {"t": "x"}), {B: 2}, {"t": "x"}) == {A: Onwards.WAIT}


def test_offsets_that_an_open_transaction_hides_are_not_gone() -> None:
    assert find_breaks(Reached({A: 5}), {A: 3}, {A: 7}, {}) == []
