"""When the loop stays awake for the next request, and when it sleeps."""

import asyncio

import pytest

from ottla.net import vigil as vigil_module
from ottla.net.vigil import CLOSE, SPAN, Vigil


class Watch:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch()
    monkeypatch.setattr(vigil_module, "perf_counter", made)
    monkeypatch.setattr(vigil_module, "_processors", lambda: 2)
    return made


async def test_requests_far_apart_let_the_loop_sleep(watch: Watch) -> None:
    vigil = Vigil(asyncio.get_running_loop())
    vigil.heard()
    watch.now += CLOSE * 2
    vigil.heard()
    assert not vigil.awake


async def test_a_conversation_keeps_it_awake_until_the_next_question_is_overdue(watch: Watch) -> None:
    vigil = Vigil(asyncio.get_running_loop())
    vigil.heard()
    watch.now += CLOSE / 2
    vigil.heard()
    for _ in range(5):
        await asyncio.sleep(0)
        assert vigil.awake
    watch.now += SPAN
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not vigil.awake


async def test_the_only_processor_is_left_to_the_client(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil_module, "_processors", lambda: 1)
    vigil = Vigil(asyncio.get_running_loop())
    vigil.heard()
    vigil.heard()
    assert not vigil.awake
