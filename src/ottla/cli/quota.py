"""`ottla quota …`: how much clients may send, read and ask for, on clusters that have quotas.

Owns: the commands, their options and tables. Never knows: requests (`client.admin.quotas`).
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.output import Column, Table, say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ottla.client.admin.part import Outcome
    from ottla.client.admin.quotas import ClientQuota
    from ottla.client.cluster import Cluster

app = typer.Typer(help="See and change the quotas of users, clients and addresses.", no_args_is_help=True)

DEFAULT = "default"
"""The name of whoever has no quota of their own."""

User = Annotated[
    str | None, typer.Option("--user", "-u", metavar="NAME", help="A user, or 'default' for those without their own.")
]
Client = Annotated[
    str | None, typer.Option("--client", "-c", metavar="ID", help="A client id, or 'default'; also with --user.")
]
Address = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address, or 'default'.")]


@app.command("list")
def list_quotas(
    user: User = None,
    client: Client = None,
    ip: Address = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """List quotas, all or those of a user, client or address.

    \b
    ottla quota list
    ottla quota list --user ann --json
    """
    from ottla.client.admin.quotas import QuotaAdmin

    asked = entity_of(user, client, ip)

    async def work(cluster: "Cluster") -> "list[ClientQuota]":
        return await QuotaAdmin(cluster).client_quotas(asked, seconds)

    found = _with_quotas(bootstrap, seconds, work)
    if as_json:
        show_json([{"entity": _named(quota.entity), "quotas": quota.values} for quota in found])
    elif found:
        show(quotas_table(found))
    else:
        say("nobody has a quota\n")


@app.command("set")
def set_quotas(
    quotas: Annotated[
        list[str],
        typer.Argument(metavar="QUOTA=NUMBER…", help="As producer_byte_rate=1048576 or request_percentage=50."),
    ],
    user: User = None,
    client: Client = None,
    ip: Address = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Set quotas: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; of addresses
    connection_creation_rate.

    \b
    ottla quota set producer_byte_rate=1048576 consumer_byte_rate=2097152 --user ann
    ottla quota set request_percentage=50 --user ann --client default
    ottla quota set connection_creation_rate=10 --ip 10.0.0.1
    """
    values = parse_quotas(quotas)
    _change(entity_of(user, client, ip), values, (), bootstrap, seconds)
    done = ", ".join(f"{name}={value:.15g}" for name, value in values.items())
    _tell(entity_of(user, client, ip), {"set": values}, f"set {done}", as_json)


@app.command()
def delete(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA…", help="The names of quotas.")],
    user: User = None,
    client: Client = None,
    ip: Address = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Take quotas away.

    \b
    ottla quota delete producer_byte_rate --user ann
    """
    _change(entity_of(user, client, ip), {}, quotas, bootstrap, seconds)
    _tell(entity_of(user, client, ip), {"deleted": quotas}, f"deleted {', '.join(quotas)}", as_json)


def entity_of(user: str | None, client: str | None, ip: str | None) -> dict[str, str | None]:
    """Whom the options mean, as the protocol names it: the default has no name."""
    from ottla.client.admin.quotas import CLIENT_ID, IP, USER

    given = {USER: user, CLIENT_ID: client, IP: ip}
    return {kind: None if name == DEFAULT else name for kind, name in given.items() if name is not None}


def parse_quotas(texts: "Sequence[str]") -> dict[str, float]:
    values = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            values[name.strip()] = float(number)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not QUOTA=NUMBER") from None
    return values


def quotas_table(found: "Sequence[ClientQuota]") -> Table:
    rows = [
        [" ".join(f"{kind}={name}" for kind, name in _named(quota.entity).items()), name, f"{value:.15g}"]
        for quota in found
        for name, value in sorted(quota.values.items())
    ]
    return Table([Column("WHO"), Column("QUOTA"), Column("VALUE", True)], sorted(rows))


def _named(entity: "Mapping[str, str | None]") -> dict[str, str]:
    return {kind: DEFAULT if name is None else name for kind, name in entity.items()}


def _change(
    entity: "Mapping[str, str | None]",
    values: "Mapping[str, float]",
    removed: "Sequence[str]",
    bootstrap: str,
    seconds: float,
) -> None:
    from ottla.client.admin.quotas import QuotaAdmin
    from ottla.client.errors import BrokerError

    if not entity:
        raise typer.BadParameter("say whose quotas: --user, --client or --ip")

    async def work(cluster: "Cluster") -> "Outcome":
        outcome = await QuotaAdmin(cluster).alter_client_quotas(entity, values, removed, seconds)
        if outcome.error:
            raise BrokerError(outcome.error, "the quota", outcome.message)
        return outcome

    _with_quotas(bootstrap, seconds, work)


def _with_quotas(bootstrap: str, seconds: float, work: "Callable[[Cluster], Awaitable[Any]]") -> Any:
    """Say it plainly where a cluster has no quotas."""
    from ottla.cli.failures import Failure
    from ottla.client.errors import UnsupportedRequest

    async def told(cluster: "Cluster") -> Any:
        try:
            return await work(cluster)
        except UnsupportedRequest as problem:
            raise Failure(
                f"this cluster has no quotas for clients ({problem.address} does not know {problem.request}); "
                "Kafka's brokers have them, ottla's do not"
            ) from problem

    return with_cluster(bootstrap, seconds, told)


def _tell(entity: "Mapping[str, str | None]", done: "dict[str, Any]", sentence: str, as_json: bool) -> None:
    named = _named(entity)
    if as_json:
        show_json({"entity": named, **done})
    else:
        say(f"{sentence} for {' '.join(f'{kind} {name!r}' for kind, name in named.items())}\n")
