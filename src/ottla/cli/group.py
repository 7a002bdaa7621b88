"""`ottla group …`: consumer groups, how far they are, and where they go on.

Owns: the commands and their options. Never knows: requests (`client.admin`), layout (`group_views`), how a reset is
worked out (`group_resets`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.group_resets import Aim, ResetStep
    from ottla.cli.group_views import DescribedGroup
    from ottla.client.admin.groups import ListedGroup
    from ottla.client.admin.part import Outcome
    from ottla.client.cluster import Cluster
    from ottla.client.errors import BrokerError

app = typer.Typer(help="List, describe, reset and delete consumer groups.", no_args_is_help=True)

MEMBERS_UP_TO = 500
"""Groups beyond which a list counts no members, because every group is asked for by itself."""

STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
KINDS = ("classic", "consumer", "share", "streams")
"""What groups can be, in the words of the protocol."""
CONSUMING = ("classic", "consumer")
"""The groups that have offsets of their own."""

Names = Annotated[list[str] | None, typer.Argument(metavar="GROUP…", help="The groups.")]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group of the cluster.")]


@app.command("list")
def list_groups(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only groups in this state, as Stable or Empty; repeat for more."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only groups of this type: classic, consumer; repeat for more."),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """List the groups with their type, protocol, state and number of members.

    \b
    ottla group list
    ottla group list --state Empty --type classic
    ottla group list --json | jq -r '.[] | select(.members == 0) | .group'
    """
    from ottla.cli.group_views import list_json, list_table
    from ottla.cli.named import spelled
    from ottla.client.admin.groups import GroupAdmin
    from ottla.client.errors import BrokerError

    states, kinds = spelled(state, STATES, "--state"), spelled(kind, KINDS, "--type")

    async def work(cluster: "Cluster") -> "tuple[list[ListedGroup], dict[str, int]]":
        admin = GroupAdmin(cluster)
        groups = await admin.groups(states, kinds, seconds)
        asked = [group.group_id for group in groups] if len(groups) <= MEMBERS_UP_TO else []
        described = await admin.describe_groups(asked, seconds)
        return groups, {
            name: len(group.members) for name, group in described.items() if not isinstance(group, BrokerError)
        }

    groups, members = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(list_json(groups, members))
    else:
        show(list_table(groups, members))


@app.command()
def describe(
    names: Names = None,
    all_groups: AllGroups = False,
    members: Annotated[
        bool, typer.Option("--members", help="Show the members and what is assigned to them instead.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show a group's state, coordinator and members, and how far it is behind in every partition.

    \b
    ottla group describe billing
    ottla group describe billing --members
    ottla group describe --all-groups --json | jq '.[] | {group, lag}'
    """
    import asyncio

    from ottla.base.errors import ErrorCode
    from ottla.cli.group_views import describe_json, describe_summary, members_table, readings_table
    from ottla.client.errors import BrokerError

    async def work(cluster: "Cluster") -> "list[DescribedGroup]":
        chosen = await _groups(cluster, names, all_groups, seconds)
        described = await asyncio.gather(*(_describe(cluster, name, seconds) for name in chosen))
        for group in described:
            if isinstance(group, BrokerError) and not (all_groups and group.code == ErrorCode.GROUP_ID_NOT_FOUND):
                raise group  # of all groups one may go meanwhile
        return [group for group in described if not isinstance(group, BrokerError)]

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json([describe_json(group) for group in found])
        return
    for position, group in enumerate(found):
        say(("\n" if position else "") + describe_summary(group) + "\n")
        table = members_table(group.group) if members else readings_table(group)
        if table.rows:
            show(table)
        else:
            say("it has no members\n" if members else "it has committed nothing and reads nothing\n")


