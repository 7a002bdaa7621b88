"""Ends of transactions reach their partitions, whatever stands in the way, and are completed once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from kit.disks.workbench import Workbench
from kit.worlds.lone_partitions import lone_partition
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.marker_queue import RETRY_SECONDS, SLICE_SECONDS, MarkerQueue, PendingMarkers
from ottla.log.producers import EndMarker
from ottla.log.settings import LogSettings
from ottla.replicas.partitions import Partition

HERE = 1
Told = Callable[[Mapping[TopicPartition, ErrorCode]], None]
MARKER = EndMarker(7, 3, 0, True, 2)


class Handle(asyncio.TimerHandle):
    """A callback that the test lets happen."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.due = when
        self.callback = callback
        self.gone = False

    def cancel(self) -> None:
        self.gone = True

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Story:
    """Clock, loop and the way to partitions in one, moved by the test.

    `answers` is what partitions say, one after another; `leaders` says who leads them (this broker, unless told).
    """

    node_id = HERE

    def __init__(self, path: Path) -> None:
        self.seconds = 0.0
        self.cost = 0.0
        self.handles: list[Handle] = []
        self.unsafe = False
        self.waiting: list[tuple[Sequence[tuple[Partition, int]], Callable[[ErrorCode], None]]] = []
        self.answers: dict[TopicPartition, list[ErrorCode]] = {}
        self.leaders: dict[TopicPartition, int | None] = {}
        self.sent: list[tuple[int, list[TopicPartition], Told]] = []
        self.told: list[TopicPartition] = []
        self.completed: Counter[str] = Counter()
        self.stored = True
        self.breaks = False
        """Whether the disk fails, and takes the coordinator's own log with it."""
        self._log = Workbench(path, LogSettings()).load()
        self.clock = self.loop = self
        self.endings = MarkerQueue(self, self, self.complete)

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def call_soon(self, callback: Callable[[], object], /) -> asyncio.Handle:
        return self.call_later(0, callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle:
        self.handles.append(Handle(self.seconds + delay, callback))
        return self.handles[-1]

    def when_safe(self, places: Sequence[tuple[Partition, int]], done: Callable[[ErrorCode], None], /) -> None:
        if self.unsafe:
            self.waiting.append((places, done))
        else:
            done(ErrorCode.NONE)

    def leader_of(self, name: TopicPartition, /) -> int | None:
        return self.leaders.get(name, HERE)

    def send(self, broker_id: int, marker: EndMarker, names: Sequence[TopicPartition], done: Told, /) -> None:
        assert marker == MARKER
        self.sent.append((broker_id, list(names), done))

    def write(self, name: TopicPartition, marker: EndMarker, /) -> Partition | ErrorCode:
        assert marker == MARKER
        self.seconds += self.cost
        self.told.append(name)
        if self.breaks:
            self.endings.stop()
            return ErrorCode.KAFKA_STORAGE_ERROR
        answers = self.answers.get(name)
        error = answers.pop(0) if answers else ErrorCode.NONE
        return lone_partition(name, bytes(16), 0, self._log) if error == ErrorCode.NONE else error

    def complete(self, name: str) -> bool:
        if self.stored:
            self.completed[name] += 1
        return self.stored

    def end(self, name: str, *indexes: int) -> None:
        self.endings.add(PendingMarkers(name, MARKER, [at(index) for index in indexes]))

    def run(self, seconds: float = 0.0) -> int:
        """Let what is due happen; answers how much that was."""
        self.seconds += seconds
        due = [handle for handle in self.handles if handle.due <= self.seconds]
        self.handles = [handle for handle in self.handles if handle.due > self.seconds]
        for handle in due:
            if not handle.gone:
                handle.callback()
        return len(due)


def at(index: int) -> TopicPartition:
    return TopicPartition("topic", index)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_small_transaction_is_over_at_once(story: Story) -> None:
    story.end("a", 0, 1, 2)
    assert set(story.told) == {at(0), at(1), at(2)}
    assert story.completed == {"a": 1}
    assert story.handles == []


def test_a_transaction_without_partitions_is_complete(story: Story) -> None:
    story.end("a")
    assert story.completed == {"a": 1}


def test_a_large_transaction_lets_others_have_their_turn(story: Story) -> None:
    story.cost = SLICE_SECONDS / 2
    story.end("a", *range(7))
    assert 0 < len(story.told) < 7
    story.end("b", 0)
    assert story.completed == {}
    turns = 0
    while story.run():
        turns += 1
    assert turns > 1
    assert story.completed == {"a": 1, "b": 1}
    assert len(story.told) == 8


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_partition_that_knows_better_does_not_hold_the_others_up(story: Story, error: ErrorCode) -> None:
    story.answers[at(1)] = [error]
    story.end("a", 0, 1)
    assert story.completed == {"a": 1}


def test_a_partition_that_is_gone_needs_no_marker(story: Story) -> None:
    story.leaders[at(1)] = None
    story.end("a", 0, 1)
    assert story.completed == {"a": 1}
    assert story.told == [at(0)]


def test_each_broker_is_asked_for_its_own_partitions(story: Story) -> None:
    story.leaders |= {at(1): 2, at(2): 3, at(3): 2}
    story.end("a", 0, 1, 2, 3)
    assert story.told == [at(0)]
    assert {broker: set(names) for broker, names, _ in story.sent} == {2: {at(1), at(3)}, 3: {at(2)}}
    for _, _, done in story.sent:
        assert story.completed == {}
        done({})
    assert story.completed == {"a": 1}


def test_what_another_broker_could_not_write_goes_to_the_next_leader(story: Story) -> None:
    story.leaders |= {at(0): 2, at(1): 2}
    story.end("a", 0, 1)
    ((_, _, done),) = story.sent
    story.leaders[at(1)] = 3
    done({at(1): ErrorCode.NOT_LEADER_OR_FOLLOWER})
    story.run(RETRY_SECONDS)
    assert [(broker, names) for broker, names, _ in story.sent[1:]] == [(3, [at(1)])]
    story.sent[1][2]({})
    assert story.completed == {"a": 1}


def test_a_partition_without_a_leader_is_waited_for(story: Story) -> None:
    story.leaders[at(0)] = -1
    story.end("a", 0)
    story.run(RETRY_SECONDS)
    assert story.completed == {}
    story.leaders[at(0)] = HERE
    story.run(RETRY_SECONDS)
    assert story.completed == {"a": 1}


def test_a_broker_that_does_not_know_a_partition_yet_is_asked_again(story: Story) -> None:
    story.leaders[at(0)] = 2
    story.end("a", 0)
    story.sent.pop()[2]({at(0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    story.run(RETRY_SECONDS)
    assert story.completed == {}
    story.sent.pop()[2]({})
    assert story.completed == {"a": 1}


def test_a_partition_that_cannot_be_written_is_told_later_and_the_others_not_again(story: Story) -> None:
    story.answers[at(1)] = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    story.end("a", 0, 1)
    assert story.completed == {}
    story.end("b", 0)
    assert story.completed == {"b": 1}
    story.run(RETRY_SECONDS)
    assert story.completed == {"b": 1}
    story.run(RETRY_SECONDS)
    assert story.completed == {"a": 1, "b": 1}
    assert Counter(story.told) == {at(0): 2, at(1): 3}


def test_what_cannot_be_stored_as_complete_is_tried_again(story: Story) -> None:
    story.stored = False
    story.end("a", 0)
    story.run(RETRY_SECONDS)
    story.stored = True
    story.run(RETRY_SECONDS)
    assert story.completed == {"a": 1}
    assert story.told == [at(0)]


def test_completion_waits_until_the_markers_are_safe(story: Story) -> None:
    story.unsafe = True
    story.end("a", 0, 1)
    assert story.completed == {}
    ((places, done),) = story.waiting
    assert len(places) == 2
    done(ErrorCode.NONE)
    assert story.completed == {"a": 1}


def test_markers_that_do_not_become_safe_are_written_again(story: Story) -> None:
    story.unsafe = True
    story.end("a", 0)
    story.waiting[0][1](ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert story.completed == {}
    story.run(RETRY_SECONDS)
    assert story.told == [at(0), at(0)]
    story.waiting[1][1](ErrorCode.NONE)
    assert story.completed == {"a": 1}


def test_after_the_stop_nothing_happens(story: Story) -> None:
    story.answers[at(0)] = [ErrorCode.KAFKA_STORAGE_ERROR]
    story.end("a", 0)
    story.cost = SLICE_SECONDS
    story.end("b", 1, 2)
    story.endings.stop()
    told = len(story.told)
    story.run(10 * RETRY_SECONDS)
    story.end("c", 3)
    assert len(story.told) == told
    assert story.sent == []
    assert story.completed == {}


def test_a_disk_that_fails_under_the_marker_and_the_coordinator_ends_the_work(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.breaks = True
    story.end("t", 0, 1)
    assert story.told == [at(1)], "who coordinates next begins again"
    assert story.completed == {}
