"""`ottla partition …`: who leads partitions, and which brokers hold them.

Owns: the commands and their options. Never knows: requests (`client.admin`), how a plan is made
(`client.balancing`), how a move is carried out and shown (`cli.moves`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.moves import Move
    from ottla.client.admin.part import Outcome
    from ottla.client.balancing import BalancePlan
    from ottla.client.cluster import Cluster, Topic

app = typer.Typer(help="Elect leaders, move replicas, balance brokers.", no_args_is_help=True)

Throttle = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="Bytes a second each broker may copy, as 10MB or 512KiB; else no bound."),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until the copying is done, and show how far it is.")]


@app.command()
def elect(
    partitions: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC[:N]…", help="Topics or single partitions; none: all.")
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Let a replica lead that may lack records, where no other lives. Loses data."),
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Let the first replica of each partition lead again, where it is in sync.

    \b
    ottla partition elect
    ottla partition elect orders:0 payments
    ottla partition elect orders:2 --unclean
    """
    from ottla.base.errors import ErrorCode
    from ottla.cli.named import partitions_named
    from ottla.cli.outcomes import outcome_json, require
    from ottla.client.admin.brokers import BrokerAdmin

    if unclean and not partitions:
        raise typer.BadParameter("an unclean election loses records: name its topics or partitions")

    async def work(cluster: "Cluster") -> "dict[TopicPartition, Outcome]":
        named = await partitions_named(cluster, partitions, seconds) if partitions else None
        return await BrokerAdmin(cluster).elect_leaders(named, seconds, unclean=unclean)

    outcomes = {_name(place): outcome for place, outcome in sorted(with_cluster(bootstrap, seconds, work).items())}
    elected = [name for name, outcome in outcomes.items() if outcome.error == ErrorCode.NONE]
    if as_json:
        show_json([outcome_json("partition", name, outcome, "elected") for name, outcome in outcomes.items()])
    else:
        for name in elected:
            say(f"elected a leader for {name}\n")
    fine = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    require("partition", {name: outcome for name, outcome in outcomes.items() if outcome.error not in fine})
    if not elected and not as_json:
        say("every partition is led as it should be\n")


