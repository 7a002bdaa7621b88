"""`ottla demo` from its beginning to its end.

Owns: the directory and everything that runs in it, what comes before and after the acts, and the exit code. Never
knows: what the acts show. Invariant: however it ends, no process and no file of it stays behind.
"""

import asyncio
import contextlib
import logging
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import ottla
from ottla.demo.acts import Play, Stalled
from ottla.demo.nodes import NodeFailure, Nodes
from ottla.demo.screen import JsonScreen, Screen
from ottla.demo.shop import shop
from ottla.demo.till import Till
from ottla.errors import ClientError
from ottla.runtime.world import RealClock

INTERRUPTED = 130
MOST_SECONDS = 105.0
"""When Spark must be done where nobody watches: the whole ends within two minutes, and the count comes after it."""
LEAST_SPARK_SECONDS = 30.0
WATCHED_SPARK_SECONDS = 600.0
_BEFORE_NOW_MS = 24 * 60 * 60 * 1000
"""The shop tells of the last day; when it has caught up with the clock it goes on in real time."""
_LIVELY_SECONDS = 0.25
_PLAIN_SECONDS = 5.0


class Programme(NamedTuple):
    """What `ottla demo` was given."""

    once: bool
    lively: bool
    rate: float = 200.0
    scene_seconds: float = 4.0
    port: int | None = None
    seed: int = 1
    spark: bool = True
    as_json: bool = False


class _Heard(logging.Handler):
    """What the clients of the demo warn of belongs to the story, and must not run across the screen."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.quote(f"the client: {record.getMessage()}")


def run(programme: Programme) -> int:
    """The whole demo; answers the exit code of the process."""
    try:
        return asyncio.run(_perform(programme))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:  # told to end by another signal
        return INTERRUPTED


async def _perform(programme: Programme) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    face = JsonScreen() if programme.as_json else Screen(lively=programme.lively)
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as directory, face as screen:
        nodes = Nodes(Path(directory), programme.port)
        heard = _Heard(screen)
        logging.getLogger("ottla").addHandler(heard)
        try:
            whole = await _on_stage(programme, nodes, screen, Path(directory))
        except (Stalled, NodeFailure, ClientError) as problem:
            screen.bad(f"the demo cannot go on: {problem}")
            return 1
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it behind
            logging.getLogger("ottla").removeHandler(heard)
            screen.hide_figures()
            await asyncio.shield(nodes.close())
    return 0 if whole else 1


async def _on_stage(programme: Programme, nodes: Nodes, screen: Screen, directory: Path) -> bool:
    begun = asyncio.get_running_loop().time()
    screen.act("Three nodes on this machine, in a directory that will be gone afterwards")
    screen.command(f"ottla cluster start --brokers 3 --port {nodes.first_port}")
    await nodes.start()
    screen.say(nodes.announcement)
    clock = RealClock()
    till = Till(shop(programme.seed, clock.now_ms() - _BEFORE_NOW_MS), nodes.bootstrap, programme.rate, clock)
    async with ottla.Admin(bootstrap_servers=nodes.bootstrap, client_id="demo") as admin:
        play = Play(nodes, till, admin, screen, programme.scene_seconds)
        async with _in_the_background(play, till, screen, programme):
            await play.introduce()
            await play.open_shop()
            await play.staff_the_desk()
            victim = await play.kill_a_leader()
            await play.heal(victim)
            well = True
            if programme.spark:
                left = MOST_SECONDS - (asyncio.get_running_loop().time() - begun)
                seconds = max(left, LEAST_SPARK_SECONDS) if programme.once else WATCHED_SPARK_SECONDS
                well = await play.keep_the_books(directory, seconds)
            verdict = await play.count()
            took = asyncio.get_running_loop().time() - begun
            screen.say(f"That was a cluster, a group, a crash and a recovery in {took:.0f} seconds.")
            if not programme.once:
                await _stay_open(nodes, till, screen)
    return verdict.whole and well and not till.failures


@contextlib.asynccontextmanager
async def _in_the_background(play: Play, till: Till, screen: Screen, programme: Programme) -> AsyncIterator[None]:
    """The till, the looking around and the live figures, while the acts go on; one that fails ends the demo."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(till.run()),
                group.create_task(play.look()),
                group.create_task(_show_figures(play, till, screen, programme)),
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await play.desk.close()
    except* (Stalled, NodeFailure, ClientError) as problems:
        raise problems.exceptions[0] from None


async def _show_figures(play: Play, till: Till, screen: Screen, programme: Programme) -> None:
    every = _LIVELY_SECONDS if programme.lively else _PLAIN_SECONDS
    before = 0
    while True:
        await asyncio.sleep(every)
        now = till.acknowledged.total()
        screen.figures(play.figures((now - before) / every))
        before = now


async def _stay_open(nodes: Nodes, till: Till, screen: Screen) -> None:
    screen.act("The shop stays open until you press Ctrl-C; look around from another terminal")
    first = nodes.bootstrap.split(",")[0]
    for command in ("topic list", "cluster status", "group list", "consume orders --from beginning", "top"):
        screen.command(f"ottla {command} --bootstrap {first}")
    till.open()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:  # Ctrl-C is how this is meant to end
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
    screen.hide_figures()
    screen.say("Closing: the nodes are stopped and their directory is removed.")
