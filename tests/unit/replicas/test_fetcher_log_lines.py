"""What a node's log is told of the answers of a leader."""

import pytest

from ottla.replicas.fetcher_log_lines import FetcherLogLines


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "ottla.broker")
    return caplog


def test_a_few_are_told_one_by_one(lines: pytest.LogCaptureFixture) -> None:
    told = FetcherLogLines(3)
    assert not told.waiting
    told.truncated("a-0", (9, 7), 2, 8)
    told.begun("a-1", (9, 20), 20, 30)
    assert told.waiting
    told.tell()
    assert lines.messages == [
        "a-0 is truncated from 9 to 7: epoch 2 of its leader, broker 3, ends at 8",
        "a-1 ended at 9, its leader, broker 3, has 20 to 30: it goes on at 20",
    ]


def test_many_are_told_in_a_line_for_each_thing_that_happened(lines: pytest.LogCaptureFixture) -> None:
    told = FetcherLogLines(3)
    for number in range(300):
        told.truncated(f"a-{number}", (10, 8), 2, 8)
        told.begun(f"b-{number}", (9, 20), 20, 30)
        told.refused(f"c-{number}", "KAFKA_STORAGE_ERROR")
    told.tell()
    assert lines.messages == [
        "300 partitions are truncated where they leave the histories of broker 3, by 600 records in all: "
        "a-0, a-1, a-2, a-3, a-4 and 295 more",
        "300 partitions ended where broker 3 has no records, and go on where it has: "
        "b-0, b-1, b-2, b-3, b-4 and 295 more",
        "broker 3, which leads them, answers KAFKA_STORAGE_ERROR: c-0, c-1, c-2, c-3, c-4 and 295 more",
    ]


def test_nothing_is_told_twice(lines: pytest.LogCaptureFixture) -> None:
    told = FetcherLogLines(3)
    told.refused("c-0", "KAFKA_STORAGE_ERROR")
    told.tell()
    assert not told.waiting
    told.tell()
    assert lines.messages == ["broker 3, which leads c-0, answers KAFKA_STORAGE_ERROR"]
