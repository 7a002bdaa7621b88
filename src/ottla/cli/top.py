"""`ottla top`: a cluster as it lives: rates, lag, partitions in trouble, anew every few seconds.

Owns: the options, the screen and its end (q or Ctrl-C). Never knows: how a look is taken (`top_looks`) and what two of
them say (`top_views`). Invariant: while it is live a cluster that does not answer is told and asked again; only
`--once` fails with it.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ottla.cli.output import say, show, show_json, show_json_line
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    import asyncio

    from ottla.cli.top_views import Frame
    from ottla.client.cluster import Cluster


class View(NamedTuple):
    """What is wanted: seconds between looks, rows of a table, the cluster's own topics too, JSON."""

    interval: float
    most: int
    internal: bool
    as_json: bool


QUIT = b"qQ\x03"
PATIENCE_SECONDS = 5.0
"""How long a live view waits for an answer before it says that none comes."""


def top(
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, metavar="SECONDS", help="Between two looks at the cluster.")
    ] = 2.0,
    most: Annotated[int, typer.Option("--most", min=1, metavar="N", help="Topics and groups shown at most.")] = 15,
    internal: Annotated[bool, typer.Option("--internal", help="Also the cluster's own topics.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print what happened between, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: one document a look, or the only one with --once.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Watch a cluster: records and bytes a second by broker, topic and group, lag, partitions in trouble.

    IN/S is what was written, OUT/S what groups have committed. q or Ctrl-C ends it.

    \b
    ottla top
    ottla top --interval 5 --most 30 --internal
    ottla top --once
    ottla top --once --json | jq '.groups[] | {name, lag}'
    """

    view = View(interval, most, internal, as_json)

    async def work(cluster: "Cluster") -> None:
        if once:
            await _once(cluster, view, seconds)
        elif as_json or not sys.stdout.isatty():
            await _stream(cluster, view, min(seconds, PATIENCE_SECONDS))
        else:
            await _live(cluster, view, min(seconds, PATIENCE_SECONDS))

    try:
        with_cluster(bootstrap, seconds, work)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None  # the way to end it


async def _once(cluster: "Cluster", view: View, seconds: float) -> None:
    import asyncio

    from ottla.cli.top_looks import look
    from ottla.cli.top_views import frame

    before = await look(cluster, seconds)
    await asyncio.sleep(view.interval)
    _print(frame(before, await look(cluster, seconds), internal=view.internal), view, indent=True)


async def _stream(cluster: "Cluster", view: View, seconds: float) -> None:
    async for shown in _frames(cluster, view, seconds):
        if isinstance(shown, str):
            print(f"ottla: {shown}", file=sys.stderr)
        else:
            _print(shown, view, indent=False)
            if not view.as_json:
                say("\n")


async def _live(cluster: "Cluster", view: View, seconds: float) -> None:
    """The whole screen, until a key ends it."""
    import asyncio

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    ended = asyncio.Event()
    last: Any = Text("looking…")
    with _keys(asyncio.get_running_loop(), ended), Live(last, console=console, screen=True, auto_refresh=False) as live:

        async def draw() -> None:
            nonlocal last
            async for shown in _frames(cluster, view, seconds):
                if isinstance(shown, str):
                    live.update(_with_trouble(last, shown), refresh=True)
                else:
                    last = _screen(shown, view.most, console.height)
                    live.update(last, refresh=True)

        drawing = asyncio.create_task(draw())
        waiting = asyncio.create_task(ended.wait())
        try:
            await asyncio.wait((drawing, waiting), return_when=asyncio.FIRST_COMPLETED)
            if drawing.done():
                drawing.result()
        finally:
            for task in (drawing, waiting):
                task.cancel()


async def _frames(cluster: "Cluster", view: View, seconds: float) -> "AsyncIterator[Frame | str]":
    """A frame after each look but the first; the sentence of what went wrong instead, where something did."""
    import asyncio

    from ottla.cli.failures import explain
    from ottla.cli.top_looks import look
    from ottla.cli.top_views import frame
    from ottla.client.errors import ClientError

    before = None
    while True:
        try:
            after = await look(cluster, seconds)
        except ClientError as problem:
            yield explain(problem, "this address")
        else:
            if before is not None:
                yield frame(before, after, internal=view.internal)
            before = after
        await asyncio.sleep(view.interval)


def _print(shown: "Frame", view: View, *, indent: bool) -> None:
    from ottla.cli import top_views

    if view.as_json and indent:
        show_json(top_views.frame_json(shown))
    elif view.as_json:
        show_json_line(top_views.frame_json(shown))
    else:
        say(top_views.heading(shown) + "\n")
        for table in top_views.tables(shown, view.most):
            say("\n")
            show(table)


def _screen(shown: "Frame", most: int, height: int) -> Any:
    from rich.console import Group
    from rich.text import Text

    from ottla.cli import top_views
    from ottla.cli.output import ruled

    drawn = [ruled(table) for table in top_views.tables(shown, min(most, top_views.rows_that_fit(shown, height)))]
    return Group(Text(top_views.heading(shown), "bold"), Text("q ends", "dim"), *drawn)


def _with_trouble(last: Any, sentence: str) -> Any:
    from rich.console import Group
    from rich.text import Text

    return Group(Text(sentence, "bold red"), last)


@contextmanager
def _keys(loop: "asyncio.AbstractEventLoop", ended: "asyncio.Event") -> Iterator[None]:
    """Single keys instead of lines while the view is up; the terminal is left as it was."""
    if not sys.stdin.isatty():
        yield
        return
    import os

    try:
        import termios
        import tty
    except ImportError:  # a platform without them ends with Ctrl-C
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed() -> None:
        if any(key in QUIT for key in os.read(descriptor, 64)):
            ended.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, pressed)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
