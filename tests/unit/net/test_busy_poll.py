"""When the loop stays awake for the next request, and when it sleeps."""

import asyncio

import pytest

from ottla.net import busy_poll as busy_poll_module
from ottla.net.busy_poll import CLOSE, SPAN, BusyPoll


class Watch:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch()
    monkeypatch.setattr(busy_poll_module, "perf_counter", made)
    monkeypatch.setattr(busy_poll_module, "_processors", lambda: 2)
    return made


async def test_requests_far_apart_let_the_loop_sleep(watch: Watch) -> None:
    busy_poll = BusyPoll(asyncio.get_running_loop())
    busy_poll.arrived()
    watch.now += CLOSE * 2
    busy_poll.arrived()
    assert not busy_poll.awake


async def test_a_conversation_keeps_it_awake_until_the_next_question_is_overdue(watch: Watch) -> None:
    busy_poll = BusyPoll(asyncio.get_running_loop())
    busy_poll.arrived()
    watch.now += CLOSE / 2
    busy_poll.arrived()
    for _ in range(5):
        await asyncio.sleep(0)
        assert busy_poll.awake
    watch.now += SPAN
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not busy_poll.awake


async def test_the_only_processor_is_left_to_the_client(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_poll_module, "_processors", lambda: 1)
    busy_poll = BusyPoll(asyncio.get_running_loop())
    busy_poll.arrived()
    busy_poll.arrived()
    assert not busy_poll.awake
