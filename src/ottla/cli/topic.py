"""`ottla topic …`: the topics of a cluster.

Owns: the commands and their options. Never knows: requests (they are `client.admin`'s), layout (`topic_views`), the
records in a topic (`topic_records` has the commands for them).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster
from ottla.cli.topic_records import delete_records, offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.topic_views import Described
    from ottla.client.admin.part import Outcome
    from ottla.client.admin.topics import Created, TopicAdmin
    from ottla.client.cluster import Cluster, Topic

app = typer.Typer(help="Create, list, describe, alter and delete topics and what is in them.", no_args_is_help=True)

SIZES_UP_TO = 10_000
"""Partitions beyond which a list asks no broker for sizes and offsets: every partition is a row in its answers."""

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting by Kafka's name; repeat for more."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only let the cluster check whether it would.")]


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Names of new topics, all made alike.")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, metavar="N", help="How many partitions; else the broker's default."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            metavar="N",
            help="Copies of each partition; else the broker's default.",
        ),
    ] = None,
    assignment: Annotated[
        list[str] | None,
        typer.Option(
            "--replicas", metavar="N,N", help="The brokers of one partition, its leader first; repeat for each."
        ),
    ] = None,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there already is fine.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Create topics.

    \b
    ottla topic create orders --partitions 6
    ottla topic create state -p 1 -c cleanup.policy=compact -c segment.ms=60000
    ottla topic create orders payments clicks -p 3 -r 3 --if-not-exists
    ottla topic create pinned --replicas 1,2 --replicas 2,3     (two partitions)
    """
    from ottla.base.errors import ErrorCode
    from ottla.cli.outcomes import require
    from ottla.cli.topic_views import created_json, created_text
    from ottla.client.admin.part import Outcome
    from ottla.client.admin.topics import BROKER_DEFAULT, NewTopic, TopicAdmin

    if assignment and (partitions or replication_factor):
        raise typer.BadParameter("--replicas says itself how many partitions and replicas there are")
    brokers = dict(enumerate(_brokers(assignment)))
    settings = parse_settings(config)
    wanted = [
        NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, settings, brokers)
        for name in names
    ]

    async def work(cluster: "Cluster") -> "dict[str, Created]":
        return await TopicAdmin(cluster).create_topics(wanted, seconds, validate_only=dry_run)

    made = with_cluster(bootstrap, seconds, work)
    accepted = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS} if if_not_exists else {ErrorCode.NONE}
    if as_json:
        show_json([created_json(name, made[name]) for name in names])
    else:
        say("".join(created_text(name, made[name], dry_run) for name in names if made[name].error in accepted))
    refused = {name: Outcome(each.error, each.message) for name, each in made.items() if each.error not in accepted}
    require("topic", refused)


