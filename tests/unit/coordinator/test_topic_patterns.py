"""Patterns are matched with the topics once, refused ones too, and again when topics come or go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from ottla.coordinator.groups import topic_patterns
from ottla.coordinator.groups.topic_patterns import TopicPatterns
from ottla.groups.pattern_syntax import BadPattern
from ottla.groups.patterns import matching

T = TypeVar("T")


class Table:
    """The topics of a cluster, and a look at how often they were matched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics: dict[str, int] = {"orders": 1, "payments": 1}
        self.patterns = TopicPatterns(lambda: self.topics)
        self.matched: list[str] = []

        def counted(pattern: str, names: dict[str, int]) -> frozenset[str]:
            self.matched.append(pattern)
            return matching(pattern, names)

        monkeypatch.setattr(topic_patterns, "matching", counted)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    return Table(monkeypatch)


async def at_once(work: Callable[[], T]) -> T:
    return work()


async def test_what_was_learned_is_not_matched_again(table: Table) -> None:
    await table.patterns.learn(["o.*", "("], at_once)
    assert table.patterns.unknown(["o.*", "(", "p.*"]) == ["p.*"]
    assert table.patterns.matching("o.*") == {"orders"}
    with pytest.raises(BadPattern):
        table.patterns.matching("(")
    assert table.matched == ["o.*", "("]


def test_a_pattern_that_nobody_learned_is_matched_on_the_spot(table: Table) -> None:
    assert table.patterns.matching("p.*") == {"payments"}
    assert table.patterns.matching("p.*") == {"payments"}
    assert table.matched == ["p.*"]


def test_a_topic_that_comes_or_goes_is_noticed_and_other_changes_cost_nothing(table: Table) -> None:
    table.patterns.matching(".*")
    table.topics = {"orders": 2, "payments": 1}
    assert table.patterns.unknown([".*"]) == []
    table.topics = {"orders": 2}
    assert table.patterns.matching(".*") == {"orders"}
    table.topics = {"orders": 2, "refunds": 1}
    assert table.patterns.matching(".*") == {"orders", "refunds"}


async def test_what_was_matched_with_topics_that_are_gone_meanwhile_is_not_kept(table: Table) -> None:
    async def slowly(work: Callable[[], T]) -> T:
        found = work()
        table.topics = {"refunds": 1}
        return found

    await table.patterns.learn([".*"], slowly)
    assert table.patterns.unknown([".*"]) == [".*"]
    assert table.patterns.matching(".*") == {"refunds"}


def test_answers_are_bounded(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "MOST_ANSWERS", 3)
    for count in range(5):
        table.patterns.matching("o" * count)
    assert len(table.patterns.unknown(["o" * count for count in range(5)])) == 2
