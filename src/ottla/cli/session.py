"""Running one command against a cluster.

Owns: the event loop of a command, its connection, and turning what goes wrong into `Failure`. Never knows: what the
command does. Everything heavy is imported when a command runs, not when the program starts.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

T = TypeVar("T")

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_SECONDS = 15.0

Bootstrap: TypeAlias = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", envvar="OTTLA_BOOTSTRAP", metavar="HOST:PORT,…", help="Brokers to ask first; any will do."
    ),
]
Seconds: TypeAlias = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long the cluster may take to answer.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def with_cluster(bootstrap: str, seconds: float, work: "Callable[[Cluster], Awaitable[T]]") -> T:
    """What `work` returns, given a connected cluster; a reader of our output that left ends the command quietly."""
    import asyncio

    from ottla.cli.failures import Failure, explain
    from ottla.cli.output import nobody_reads
    from ottla.client.address import parse_addresses
    from ottla.client.cluster import Cluster, ClusterSettings
    from ottla.client.errors import ClientError

    try:
        addresses = parse_addresses(bootstrap)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--bootstrap") from None

    async def session() -> T:
        async with Cluster(addresses, ClusterSettings(client_id="ottla-cli")) as cluster:
            await cluster.connect(cluster.deadline(seconds))
            return await work(cluster)

    try:
        return asyncio.run(session())
    except ClientError as problem:
        raise Failure(explain(problem, bootstrap)) from problem
    except BrokenPipeError:
        raise nobody_reads() from None
