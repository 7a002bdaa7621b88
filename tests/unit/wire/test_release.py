"""What is large is let go of in steps, and only what nobody else refers to."""

from __future__ import annotations

import weakref
from typing import Any

from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopics
from ottla.wire.messages.offset_fetch import OffsetFetchResponse as Response
from ottla.wire.messages.offset_fetch import OffsetFetchResponseGroup as Group
from ottla.wire.messages.offset_fetch import OffsetFetchResponsePartitions as Partition
from ottla.wire.messages.offset_fetch import OffsetFetchResponseTopics as Topic
from ottla.wire.release import AT_ONCE, released

MANY = 30_000


class Watched:
    """Tells when it is gone."""

    alive = 0

    def __init__(self) -> None:
        Watched.alive += 1
        weakref.finalize(self, Watched.gone)

    @staticmethod
    def gone() -> None:
        Watched.alive -= 1


def most_at_once(things: list[Any]) -> int:
    """The most that go in one step; in the end nothing is left."""
    most = 0
    before = Watched.alive
    for _ in released(things):
        most = max(most, before - Watched.alive)
        before = Watched.alive
    assert things == []
    return most


def an_answer() -> Response:
    partitions: list[Any] = [[Watched() for _ in range(MANY // 3)] for _ in range(3)]
    topics = [Topic(name="t", partitions=partitions.pop()) for _ in range(3)]
    return Response(groups=[Group(group_id="g", topics=topics)])


def test_a_large_answer_goes_in_steps() -> None:
    assert 0 < most_at_once([an_answer()]) <= AT_ONCE
    assert Watched.alive == 0


def test_so_do_sets_dictionaries_and_lists_in_tuples() -> None:
    things: list[Any] = [
        {Watched() for _ in range(MANY)},
        {at: Watched() for at in range(MANY)},
        [("topic", [Watched() for _ in range(MANY)])],
        {at: {Watched() for _ in range(1000)} for at in range(20)},
    ]
    assert 0 < most_at_once(things) <= AT_ONCE
    assert Watched.alive == 0


def test_what_somebody_else_refers_to_stays_as_it_is() -> None:
    answer = an_answer()
    most_at_once([answer])
    assert [len(topic.partitions) for topic in answer.groups[0].topics] == [MANY // 3] * 3
    topic = answer.groups[0].topics[1]
    partitions = answer.groups[0].topics[2].partitions
    things = [answer]
    del answer
    most_at_once(things)
    assert len(topic.partitions) == len(partitions) == MANY // 3
    assert Watched.alive == 2 * len(partitions)


def test_elements_that_hold_nothing_large_cost_a_look() -> None:
    steps = sum(1 for _ in released([[Partition(at, at) for at in range(MANY)]]))
    assert steps == MANY // AT_ONCE
    names = [OffsetFetchRequestTopics(name="t", partition_indexes=[1, 2]) for _ in range(MANY)]
    things = [names]
    del names
    assert sum(1 for _ in released(things)) == MANY // AT_ONCE