@app.command("list")
def list_topics(
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC…", help="Only these; * and ? stand for any letters.")
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Also the cluster's own topics.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """List the topics with their partitions, copies, records and size on disk.

    Records are counted by their offsets, so that those which compaction took away, and the markers of transactions,
    count as well.

    \b
    ottla topic list
    ottla topic list 'order*' --internal
    ottla topic list --json | jq -r '.[] | select(.records > 1e6) | .name'
    """
    from fnmatch import fnmatchcase

    from ottla.cli.topic_views import Listed, list_json, list_table
    from ottla.client.admin.topics import TopicAdmin

    async def work(cluster: "Cluster") -> "Listed":
        admin = TopicAdmin(cluster)
        topics = [topic for topic in await admin.topics(seconds) if internal or not topic.internal]
        if patterns:
            topics = [topic for topic in topics if any(fnmatchcase(topic.name, pattern) for pattern in patterns)]
        if sum(len(topic.partitions) for topic in topics) > SIZES_UP_TO:
            return Listed(topics, None, None)
        return Listed(topics, *await _sizes_and_counts(admin, topics, seconds))

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(list_json(found))
    else:
        show(list_table(found))


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC…", help="The topics to describe; all without any.")
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show the partitions of topics, their leaders and offsets, and the settings that differ from the default.

    \b
    ottla topic describe orders
    ottla topic describe --json | jq '.[] | select(.state != "ok")'
    """
    import asyncio

    from ottla.cli.topic_views import describe_json, describe_summary, describe_table
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.errors import BrokerError

    async def work(cluster: "Cluster") -> "list[Described]":
        admin = TopicAdmin(cluster)
        wanted = names or [topic.name for topic in await admin.topics(seconds) if not topic.internal]
        found = await admin.describe_topics(wanted, seconds)
        for topic in found.values():
            if isinstance(topic, BrokerError):
                raise topic
        topics = [topic for topic in found.values() if not isinstance(topic, Exception)]
        sizes = await _sizes(admin, seconds) or {}
        return list(await asyncio.gather(*(_describe(admin, topic, sizes, seconds) for topic in topics)))

    topics = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json([describe_json(topic) for topic in topics])
        return
    for position, topic in enumerate(topics):
        say(("\n" if position else "") + describe_summary(topic) + "\n")
        show(describe_table(topic))


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, metavar="N", help="How many partitions there shall be in all."),
    ] = None,
    config: Settings = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", "-d", metavar="NAME", help="Give a setting its default back; repeat for more."),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Change a topic's settings, or how many partitions it has.

    \b
    ottla topic alter orders --partitions 12
    ottla topic alter orders -c retention.ms=86400000 -d segment.bytes
    """
    from ottla.client.admin.topics import Resource, ResourceKind, TopicAdmin

    settings = parse_settings(config)
    removed = list(delete_config or ())
    if partitions is None and not settings and not removed:
        raise typer.BadParameter("say what to change: --partitions, --config or --delete-config")

    async def work(cluster: "Cluster") -> None:
        admin = TopicAdmin(cluster)
        if settings or removed:
            _demand(name, await admin.alter_configs(Resource(ResourceKind.TOPIC, name), settings, removed, seconds))
        if partitions is not None:
            _demand(name, (await admin.create_partitions({name: partitions}, seconds))[name])

    with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json({"topic": name, "partitions": partitions, "set": settings, "back_to_default": removed})
        return
    done = [f"{key}={value}" for key, value in settings.items()]
    done += [f"{key} back to its default" for key in removed]
    done += [f"{partitions} partitions"] if partitions is not None else []
    say(f"altered topic {name!r}: {', '.join(done)}\n")


@app.command("add-partitions")
def add_partitions(
    name: Name,
    more: Annotated[int, typer.Argument(metavar="N", min=1, help="How many more.")] = 1,
    assignment: Annotated[
        list[str] | None,
        typer.Option("--replicas", metavar="N,N", help="The brokers of one new partition; repeat for each."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Give a topic more partitions. Keys may then go to other partitions than before, and there is no way back.

    \b
    ottla topic add-partitions orders 3
    ottla topic add-partitions orders 2 --replicas 1,2 --replicas 2,3
    """
    from ottla.client.admin.topics import TopicAdmin

    brokers = _brokers(assignment)
    if brokers and len(brokers) != more:
        raise typer.BadParameter(f"{more} new partitions need as many --replicas, not {len(brokers)}")

    async def work(cluster: "Cluster") -> int:
        admin = TopicAdmin(cluster)
        before = len((await cluster.topic(name, cluster.deadline(seconds))).partitions)
        outcomes = await admin.create_partitions(
            {name: before + more},
            seconds,
            assignments={name: brokers} if brokers else None,
            validate_only=dry_run,
        )
        _demand(name, outcomes[name])
        return before + more

    total = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json({"topic": name, "partitions": total, "dry_run": dry_run})
    else:
        say(f"topic {name!r} {'would have' if dry_run else 'has'} {total} partitions\n")