@app.command()
def reassign(
    moves: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC:N=BROKER,…", help="Where a partition shall be; the first broker shall lead."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="A plan in the JSON form of Kafka's kafka-reassign-partitions instead.")
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Undo moves under way, of the TOPIC[:N] named or of all.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Only show the moves under way.")] = False,
    unthrottle: Annotated[
        bool, typer.Option("--unthrottle", help="Only lift the throttles that moves have left behind.")
    ] = False,
    throttle: Throttle = None,
    wait: Wait = True,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Move partitions to other brokers, see how far moves are, or undo them.

    \b
    ottla partition reassign orders:0=2,3,1 orders:1=3,1,2 --throttle 50MB
    ottla partition reassign --file plan.json --no-wait
    ottla partition reassign --status
    ottla partition reassign --cancel
    """
    if sum((bool(file), cancel, status, unthrottle)) > 1 or (moves and (file or unthrottle)):
        raise typer.BadParameter("choose one of: moves, --file, --cancel, --status, --unthrottle")
    if unthrottle:
        _unthrottle(as_json, bootstrap, seconds)
    elif status:
        _show_moves(moves, as_json, bootstrap, seconds)
    elif cancel:
        _cancel(moves, as_json, bootstrap, seconds)
    elif moves or file:
        _reassign(_targets(moves or [], file), _rate(throttle), wait, as_json, bootstrap, seconds)
    else:
        raise typer.BadParameter("say what to move: TOPIC:N=BROKER,… or --file")


@app.command()
def balance(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC…", help="Only these topics; none: all.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Carry the plan out without asking.")] = False,
    throttle: Throttle = None,
    wait: Wait = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the plan in Kafka's JSON form, and do nothing.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Spread replicas and leaders evenly over the brokers: shows the plan, then carries it out when told to.

    \b
    ottla partition balance
    ottla partition balance orders --yes --throttle 50MB
    """
    from ottla.cli.moves import load_table, plan_json, plan_table

    rate = _rate(throttle)

    async def work(cluster: "Cluster") -> "tuple[BalancePlan, list[Topic], dict[TopicPartition, int]]":
        return await _plan(cluster, topics, seconds)

    plan, known, sizes = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(plan_json(plan.after))
        return
    if not plan.after:
        say("replicas and leaders are spread evenly: nothing to do\n")
        return
    show(plan_table(plan, sizes))
    say("\n")
    show(load_table(plan, known))
    if not yes:
        import sys

        if not sys.stdin.isatty():
            say("\nadd --yes to carry this plan out\n")
            return
        typer.confirm("\ncarry this plan out?", abort=True)
    _reassign(dict(plan.after), rate, wait, False, bootstrap, seconds)


def _reassign(
    targets: "dict[TopicPartition, tuple[int, ...]]",
    rate: int | None,
    wait: bool,
    as_json: bool,
    bootstrap: str,
    seconds: float,
) -> None:
    from ottla.cli.moves import carry_out, follow, plan_json

    async def work(cluster: "Cluster") -> None:
        moved = await carry_out(cluster, targets, rate, seconds)
        if wait:
            await follow(cluster, moved, seconds, throttled=rate is not None)

    with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json({"moved": wait, "throttle": rate if not wait else None, **plan_json(targets)})
    elif wait:
        say(f"moved {_partitions(len(targets))}\n")
    else:
        lifting = "" if rate is None else "; lift the throttle afterwards with 'ottla partition reassign --unthrottle'"
        say(f"moving {_partitions(len(targets))}: 'ottla partition reassign --status' shows how far it is{lifting}\n")


def _show_moves(names: list[str] | None, as_json: bool, bootstrap: str, seconds: float) -> None:
    from ottla.cli.moves import moves_json, moves_table, moves_under_way
    from ottla.cli.named import partitions_named

    async def work(cluster: "Cluster") -> "list[Move]":
        named = await partitions_named(cluster, names, seconds) if names else None
        return await moves_under_way(cluster, named, seconds)

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(moves_json(found))
    elif found:
        show(moves_table(found))
    else:
        say("no partition is being moved\n")


def _cancel(names: list[str] | None, as_json: bool, bootstrap: str, seconds: float) -> None:
    from ottla.cli.named import partitions_named
    from ottla.cli.outcomes import outcome_json, require
    from ottla.client.admin.brokers import BrokerAdmin

    async def work(cluster: "Cluster") -> "dict[TopicPartition, Outcome]":
        admin = BrokerAdmin(cluster)
        named = await partitions_named(cluster, names, seconds) if names else None
        moving = await admin.reassignments(named, seconds)
        outcomes = await admin.reassign(dict.fromkeys(moving), seconds) if moving else {}
        await admin.unthrottle(
            sorted({place.topic for place in moving}),
            sorted({broker for move in moving.values() for broker in move.replicas}),
            seconds,
        )
        return outcomes

    outcomes = {_name(place): outcome for place, outcome in sorted(with_cluster(bootstrap, seconds, work).items())}
    if as_json:
        show_json([outcome_json("partition", name, outcome, "cancelled") for name, outcome in outcomes.items()])
    require("partition", outcomes)
    if not as_json:
        say(f"cancelled {_partitions(len(outcomes))}\n" if outcomes else "no partition is being moved\n")


def _unthrottle(as_json: bool, bootstrap: str, seconds: float) -> None:
    from ottla.cli.moves import unthrottle

    async def work(cluster: "Cluster") -> None:
        await unthrottle(cluster, seconds)

    with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json({"throttle": None})
    else:
        say("no copying is bounded any more\n")


async def _plan(
    cluster: "Cluster", names: list[str] | None, seconds: float
) -> "tuple[BalancePlan, list[Topic], dict[TopicPartition, int]]":
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.failures import Failure
    from ottla.client.admin.brokers import BrokerAdmin
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.balancing import plan

    admin = TopicAdmin(cluster)
    known = await admin.topics(seconds)
    missing = sorted(set(names or ()) - {topic.name for topic in known})
    if missing:
        raise Failure(f"there is no topic {missing[0]!r}; 'ottla topic list' shows what there is")
    if await BrokerAdmin(cluster).reassignments(None, seconds):
        raise Failure("partitions are being moved already; wait, or cancel with 'ottla partition reassign --cancel'")
    sizes = await admin.sizes(seconds)
    racks = {broker.node_id: broker.rack for broker in cluster.brokers.values()}
    assignment = {
        TopicPartition(topic.name, part.number): part.replicas
        for topic in known
        if not names or topic.name in names
        for part in topic.partitions
    }
    return plan(assignment, racks, sizes), known, sizes


def _targets(texts: list[str], file: str | None) -> "dict[TopicPartition, tuple[int, ...]]":
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.moves import read_plan
    from ottla.cli.named import whole_number

    if file is not None:
        return read_plan(file)
    targets = {}
    for text in texts:
        place, _, brokers = text.partition("=")
        topic, _, number = place.partition(":")
        if not (topic and number and brokers):
            raise typer.BadParameter(f"{text!r} is not TOPIC:N=BROKER,BROKER…")
        replicas = tuple(whole_number(broker, text) for broker in brokers.split(","))
        targets[TopicPartition(topic, whole_number(number, text))] = replicas
    return targets


def _rate(text: str | None) -> int | None:
    from ottla.cli.moves import parse_rate

    if text is None:
        return None
    rate = parse_rate(text)
    if rate is None:
        raise typer.BadParameter(f"{text!r} is not a number of bytes, as 1000000, 10MB or 512KiB")
    return rate


def _name(place: "TopicPartition") -> str:
    return f"{place.topic}:{place.partition}"


def _partitions(count: int) -> str:
    return f"{count} partition{'s' if count != 1 else ''}"
