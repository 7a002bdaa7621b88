"""Running one command against a cluster.

Owns: which cluster is meant, the event loop of a command, its connection, and turning what goes wrong into `Failure`.
Never knows: what the command does. Everything heavy is imported when a command runs, not when the program starts.

The brokers to ask are, the first that says so: --bootstrap, the profile named with --profile, OTTLA_BOOTSTRAP, the
profile named with OTTLA_PROFILE, the config file's default profile, localhost:9092.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.settings import ClientKind

T = TypeVar("T")

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_SECONDS = 15.0
CLIENT_ID = "ottla-cli"
TERMINATED = 143
"""The exit code of a program that SIGTERM ended."""
CLUSTER = "Which cluster"
"""The part of a command's help about this."""


def _is_default(context: typer.Context, parameter: typer.CallbackParam) -> bool:
    source = context.get_parameter_source(parameter.name or "")
    return source is not None and source.name == "DEFAULT"


def _brokers(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Where nobody named brokers, a profile may."""
    if not _is_default(context, parameter):
        return value
    from ottla.cli.profiles import SERVERS, fall_back_on_default, text_of

    return text_of(fall_back_on_default().get(SERVERS, value))


def _patience(context: typer.Context, parameter: typer.CallbackParam, value: float) -> float:
    """Where nobody said how long to wait, a profile may."""
    if not _is_default(context, parameter):
        return value
    from ottla.cli.profiles import chosen_settings

    milliseconds = chosen_settings().get("default.api.timeout.ms")
    return value if milliseconds is None else float(str(milliseconds)) / 1000


Bootstrap: TypeAlias = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="OTTLA_BOOTSTRAP",
        metavar="HOST:PORT,…",
        help="Brokers to ask first; any will do.",
        rich_help_panel=CLUSTER,
        callback=_brokers,
    ),
]
Seconds: TypeAlias = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="How long the cluster may take to answer.",
        rich_help_panel=CLUSTER,
        callback=_patience,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
AsJsonLines: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def client_settings(
    kind: "ClientKind", bootstrap: str, given: Mapping[str, object], usual: Mapping[str, object] | None = None
) -> dict[str, object]:
    """The settings of a command's producer, consumer or admin: what the command line says wins over the chosen profile,
    and this over what the command usually does. Of a profile each kind of client takes what it has settings for."""
    from ottla.cli.profiles import chosen_settings

    known = kind.settings
    profile = {name: value for name, value in chosen_settings().items() if name in known}
    return {"client.id": CLIENT_ID, **(usual or {}), **profile, **given, "bootstrap.servers": bootstrap}


def with_cluster(bootstrap: str, seconds: float, work: "Callable[[Cluster], Awaitable[T]]") -> T:
    """What `work` returns, given a connected cluster; a reader of our output that left ends the command quietly."""
    from ottla.client.address import parse_addresses
    from ottla.client.cluster import Cluster

    try:
        addresses = parse_addresses(bootstrap)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--bootstrap") from None

    async def session() -> T:
        async with Cluster(addresses, _cluster_settings(bootstrap)) as cluster:
            await cluster.connect(cluster.deadline(seconds))
            return await work(cluster)

    return run_client(bootstrap, session())


def run_client(bootstrap: str, session: "Awaitable[T]") -> T:
    """What a conversation with the cluster at `bootstrap` returns; what goes wrong in it is a `Failure`.

    SIGTERM ends it as Ctrl-C does: what was sent is delivered, what was shown is committed.
    """
    import asyncio
    import signal
    from contextlib import suppress

    from ottla.cli.failures import Failure, explain
    from ottla.cli.output import nobody_reads
    from ottla.client.errors import ClientError

    terminated = False

    async def whole() -> T:
        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        task = asyncio.ensure_future(session)
        with suppress(ValueError, RuntimeError, NotImplementedError):  # not every thread and system can listen
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await task

    try:
        return asyncio.run(whole())
    except asyncio.CancelledError:
        if terminated:
            raise typer.Exit(TERMINATED) from None
        raise
    except ClientError as problem:
        raise Failure(explain(problem, bootstrap)) from problem
    except BrokenPipeError:
        raise nobody_reads() from None


def _cluster_settings(bootstrap: str) -> Any:
    """How the connection behaves; the tables of settings are read only for those who have a profile."""
    from ottla.cli.profiles import chosen_settings
    from ottla.client.cluster import ClusterSettings

    if not chosen_settings():
        return ClusterSettings(client_id=CLIENT_ID)
    from ottla.client.settings import ADMIN, load

    return ClusterSettings.of(load(ADMIN, client_settings(ADMIN, bootstrap, {}), {}))