@app.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="The topics to delete.")],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is fine.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Delete topics and all their records, for good.

    \b
    ottla topic delete orders payments
    """
    from ottla.base.errors import ErrorCode
    from ottla.cli.outcomes import report
    from ottla.client.admin.topics import TopicAdmin

    async def work(cluster: "Cluster") -> "dict[str, Outcome]":
        return await TopicAdmin(cluster).delete_topics(names, seconds)

    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    outcomes = with_cluster(bootstrap, seconds, work).items()
    report(
        "topic",
        {name: outcome for name, outcome in outcomes if not (if_exists and outcome.error == missing)},
        "deleted",
        as_json=as_json,
    )


app.command()(offsets)
app.command()(delete_records)


async def _describe(
    admin: "TopicAdmin", topic: "Topic", sizes: "Mapping[TopicPartition, int]", seconds: float
) -> "Described":
    from ottla.cli.topic_views import Described
    from ottla.client.admin.topics import ConfigSource, Resource, ResourceKind
    from ottla.client.offsets import EARLIEST, LATEST

    configs = await admin.describe_configs(Resource(ResourceKind.TOPIC, topic.name), seconds)
    earliest, latest = [await _known_offsets(admin, [topic], moment, seconds) for moment in (EARLIEST, LATEST)]
    return Described(
        topic,
        {place.partition: offset for place, offset in earliest.items()},
        {place.partition: offset for place, offset in latest.items()},
        {place.partition: size for place, size in sizes.items() if place.topic == topic.name},
        [config for config in configs if config.source == ConfigSource.TOPIC],
    )


async def _known_offsets(
    admin: "TopicAdmin", topics: "Iterable[Topic]", moment: int, seconds: float
) -> "dict[TopicPartition, int]":
    """Of the partitions that have a leader: the others cannot tell."""
    from ottla.base.errors import ErrorCode
    from ottla.base.vocabulary import TopicPartition

    led = {
        TopicPartition(topic.name, part.number): moment
        for topic in topics
        for part in topic.partitions
        if part.leader >= 0
    }
    found = await admin.offsets(led, seconds)
    return {place: answer.offset for place, answer in found.items() if answer.error == ErrorCode.NONE}


async def _sizes_and_counts(
    admin: "TopicAdmin", topics: "Sequence[Topic]", seconds: float
) -> "tuple[dict[TopicPartition, int] | None, dict[TopicPartition, int] | None]":
    """Bytes and records of each partition, asked for at the same time; None where the brokers do not tell."""
    import asyncio

    from ottla.client.errors import ClientError
    from ottla.client.offsets import EARLIEST, LATEST

    async def counts() -> "dict[TopicPartition, int] | None":
        try:
            first, following = await asyncio.gather(
                *(_known_offsets(admin, topics, moment, min(seconds, 5.0)) for moment in (EARLIEST, LATEST))
            )
        except ClientError:
            return None
        return {place: following[place] - offset for place, offset in first.items() if place in following}

    sizes, counted = await asyncio.gather(_sizes(admin, seconds), counts())
    return sizes, counted


async def _sizes(admin: "TopicAdmin", seconds: float) -> "dict[TopicPartition, int] | None":
    """None where the brokers do not tell: too old, or not to us."""
    from ottla.client.errors import ClientError

    try:
        return await admin.sizes(min(seconds, 5.0))
    except ClientError:
        return None


def _demand(name: str, outcome: "Outcome") -> None:
    from ottla.client.errors import BrokerError

    if outcome.error:
        raise BrokerError(outcome.error, f"topic {name!r}", outcome.message)


def _brokers(assignment: list[str] | None) -> list[list[int]]:
    """The brokers of each partition, from repeated N,N options."""
    from ottla.cli.named import whole_number

    return [[whole_number(number, text) for number in text.split(",")] for text in assignment or ()]


def parse_settings(texts: list[str] | None, hint: str = "--config") -> dict[str, str]:
    """The settings of repeated NAME=VALUE options."""
    settings = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=hint)
        settings[name.strip()] = value
    return settings
