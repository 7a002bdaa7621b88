"""`ottla config …`: the settings of topics, brokers and groups while the cluster runs.

Owns: the commands and their options. Never knows: requests (`client.admin`) and layout (`config_views`).
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.admin.part import Outcome
    from ottla.client.admin.topics import Config, Resource
    from ottla.client.cluster import Cluster

app = typer.Typer(help="See and change settings of topics, brokers and groups.", no_args_is_help=True)


class Kind(StrEnum):
    """What has settings."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"
    BROKER_LOGGER = "broker-logger"


OfKind = Annotated[Kind, typer.Argument(metavar="KIND", help="topic, broker, group, client-metrics or broker-logger.")]
Named = Annotated[
    str, typer.Argument(metavar="NAME", help="A name; of a broker its number, or 'default' for what holds for all.")
]


@app.command()
def describe(
    kind: OfKind,
    name: Named,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="SETTING…", help="Only these; else those that somebody has set.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also those that have their default.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show settings: their value, where it comes from, whether it can change at run time, and what else would hold.

    \b
    ottla config describe topic orders
    ottla config describe topic orders retention.ms cleanup.policy
    ottla config describe broker 1 --all
    ottla config describe broker default
    """
    from ottla.cli.config_views import chosen, configs_json, configs_table
    from ottla.cli.failures import Failure
    from ottla.client.admin.topics import TopicAdmin

    resource = resource_of(kind, name)

    async def work(cluster: "Cluster") -> "list[Config]":
        _require_broker(cluster, resource)
        return await TopicAdmin(cluster).describe_configs(resource, seconds, synonyms=True)

    found = with_cluster(bootstrap, seconds, work)
    missing = sorted(set(settings or ()) - {config.name for config in found})
    if missing and resource.name:
        raise Failure(
            f"a {kind.value} has no setting {missing[0]!r}; 'ottla config describe {kind.value} {name} --all' shows all"
        )
    configs = chosen(resource, found, settings or (), every)
    if as_json:
        show_json(configs_json(resource, configs))
    elif configs:
        show(configs_table(configs))
    else:
        say(f"nobody has set anything for {kind.value} {name!r}; --all shows the defaults\n")


@app.command("list")
def list_resources(
    kinds: Annotated[
        list[Kind] | None, typer.Argument(metavar="KIND…", help="Only these kinds; none: all the cluster knows.")
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """List what has settings: every topic and broker, and the groups that have settings of their own.

    \b
    ottla config list
    ottla config list group client-metrics --json
    """
    from ottla.cli.config_views import resources_json, resources_table
    from ottla.client.admin.topics import ResourceKind, TopicAdmin

    wanted = [ResourceKind[kind.name] for kind in kinds or ()]

    async def work(cluster: "Cluster") -> "list[Resource]":
        return await TopicAdmin(cluster).config_resources(wanted, seconds)

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(resources_json(found))
    else:
        show(resources_table(found))


@app.command()
def alter(
    kind: OfKind,
    name: Named,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="SETTING=VALUE…", help="What to set, by Kafka's names.")
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", "-d", metavar="SETTING", help="Give a setting its default back; repeat for more."),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Change settings while the cluster runs: all of what is asked for, or nothing.

    \b
    ottla config alter topic orders retention.ms=86400000 --delete segment.bytes
    ottla config alter broker 1 log.cleaner.threads=2
    ottla config alter broker default log.retention.ms=604800000
    ottla config alter group billing consumer.session.timeout.ms=50000
    """
    from ottla.cli.topic import parse_settings

    changes, removed = parse_settings(settings, "SETTING=VALUE"), list(delete or ())
    if not changes and not removed:
        raise typer.BadParameter("say what to change: SETTING=VALUE or --delete SETTING")
    _change(kind, name, changes, removed, bootstrap, seconds)
    done = [f"{key}={value}" for key, value in changes.items()] + [f"{key} back to its default" for key in removed]
    _tell(kind, name, changes, removed, f"altered {kind.value} {name!r}: {', '.join(done)}", as_json=as_json)


@app.command()
def delete(
    kind: OfKind,
    name: Named,
    settings: Annotated[list[str], typer.Argument(metavar="SETTING…", help="What gets its default back.")],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Give settings their default back.

    \b
    ottla config delete topic orders retention.ms segment.bytes
    ottla config delete broker default log.retention.ms
    """
    removed = list(dict.fromkeys(settings))
    _change(kind, name, {}, removed, bootstrap, seconds)
    _tell(kind, name, {}, removed, f"{kind.value} {name!r}: {', '.join(removed)} back to default", as_json=as_json)


def resource_of(kind: Kind, name: str) -> "Resource":
    """What KIND and NAME mean."""
    from ottla.cli.config_views import DEFAULTS
    from ottla.client.admin.topics import Resource, ResourceKind

    if kind is Kind.BROKER and name == DEFAULTS:
        return Resource(ResourceKind.BROKER, "")
    if kind in (Kind.BROKER, Kind.BROKER_LOGGER) and not (name.isascii() and name.isdigit()):
        raise typer.BadParameter(f"{name!r} is neither a broker's number nor 'default'", param_hint="NAME")
    return Resource(ResourceKind[kind.name], name)


def _require_broker(cluster: "Cluster", resource: "Resource") -> None:
    """Only a broker itself knows its settings; better to hear of a missing one at once than to wait for it."""
    from ottla.cli.failures import Failure
    from ottla.client.admin.topics import ResourceKind

    asked = resource.kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER) and resource.name
    if asked and int(resource.name) not in cluster.brokers:
        raise Failure(f"there is no broker {resource.name}; 'ottla cluster status' shows who is there")


def _change(
    kind: Kind, name: str, changes: "Mapping[str, str]", removed: "Sequence[str]", bootstrap: str, seconds: float
) -> None:
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.errors import BrokerError

    resource = resource_of(kind, name)

    async def work(cluster: "Cluster") -> "Outcome":
        _require_broker(cluster, resource)
        outcome = await TopicAdmin(cluster).alter_configs(resource, changes, removed, seconds)
        if outcome.error:
            raise BrokerError(outcome.error, f"{kind.value} {name!r}", outcome.message)
        return outcome

    with_cluster(bootstrap, seconds, work)


def _tell(
    kind: Kind, name: str, changes: "Mapping[str, str]", removed: "Sequence[str]", sentence: str, *, as_json: bool
) -> None:
    if as_json:
        show_json({"kind": kind.value, "name": name, "set": dict(changes), "deleted": list(removed)})
    else:
        say(sentence + "\n")
