"""Virtual time: loops that jump to the next timer, die, pause, and repeat themselves by their seed."""

import asyncio
from random import Random

import pytest

from ottla.sim.loop import Deadlock, Scheduler, SimLoop, SimThreads


def scheduler(seed: int = 1) -> Scheduler:
    return Scheduler(Random(seed))


def test_an_hour_of_sleep_takes_no_time() -> None:
    world = scheduler()
    loop = SimLoop(world, "a")
    world.complete(loop, asyncio.sleep(3600), 4000)
    assert 3600 <= world.now < 3601


def test_callbacks_of_one_loop_run_first_in_first_out() -> None:
    world = scheduler()
    loop = SimLoop(world, "a")
    seen: list[int] = []
    for number in range(100):
        loop.call_soon(seen.append, number)
    world.run_for(1)
    assert seen == list(range(100))


def test_timers_of_one_instant_come_in_an_order_the_seed_decides() -> None:
    def order(seed: int) -> list[int]:
        world = scheduler(seed)
        loop = SimLoop(world, "a")
        seen: list[int] = []
        for number in range(10):
            loop.call_at(1.0, seen.append, number)
        world.run_for(2)
        return seen

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_killed_loop_runs_nothing_more_and_complains_of_nothing() -> None:
    world = scheduler()
    loop = SimLoop(world, "a")
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("finished")
        finally:
            seen.append("cleaned up")

    loop.create_task(work())
    world.run_for(0.5)
    loop.kill()
    world.run_for(10)
    assert seen == []
    world.close()
    assert seen == ["cleaned up"]
    assert loop.failures == []


def test_a_paused_loop_catches_up_when_it_resumes() -> None:
    world = scheduler()
    loop = SimLoop(world, "a")
    seen: list[float] = []
    loop.call_later(1, lambda: seen.append(world.now))
    loop.pause()
    world.run_for(5)
    assert seen == []
    loop.resume()
    world.run_for(1)
    assert len(seen) == 1
    assert 5 <= seen[0] < 5.1


def test_a_fast_clock_fires_early() -> None:
    world = scheduler()
    loop = SimLoop(world, "a", rate=2.0)
    seen: list[float] = []
    loop.call_later(10, lambda: seen.append(world.now))
    world.run_for(20)
    assert 5 <= seen[0] < 5.1


def test_work_in_threads_ends_after_its_latency() -> None:
    world = scheduler()
    loop = SimLoop(world, "a")
    threads = SimThreads(loop, lambda: 0.25)

    async def work() -> str:
        return await loop.run_in_executor(threads, lambda: "done")

    assert world.complete(loop, work(), 1) == "done"
    assert 0.25 <= world.now < 0.26


def test_waiting_for_nothing_is_a_deadlock() -> None:
    world = scheduler()
    loop = SimLoop(world, "a")

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        world.complete(loop, wait(), 1)
    world.close()


def test_a_failing_callback_is_kept_for_the_checkers() -> None:
    world = scheduler()
    loop = SimLoop(world, "a")
    loop.call_soon(lambda: 1 // 0)
    world.run_for(1)
    assert "ZeroDivisionError" in loop.failures[0]
