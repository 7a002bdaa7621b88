"""The `ottla` program: `ottla <noun> <verb>`, and a few verbs that need no noun.

Owns: the list of commands, loading only the one that was asked for, and the end of the program. Never knows: what the
commands do. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated.
"""

import os
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

DEBUG = "OTTLA_DEBUG"
COMPLETING = "_OTTLA_COMPLETE"
"""Set by the shell that wants to know what may follow."""


class _Place(NamedTuple):
    """Where a command is defined (a Typer app or a function) and the line the overview shows for it."""

    module: str
    name: str
    help: str


COMMANDS = {
    "serve": _Place("ottla.cli.serve", "serve", "Run one node in the foreground."),
    "format": _Place("ottla.cli.format", "format", "Prepare the data directories of a node of a cluster."),
    "cluster": _Place("ottla.cli.cluster", "app", "Run a cluster on this machine; see how a cluster is."),
    "quorum": _Place("ottla.cli.quorum", "app", "Move a cluster from ZooKeeper to the quorum."),
    "profile": _Place("ottla.cli.profile", "app", "Name clusters and their settings, to be chosen with --profile."),
    "demo": _Place("ottla.cli.demo", "demo", "Watch a cluster at work: a shop, a group, a crash and its healing."),
    "topic": _Place("ottla.cli.topic", "app", "Create, list, describe, alter, delete topics; their offsets."),
    "partition": _Place("ottla.cli.partition", "app", "Elect leaders, move replicas, balance brokers."),
    "produce": _Place("ottla.cli.produce", "produce", "Send lines, JSON objects, rows or files to a topic."),
    "consume": _Place("ottla.cli.consume", "consume", "Print the records of topics, all or chosen ones."),
    "group": _Place("ottla.cli.group", "app", "List, describe, reset and delete consumer groups."),
    "config": _Place("ottla.cli.config", "app", "See and change settings of topics, brokers and groups."),
    "quota": _Place("ottla.cli.quota", "app", "See and change the quotas of users, clients and addresses."),
    "transaction": _Place("ottla.cli.transaction", "app", "List, describe, abort transactions; find what hangs."),
    "pipeline": _Place("ottla.cli.pipeline", "app", "Run stream processing on Spark; see it, stop it."),
    "bench": _Place("ottla.cli.bench", "app", "Measure a cluster: producers, consumers, and the way through both."),
    "top": _Place("ottla.cli.top", "top", "Watch a cluster live: rates, lag, partitions in trouble."),
    "log": _Place("ottla.cli.log", "app", "Look into log files, without a running node."),
}


class LazyGroup(TyperGroup):
    """Shows every command, imports the chosen one: starting a node must not wait for the other commands' imports."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.params += [_profile_option(), _debug_option(hidden=False)]
        for name, place in COMMANDS.items():
            self.add_command(TyperCommand(name, help=place.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


def load(name: str) -> Any:
    """The command itself."""
    place = COMMANDS[name]
    defined = getattr(import_module(place.module), place.name)
    if isinstance(defined, typer.Typer):
        group = typer.main.get_group(defined)
        for verb in group.commands.values():
            _complete(verb)
        return group
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(defined)
    command = typer.main.get_command(alone)
    _complete(command)
    return command


def _complete(command: Any) -> None:
    """Give a command the options that all have: --profile beside --bootstrap, and --debug, also behind the verb."""
    names = [parameter.name for parameter in command.params]
    if "bootstrap" in names:
        from ottla.cli.session import CLUSTER

        command.params.insert(names.index("bootstrap") + 1, _profile_option(CLUSTER))
    if COMPLETING in os.environ:
        from ottla.cli.completion import offer_names

        offer_names(command)
    command.params.append(_debug_option(hidden=True))


def _profile_option(panel: str | None = None) -> TyperOption:
    return TyperOption(
        param_decls=["--profile"],
        metavar="PROFILE",
        is_eager=True,
        expose_value=False,
        callback=_take_profile,
        rich_help_panel=panel,
        help="The cluster and settings that the config file has under this name.",
    )


def _debug_option(hidden: bool) -> TyperOption:
    return TyperOption(
        param_decls=["--debug"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        hidden=hidden,
        callback=_show_tracebacks,
        help="Show where in the program a failure happened.",
    )


def _take_profile(_context: Any, _parameter: Any, name: str | None) -> None:
    if name:
        from ottla.cli.profiles import choose_profile

        choose_profile(name)


def _show_tracebacks(_context: Any, _parameter: Any, wanted: bool) -> None:
    if wanted:
        os.environ[DEBUG] = "1"


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from ottla import __version__

        print(f"ottla {__version__}")
        raise typer.Exit


@app.callback()
def ottla(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """A Kafka-compatible event streaming platform.

    The client commands work on any Kafka cluster: name it with --bootstrap, OTTLA_BOOTSTRAP or a --profile.

    \b
    ottla serve                                   start a node on port 9092
    ottla cluster start                           start three, from port 9092
    ottla topic create orders --partitions 3
    echo 'hello' | ottla produce orders
    ottla consume orders --until-end
    """


def run() -> None:
    """The console script."""
    try:
        app()
    except Exception as problem:
        if os.environ.get(DEBUG):
            raise
        from ottla.cli.failures import Failure

        if isinstance(problem, Failure):
            sentence = str(problem)
        elif isinstance(problem, OSError):
            sentence = f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
        else:
            sentence = (
                f"{type(problem).__name__}: {problem} (a fault of this program; run 'ottla --debug …' for details)"
            )
        print(f"ottla: {sentence}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    run()
