"""The history of leader epochs, and its file."""

import pytest

from ottla.log.epochs import EpochHistory


def history(*entries: tuple[int, int]) -> EpochHistory:
    made = EpochHistory()
    for epoch, offset in entries:
        made.assign(epoch, offset)
    return made


def test_the_file_is_kafkas_and_reads_back() -> None:
    text = history((0, 0), (3, 17)).text()
    assert text == "0\n2\n0 0\n3 17\n"
    again = EpochHistory.from_text(text)
    assert again.entries == [(0, 0), (3, 17)]
    assert again.latest_epoch == 3
    assert not again.dirty


def test_an_empty_file_is_an_empty_history() -> None:
    assert EpochHistory.from_text("").entries == []
    assert EpochHistory.from_text("0\n0\n").latest_epoch == -1


@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\n0 0\n", "0\nx\n", "0\n1\na b\n", "0\n"])
def test_a_malformed_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        EpochHistory.from_text(text)


def test_the_same_epoch_again_changes_nothing() -> None:
    known = history((0, 0), (1, 10))
    known.dirty = False
    known.assign(1, 20)
    assert known.entries == [(0, 0), (1, 10)]
    assert not known.dirty


def test_a_new_epoch_removes_entries_that_contradict_it() -> None:
    assert history((0, 0), (2, 10), (3, 20), (4, 5)).entries == [(0, 0), (4, 5)]
    assert history((0, 0), (5, 10), (3, 20)).entries == [(0, 0), (3, 20)]
    assert history((0, 0), (1, 10), (1, 5)).entries == [(0, 0), (1, 5)]


def test_truncation_at_the_end_forgets_epochs_that_begin_there() -> None:
    known = history((0, 0), (1, 10), (2, 20))
    known.truncate_end(10)
    assert known.entries == [(0, 0)]
    assert known.latest_epoch == 0


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(0, 5), (1, 10), (2, 20)]),
        (5, [(0, 5), (1, 10), (2, 20)]),
        (7, [(0, 7), (1, 10), (2, 20)]),
        (10, [(1, 10), (2, 20)]),
        (15, [(1, 15), (2, 20)]),
        (99, [(2, 99)]),
    ],
)
def test_truncation_at_the_start_moves_the_epoch_that_holds_it(start: int, left: list[tuple[int, int]]) -> None:
    known = history((0, 5), (1, 10), (2, 20))
    known.truncate_start(start)
    assert known.entries == left


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    known = history((1, 5), (3, 10), (4, 20))
    assert known.end_offset_for(4, 33) == (4, 33)
    assert known.end_offset_for(3, 33) == (3, 20)
    assert known.end_offset_for(2, 33) == (1, 10), "an epoch without records ends with the one before"
    assert known.end_offset_for(0, 33) == (0, 5), "before all that is known"
    assert known.end_offset_for(5, 33) is None
    assert known.end_offset_for(-1, 33) is None
    assert EpochHistory().end_offset_for(0, 0) is None


def test_an_offset_has_the_epoch_that_began_before_it() -> None:
    known = history((1, 5), (3, 10))
    assert [known.epoch_at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 3, 3]
