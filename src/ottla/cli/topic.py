"""`ottla topic …`: the topics of a cluster.

Owns: the commands and their options. Never knows: requests (they are `client.admin`'s) and layout (`topic_views`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.topic_views import Described
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.cluster import Cluster, Topic

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

SIZES_UP_TO = 10_000
"""Partitions beyond which a list asks no broker for sizes, because every partition is one row in its answer."""

Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting by Kafka's name; repeat for more."),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The topic's name.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="How many partitions; else the broker's default.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, help="Copies of each partition; else the broker's default."),
    ] = None,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there already is fine.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Create a topic.

    \b
    ottla topic create orders --partitions 6
    ottla topic create state -p 1 -c cleanup.policy=compact -c segment.bytes=1048576
    """
    from ottla.base.errors import ErrorCode
    from ottla.client.admin.topics import BROKER_DEFAULT, NewTopic, TopicAdmin
    from ottla.client.errors import BrokerError

    wanted = NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, parse_settings(config))

    async def work(cluster: "Cluster") -> str:
        created = (await TopicAdmin(cluster).create_topics([wanted], seconds))[name]
        if created.error == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            return f"topic {name!r} exists already"
        if created.error:
            raise BrokerError(created.error, f"topic {name!r}", created.message)
        numbers = "" if created.partitions < 0 else _with_numbers(created.partitions, created.replication_factor)
        return f"created topic {name!r}{numbers}"

    say(with_cluster(bootstrap, seconds, work) + "\n")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also the cluster's own topics.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """List the topics with their partitions, copies and size on disk.

    \b
    ottla topic list
    ottla topic list --json | jq '.[].name'
    """
    from ottla.cli.topic_views import list_json, list_table
    from ottla.client.admin.topics import TopicAdmin

    async def work(cluster: "Cluster") -> "tuple[list[Topic], dict[TopicPartition, int] | None]":
        admin = TopicAdmin(cluster)
        topics = [topic for topic in await admin.topics(seconds) if internal or not topic.internal]
        few = sum(len(topic.partitions) for topic in cluster.topics.values()) <= SIZES_UP_TO
        return topics, await _sizes(admin, seconds) if few else None

    topics, sizes = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(list_json(topics, sizes))
    else:
        show(list_table(topics, sizes))


@app.command()
def describe(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="The topics to describe.")],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show the partitions of topics, their leaders and offsets, and the settings that differ from the default.

    \b
    ottla topic describe orders
    """
    from ottla.cli.topic_views import describe_json, describe_summary, describe_table
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.errors import BrokerError

    async def work(cluster: "Cluster") -> "list[Described]":
        admin = TopicAdmin(cluster)
        found = await admin.describe_topics(names, seconds)
        for topic in found.values():
            if isinstance(topic, BrokerError):
                raise topic
        return [await _describe(admin, topic, seconds) for topic in found.values() if not isinstance(topic, Exception)]

    topics = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json([describe_json(topic) for topic in topics])
        return
    for position, topic in enumerate(topics):
        say(("\n" if position else "") + describe_summary(topic) + "\n")
        show(describe_table(topic))


@app.command()
def alter(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The topic to change.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="How many partitions there shall be in all.")
    ] = None,
    config: Settings = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", "-d", metavar="NAME", help="Give a setting its default back; repeat for more."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Add partitions to a topic or change its settings.

    \b
    ottla topic alter orders --partitions 12
    ottla topic alter orders -c retention.ms=86400000 -d segment.bytes
    """
    from ottla.client.admin.topics import Resource, ResourceKind, TopicAdmin
    from ottla.client.errors import BrokerError

    settings = parse_settings(config)
    removed = list(delete_config or ())
    if partitions is None and not settings and not removed:
        raise typer.BadParameter("say what to change: --partitions, --config or --delete-config")

    async def work(cluster: "Cluster") -> list[str]:
        admin = TopicAdmin(cluster)
        done: list[str] = []
        if settings or removed:
            outcome = await admin.alter_configs(Resource(ResourceKind.TOPIC, name), settings, removed, seconds)
            if outcome.error:
                raise BrokerError(outcome.error, f"topic {name!r}", outcome.message)
            done += [f"{key}={value}" for key, value in settings.items()]
            done += [f"{key} back to its default" for key in removed]
        if partitions is not None:
            outcome = (await admin.create_partitions({name: partitions}, seconds))[name]
            if outcome.error:
                raise BrokerError(outcome.error, f"topic {name!r}", outcome.message)
            done.append(f"{partitions} partitions")
        return done

    say(f"altered topic {name!r}: {', '.join(with_cluster(bootstrap, seconds, work))}\n")


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="The topics to delete, with all their records.")],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is fine.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Delete topics and all their records, for good.

    \b
    ottla topic delete orders payments
    """
    from ottla.base.errors import ErrorCode
    from ottla.cli.failures import Failure, refusal
    from ottla.client.admin.part import Outcome
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.errors import BrokerError

    async def work(cluster: "Cluster") -> dict[str, Outcome]:
        return await TopicAdmin(cluster).delete_topics(names, seconds)

    refused = []
    for name, outcome in with_cluster(bootstrap, seconds, work).items():
        if outcome.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if not if_exists:
                refused.append(refusal(BrokerError(outcome.error, f"topic {name!r}")))
        elif outcome.error:
            refused.append(refusal(BrokerError(outcome.error, f"topic {name!r}", outcome.message)))
        else:
            say(f"deleted topic {name!r}\n")
    if refused:
        raise Failure("; ".join(refused))


async def _describe(admin: "TopicAdmin", topic: "Topic", seconds: float) -> "Described":
    from ottla.base.errors import ErrorCode
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.topic_views import Described
    from ottla.client.admin.topics import ConfigSource, Resource, ResourceKind
    from ottla.client.offsets import EARLIEST, LATEST

    async def offsets(moment: int) -> dict[int, int]:
        """Of the partitions that have a leader: the others cannot tell."""
        led = {TopicPartition(topic.name, part.number): moment for part in topic.partitions if part.leader >= 0}
        found = await admin.offsets(led, seconds)
        return {place.partition: answer.offset for place, answer in found.items() if answer.error == ErrorCode.NONE}

    configs = await admin.describe_configs(Resource(ResourceKind.TOPIC, topic.name), seconds)
    sizes = await _sizes(admin, seconds) or {}
    return Described(
        topic,
        await offsets(EARLIEST),
        await offsets(LATEST),
        {place.partition: size for place, size in sizes.items() if place.topic == topic.name},
        [config for config in configs if config.source == ConfigSource.TOPIC],
    )


async def _sizes(admin: "TopicAdmin", seconds: float) -> "dict[TopicPartition, int] | None":
    """None where the brokers do not tell: too old, or not to us."""
    from ottla.client.errors import ClientError

    try:
        return await admin.sizes(min(seconds, 5.0))
    except ClientError:
        return None


def parse_settings(texts: list[str] | None, hint: str = "--config") -> dict[str, str]:
    """The settings of repeated NAME=VALUE options."""
    settings = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=hint)
        settings[name.strip()] = value
    return settings


def _with_numbers(partitions: int, replication: int) -> str:
    return f": {partitions} partition{'s' if partitions != 1 else ''}, replication factor {replication}"
