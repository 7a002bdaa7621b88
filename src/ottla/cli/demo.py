"""`ottla demo`: a cluster of three nodes at work, explained while it happens."""

import sys
from typing import Annotated

import typer

from ottla.cli.session import AsJsonLines


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the last act instead of staying open until Ctrl-C.")
    ] = False,
    rate: Annotated[float, typer.Option(min=1, max=5000, help="Events the shop sends in a second.")] = 200.0,
    pace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long a scene is left to be watched.")
    ] = 4.0,
    port: Annotated[
        int | None, typer.Option(min=1, max=65533, help="Port of the first node (default: three that are free).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another number gives another day in the shop.")] = 1,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Run the Spark pipeline where Spark is there.")
    ] = True,
    as_json: AsJsonLines = False,
) -> None:
    """Show a cluster at work: a shop's events, a group that shares them, a node that is killed and comes back.

    Everything runs on this machine, in a directory that is removed at the end. At the end every acknowledged event is
    counted. It stays open for you to look around until Ctrl-C; where the output is not a terminal it ends by itself.

    \b
    ottla demo
    ottla demo --once --pace 1
    ottla demo --once --json | jq -c 'select(.event == "failure")'
    """
    from ottla.demo.performance import Programme, run

    watched = sys.stdout.isatty()
    lively = watched and not as_json
    raise typer.Exit(run(Programme(once or not watched, lively, rate, pace, port, seed, spark, as_json)))