@app.command()
def reset(
    names: Names = None,
    all_groups: AllGroups = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:N,N]", help="A topic or some of its partitions; repeat for more."
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition the group has an offset in.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Where each partition begins.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Where each partition ends.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Where the group is; where it is nowhere yet, the end.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="This offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="N records on, or back with a negative N.")
    ] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="The first record at or after 2026-01-31T12:00.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="DURATION", help="So long ago: 1h30m, 7d or PT1H30M.")
    ] = None,
    from_file: Annotated[
        str | None, typer.Option("--from-file", metavar="FILE", help="What a file says that --export has made.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print the plan as CSV for --from-file, as Kafka's own tool does.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Let groups go on reading elsewhere. Shows what would change; --execute changes it.

    The members of a group must have stopped. Offsets that a partition does not have become its first or its end.

    \b
    ottla group reset billing --topic orders --to-earliest
    ottla group reset billing --topic orders:0,1 --to-offset 42 --execute
    ottla group reset billing --all-topics --by-duration 2h --execute
    ottla group reset billing --all-topics --to-datetime 2026-01-31T12:00:00+01:00
    ottla group reset billing --topic orders --shift-by -100 --execute
    ottla group reset billing --all-topics --to-current --export > offsets.csv
    ottla group reset billing --from-file offsets.csv --execute
    """
    choices = {
        "--to-earliest": to_earliest,
        "--to-latest": to_latest,
        "--to-current": to_current,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--from-file": from_file,
    }
    chosen = {option: value for option, value in choices.items() if value is not None and value is not False}
    if len(chosen) != 1:
        raise typer.BadParameter(f"choose one of {', '.join(choices)}")
    if (from_file is None) != (bool(topic) != all_topics):
        raise typer.BadParameter("say which partitions: --topic TOPIC[:N,N] or --all-topics (--from-file names them)")

    ((option, value),) = chosen.items()

    async def work(cluster: "Cluster") -> "tuple[list[str], list[ResetStep]]":
        groups = await _groups(cluster, names, all_groups, seconds)
        aims = _aims(option, value, groups)
        steps: list[ResetStep] = []
        for group in groups:
            steps += await _plan(cluster, group, aims[group], topic, seconds, may_be_empty=all_groups)
        if execute:
            chosen = list(dict.fromkeys(step.group for step in steps))
            await _require_idle(cluster, chosen, seconds)
            for group in chosen:
                await _move(cluster, group, steps, seconds)
        return groups, steps

    groups, steps = with_cluster(bootstrap, seconds, work)
    _tell(groups, steps, executed=execute, export=export, as_json=as_json)


@app.command()
def delete(
    names: Names = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Delete groups that have no members, with their offsets.

    \b
    ottla group delete billing audit
    """
    from ottla.cli.outcomes import report
    from ottla.client.admin.groups import GroupAdmin

    groups = _required(names)

    async def work(cluster: "Cluster") -> "dict[str, Outcome]":
        return await GroupAdmin(cluster).delete_groups(groups, seconds)

    outcomes = with_cluster(bootstrap, seconds, work)
    report("group", outcomes, "deleted", as_json=as_json)


@app.command("delete-offsets")
def delete_offsets(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    partitions: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:N,N]…", help="Topics or some of their partitions.")
    ],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Let a group forget where it was in topics that it does not read any more.

    \b
    ottla group delete-offsets billing orders
    ottla group delete-offsets billing orders:0,1 payments
    """
    from ottla.cli.named import partitions_named
    from ottla.cli.outcomes import report
    from ottla.client.admin.groups import GroupAdmin

    async def work(cluster: "Cluster") -> "dict[TopicPartition, Outcome]":
        places = await partitions_named(cluster, partitions, seconds)
        return await GroupAdmin(cluster).delete_group_offsets(name, places, seconds)

    outcomes = with_cluster(bootstrap, seconds, work)
    told = {f"{place.topic}:{place.partition}": outcome for place, outcome in sorted(outcomes.items())}
    report("offset", told, "deleted", of=f" of group {name!r}", as_json=as_json)


@app.command("remove-member")
def remove_member(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    instances: Annotated[
        list[str] | None, typer.Argument(metavar="INSTANCE…", help="The group.instance.id of static members.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Every member, also those without instance id.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Let members leave a classic group at once, instead of waiting until their sessions end.

    A member that still runs joins again.

    \b
    ottla group remove-member billing worker-3
    ottla group remove-member billing --all
    """
    from ottla.cli.outcomes import report
    from ottla.client.admin.groups import GroupAdmin

    if bool(instances) == everybody:
        raise typer.BadParameter("name the instance ids of static members, or say --all")

    async def work(cluster: "Cluster") -> "dict[str, Outcome]":
        return await GroupAdmin(cluster).remove_members(name, instances, seconds)

    outcomes = with_cluster(bootstrap, seconds, work)
    report("member", outcomes, "removed", of=f" of group {name!r}", as_json=as_json)


def _required(names: list[str] | None) -> list[str]:
    if not names:
        raise typer.BadParameter("name a group; 'ottla group list' shows what there is", param_hint="GROUP…")
    return list(dict.fromkeys(names))


async def _groups(cluster: "Cluster", names: list[str] | None, all_groups: bool, seconds: float) -> list[str]:
    from ottla.client.admin.groups import GroupAdmin

    if not all_groups:
        return _required(names)
    if names:
        raise typer.BadParameter("name groups or say --all-groups, not both")
    listed = await GroupAdmin(cluster).groups((), (), seconds)
    return [group.group_id for group in listed if group.kind.lower() in ("", *CONSUMING)]


async def _describe(cluster: "Cluster", name: str, seconds: float) -> "DescribedGroup | BrokerError":
    from ottla.cli.group_views import DescribedGroup
    from ottla.client.admin.groups import GroupAdmin
    from ottla.client.errors import BrokerError

    admin = GroupAdmin(cluster)
    group = (await admin.describe_groups([name], seconds))[name]
    if isinstance(group, BrokerError):
        return group
    committed = await admin.group_offsets(name, None, seconds)
    places = {*committed, *(place for member in group.members for place in member.assignment)}
    return DescribedGroup(group, committed, await ends_of(cluster, places, seconds))


async def ends_of(cluster: "Cluster", places: "set[TopicPartition]", seconds: float) -> "dict[TopicPartition, int]":
    """Where partitions end; those that are gone or have no leader cannot tell and are left out."""
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.errors import BrokerError
    from ottla.client.offsets import LATEST

    admin = TopicAdmin(cluster)
    topics = await admin.describe_topics(sorted({place.topic for place in places}), seconds) if places else {}
    led = {
        (name, part.number)
        for name, topic in topics.items()
        if not isinstance(topic, BrokerError)
        for part in topic.partitions
        if part.leader >= 0
    }
    found = await admin.offsets({place: LATEST for place in places if place in led}, seconds)
    return {place: answer.offset for place, answer in found.items() if not answer.error}


def _aims(option: str, value: object, groups: "Sequence[str]") -> "dict[str, Aim]":
    """Where each group shall go, as the options say it."""
    from ottla.cli.group_resets import Aim, Way, read_csv
    from ottla.cli.named import parse_duration, parse_moment
    from ottla.runtime.world import RealClock

    if option == Way.FILE.value:
        wanted = read_csv(_read(str(value)), str(value), groups)
        return {group: Aim(Way.FILE, offsets=wanted.get(group, {})) for group in groups}
    if option == "--by-duration":
        aim = Aim(Way.MOMENT, max(0, RealClock().now_ms() - parse_duration(str(value), option)))
    elif option == Way.MOMENT.value:
        aim = Aim(Way.MOMENT, parse_moment(str(value), option))
    else:
        aim = Aim(Way(option), value if isinstance(value, int) else 0)
    return dict.fromkeys(groups, aim)


def _read(path: str) -> str:
    from ottla.cli.failures import Failure

    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise Failure(f"cannot read {path}: {reason}; 'ottla group reset … --export' makes such a file") from None


async def _plan(
    cluster: "Cluster", group: str, aim: "Aim", topics: list[str] | None, seconds: float, *, may_be_empty: bool
) -> "list[ResetStep]":
    from ottla.cli.failures import Failure
    from ottla.cli.group_resets import Way, plan_reset
    from ottla.cli.named import partitions_named
    from ottla.client.admin.groups import GroupAdmin

    committed = {
        place: at.offset for place, at in (await GroupAdmin(cluster).group_offsets(group, None, seconds)).items()
    }
    if aim.way is Way.FILE:
        named = [f"{place.topic}:{place.partition}" for place in aim.offsets]
        places = await partitions_named(cluster, named, seconds)
    else:
        places = (
            await partitions_named(cluster, topics, seconds) if topics else await _there(cluster, committed, seconds)
        )
    if not places and may_be_empty:
        return []
    if not places:
        missing = "the file says nothing about it" if aim.way is Way.FILE else "it has committed nothing"
        raise Failure(f"there is nothing to reset in group {group!r}: {missing}; name topics with --topic")
    return await plan_reset(cluster, group, aim, places, committed, seconds)


async def _there(cluster: "Cluster", places: "Iterable[TopicPartition]", seconds: float) -> "list[TopicPartition]":
    """Those that still exist: a group remembers deleted topics for a while."""
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.errors import BrokerError

    known = list(places)
    topics = await TopicAdmin(cluster).describe_topics(sorted({place.topic for place in known}), seconds)
    counts = {name: 0 if isinstance(topic, BrokerError) else len(topic.partitions) for name, topic in topics.items()}
    return [place for place in known if place.partition < counts[place.topic]]


async def _require_idle(cluster: "Cluster", groups: "Sequence[str]", seconds: float) -> None:
    """Before anything is changed: members would go on where they are, and commit that."""
    from ottla.cli.failures import Failure
    from ottla.client.admin.groups import GroupAdmin
    from ottla.client.errors import BrokerError

    for group, found in (await GroupAdmin(cluster).describe_groups(groups, seconds)).items():
        if not isinstance(found, BrokerError) and found.members:
            raise Failure(
                f"group {group!r} is at work ({found.state}, {len(found.members)} members), so its offsets stay; "
                f"stop its members first: 'ottla group describe {group} --members' shows them"
            )


async def _move(cluster: "Cluster", group: str, steps: "Sequence[ResetStep]", seconds: float) -> None:
    from ottla.client.admin.groups import GroupAdmin
    from ottla.client.errors import BrokerError

    targets = {step.partition: step.target for step in steps if step.group == group}
    outcomes = await GroupAdmin(cluster).alter_group_offsets(group, targets, seconds)
    for place, outcome in sorted(outcomes.items()):
        if outcome.error:
            raise BrokerError(outcome.error, f"the offset of {place.topic}:{place.partition}", outcome.message)


def _tell(
    groups: "Sequence[str]", steps: "Sequence[ResetStep]", *, executed: bool, export: bool, as_json: bool
) -> None:
    from ottla.cli.group_resets import plan_csv, plan_json, plan_table

    if export:
        say(plan_csv(steps, groups))
        return
    if as_json:
        show_json({"executed": executed, "partitions": plan_json(steps)})
        return
    show(plan_table(steps))
    say("\nreset\n" if executed else "\nnothing is changed yet: add --execute to reset\n")
