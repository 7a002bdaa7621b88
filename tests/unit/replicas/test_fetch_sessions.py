"""Fetch sessions: epochs, what is news, and who gets a slot."""

from collections.abc import Generator, Iterator
from itertools import count

import pytest

from ottla.base.errors import ErrorCode
from ottla.replicas import fetch_sessions
from ottla.replicas.fetch_sessions import EVICTION_SECONDS, FetchPlan, FetchSession, FetchSessions
from ottla.wire.fetch import FetchRequest, FetchResult, WantedPartition


def in_the_end(steps: Generator[None, None, FetchPlan]) -> FetchPlan:
    """The value of what is done in steps."""
    found: list[FetchPlan] = []

    def whole() -> Iterator[None]:
        found.append((yield from steps))

    for _ in whole():
        pass
    return found[0]


class Story:
    """Sessions on a clock of their own."""

    def __init__(self, slots: int = 10, in_steps: bool = False) -> None:
        self.now = 0.0
        self.in_steps = in_steps
        numbers = count(1)
        self.sessions = FetchSessions(slots, lambda: next(numbers), lambda: self.now)

    def ask(
        self,
        session_id: int,
        epoch: int,
        *partitions: int,
        forget: tuple[int, ...] = (),
        replica: int = -1,
        by_id: bool = False,
    ) -> tuple[ErrorCode, list[int], FetchSession | None]:
        request = FetchRequest(
            replica,
            -1,
            500,
            1,
            1000,
            False,
            session_id,
            epoch,
            [("topic", [WantedPartition(number, -1, 0, -1, -1, 1000) for number in partitions])] if partitions else [],
            [("topic", list(forget))] if forget else [],
            "",
        )
        if self.in_steps:
            plan = in_the_end(self.sessions.plan_in_steps(request, by_id))
        else:
            plan = self.sessions.plan(request, by_id)
        return plan.error, [wanted.partition for _, wanted, _ in plan.wanted], plan.session


def result(partition: int, watermark: int, length: int = 0, error: int = 0) -> FetchResult:
    return FetchResult(partition, error, watermark, watermark, 0, b"x" * length, length)


@pytest.mark.parametrize("in_steps", [False, True], ids=["at once", "in steps"])
def test_a_full_fetch_opens_a_session_that_later_fetches_only_change(in_steps: bool) -> None:
    story = Story(in_steps=in_steps)
    error, wanted, session = story.ask(0, 0, 0, 1, 2)
    assert (error, wanted) == (ErrorCode.NONE, [0, 1, 2])
    assert session is not None
    assert session.epoch == 1
    assert story.ask(session.id, 1)[1] == [0, 1, 2]
    assert story.ask(session.id, 2, 3, forget=(0, 1))[1] == [2, 3]


@pytest.mark.parametrize("in_steps", [False, True], ids=["at once", "in steps"])
def test_an_unknown_session_or_a_wrong_epoch_is_refused(in_steps: bool) -> None:
    story = Story(in_steps=in_steps)
    _, _, session = story.ask(0, 0, 0)
    assert session is not None
    assert story.ask(99, 1)[0] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert story.ask(session.id, 5)[0] == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert story.ask(session.id, 1, by_id=True)[0] == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_ends_a_session() -> None:
    story = Story()
    _, _, session = story.ask(0, 0, 0)
    assert session is not None
    assert story.ask(session.id, -1, 7)[1:] == ([7], None)
    assert story.ask(session.id, 1)[0] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_shrinks_and_ends_when_everything_is_forgotten() -> None:
    story = Story()
    _, _, session = story.ask(0, 0, 0, 1)
    assert session is not None
    assert story.ask(session.id, 1, forget=(0,))[1] == [1]
    assert story.ask(session.id, 2, forget=(1,))[1] == []
    assert len(story.sessions) == 0


def test_only_news_is_told() -> None:
    story = Story()
    _, _, session = story.ask(0, 0, 0)
    assert session is not None
    tracked = session.partitions["topic", 0]
    assert tracked.must_tell(result(0, 10))
    assert not tracked.must_tell(result(0, 10))
    assert tracked.must_tell(result(0, 11))
    assert tracked.must_tell(result(0, 11, length=5))
    assert tracked.must_tell(result(0, -1, error=1))
    assert tracked.must_tell(result(0, 11))


def test_a_busy_partition_goes_to_the_end_of_the_line() -> None:
    story = Story()
    _, _, session = story.ask(0, 0, 0, 1, 2)
    assert session is not None
    session.to_the_end([("topic", 0)])
    assert story.ask(session.id, 1)[1] == [1, 2, 0]


def test_without_a_slot_a_fetch_is_answered_without_a_session() -> None:
    story = Story(slots=1)
    assert story.ask(0, 0, 0)[2] is not None
    assert story.ask(0, 0, 1)[2] is None


def test_an_idle_session_gives_its_slot_away() -> None:
    story = Story(slots=1)
    story.ask(0, 0, 0)
    story.now = EVICTION_SECONDS + 1
    assert story.ask(0, 0, 1)[2] is not None
    assert len(story.sessions) == 1


def test_a_larger_session_takes_the_slot_of_a_smaller_old_one() -> None:
    story = Story(slots=1)
    _, _, small = story.ask(0, 0, 0)
    assert small is not None
    for epoch in range(1, 30):
        story.now += 10
        assert story.ask(small.id, epoch)[0] == ErrorCode.NONE
    assert story.ask(0, 0, 1)[2] is None
    assert story.ask(0, 0, 1, 2, 3)[2] is not None


def test_the_epoch_wraps_past_the_largest_number() -> None:
    story = Story()
    _, _, session = story.ask(0, 0, 0)
    assert session is not None
    session.epoch = 2**31 - 1
    assert story.ask(session.id, 2**31 - 1)[0] == ErrorCode.NONE
    assert session.epoch == 1


@pytest.mark.parametrize("in_steps", [False, True], ids=["at once", "in steps"])
def test_who_reads_too_many_partitions_gets_its_answer_without_a_session(
    monkeypatch: pytest.MonkeyPatch, in_steps: bool
) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 3)
    story = Story(in_steps=in_steps)
    error, wanted, session = story.ask(0, 0, 0, 1, 2, 3)
    assert (error, wanted, session) == (ErrorCode.NONE, [0, 1, 2, 3], None)
    _, _, session = story.ask(0, 0, 0, 1, 2)
    assert session is not None
    assert story.ask(session.id, 1, 3)[0] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "it begins anew"
    assert len(story.sessions) == 0


def test_all_sessions_together_keep_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_TRACKED", 4)
    story = Story()
    assert story.ask(0, 0, 0, 1, 2)[2] is not None
    error, wanted, session = story.ask(0, 0, 0, 1)
    assert (error, wanted, session) == (ErrorCode.NONE, [0, 1], None)
