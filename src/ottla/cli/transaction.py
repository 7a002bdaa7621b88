"""`ottla transaction …`: transactional ids, what is open, what hangs, and getting rid of it.

Owns: the commands and their options. Never knows: requests (`client.admin`), layout and what hanging means
(`transaction_views`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.transaction_views import ProducerAt
    from ottla.client.admin.part import Outcome
    from ottla.client.admin.transactions import ActiveProducer, ListedTransaction, TransactionDescription
    from ottla.client.cluster import Cluster

app = typer.Typer(help="List, describe and abort transactions; find those that hang.", no_args_is_help=True)

PARTITIONS_AT_ONCE = 500
"""Partitions whose producers are asked for in one go."""

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
"""What transactions can be, in the words of the protocol."""

Partitions = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC[:N,N]…", help="Topics or some of their partitions.")
]


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only in this state, as Ongoing or CompleteCommit; repeatable."),
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", metavar="ID", help="Only of this producer; repeat for more.")
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option("--longer-than", metavar="DURATION", help="Only open for longer than this, as 10m or PT10M."),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """List transactional ids with their coordinator, producer and state.

    \b
    ottla transaction list
    ottla transaction list --state Ongoing --longer-than 10m
    """
    from ottla.cli.named import parse_duration, spelled
    from ottla.cli.transaction_views import list_json, list_table
    from ottla.client.admin.transactions import TransactionAdmin

    states = spelled(state, STATES, "--state")
    least = -1 if longer_than is None else parse_duration(longer_than, "--longer-than")

    async def work(cluster: "Cluster") -> "list[ListedTransaction]":
        admin = TransactionAdmin(cluster)
        return await admin.transactions(states, producer_id or (), seconds, longer_than=least)

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(list_json(found))
    else:
        show(list_table(found))


@app.command()
def describe(
    names: Annotated[list[str], typer.Argument(metavar="ID…", help="Transactional ids.")],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show the state of transactional ids, since when their transaction is open, and where it has written.

    \b
    ottla transaction describe billing-1
    """
    from ottla.cli.transaction_views import describe_json, describe_text
    from ottla.client.admin.transactions import TransactionAdmin
    from ottla.client.errors import BrokerError
    from ottla.runtime.world import RealClock

    async def work(cluster: "Cluster") -> "list[TransactionDescription]":
        described = []
        for answer in (await TransactionAdmin(cluster).describe_transactions(names, seconds)).values():
            if isinstance(answer, BrokerError):
                raise answer
            described.append(answer)
        return described

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json([describe_json(each) for each in found])
        return
    now = RealClock().now_ms()
    say("\n".join(describe_text(each, now) for each in found))


@app.command()
def producers(
    partitions: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:N,N]…", help="Topics or some of their partitions.")
    ],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show the producers that partitions remember, and where their open transactions began.

    \b
    ottla transaction producers orders:0
    """
    from ottla.cli.named import partitions_named
    from ottla.cli.transaction_views import ProducerAt, producers_json, producers_table

    async def work(cluster: "Cluster") -> "dict[TopicPartition, tuple[ActiveProducer, ...]]":
        return await _producers(cluster, await partitions_named(cluster, partitions, seconds), seconds)

    answered = with_cluster(bootstrap, seconds, work)
    found = [ProducerAt(place, each) for place in sorted(answered) for each in answered[place]]
    if as_json:
        show_json(producers_json(found))
    else:
        show(producers_table(found))


@app.command("find-hanging")
def find_hanging(
    partitions: Partitions = None,
    broker: Annotated[
        int | None, typer.Option("--broker", metavar="ID", min=0, help="Only partitions with a replica on this broker.")
    ] = None,
    max_transaction_timeout: Annotated[
        str,
        typer.Option("--max-transaction-timeout", metavar="DURATION", help="A transaction may be open for so long."),
    ] = "15m",
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Find transactions that no coordinator will ever end; readers of committed records wait for them forever.

    Every partition is searched unless some are named. 'ottla transaction abort' ends what was found.

    \b
    ottla transaction find-hanging
    ottla transaction find-hanging orders --max-transaction-timeout 1h
    ottla transaction abort --partition orders:0 --start-offset 4711
    """
    from ottla.cli.named import parse_duration
    from ottla.cli.transaction_views import producers_json, producers_table
    from ottla.runtime.world import RealClock

    since = RealClock().now_ms() - parse_duration(max_transaction_timeout, "--max-transaction-timeout")

    async def work(cluster: "Cluster") -> "list[ProducerAt]":
        places = await _searched(cluster, partitions, broker, seconds)
        return await _hanging(cluster, places, since, seconds)

    found = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json(producers_json(found))
    elif found:
        show(producers_table(found))
    else:
        say("no transaction hangs\n")


@app.command()
def abort(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="Transactional ids whose open transaction shall end.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="TOPIC:N", help="Where a transaction hangs.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="The offset the hanging transaction began at.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, help="Its producer instead, for brokers that tell no offset.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", min=0, help="That producer's epoch.")
    ] = None,
    coordinator_epoch: Annotated[
        int, typer.Option("--coordinator-epoch", help="The coordinator epoch the partition knows.")
    ] = 0,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Abort the open transaction of transactional ids, or one that hangs in a partition.

    Whoever uses a transactional id that is aborted is shut out and has to begin anew.

    \b
    ottla transaction abort billing-1
    ottla transaction abort --partition orders:0 --start-offset 4711
    """
    from ottla.cli.named import parse_partition
    from ottla.cli.outcomes import report
    from ottla.client.admin.transactions import ActiveProducer, TransactionAdmin

    if bool(names) == (partition is not None):
        raise typer.BadParameter("name transactional ids, or a --partition")
    if names:

        async def fence(cluster: "Cluster") -> "dict[str, Outcome]":
            return await _fence(cluster, names, seconds)

        report("transaction", with_cluster(bootstrap, seconds, fence), "aborted", as_json=as_json)
        return
    place = parse_partition(partition or "")
    if (start_offset is None) == (producer_id is None or producer_epoch is None):
        raise typer.BadParameter("say which transaction: --start-offset, or --producer-id with --producer-epoch")

    async def end(cluster: "Cluster") -> "Outcome":
        if start_offset is not None:
            producer = await _producer_at(cluster, place, start_offset, seconds)
        else:
            producer = ActiveProducer(producer_id or 0, producer_epoch or 0, -1, -1, coordinator_epoch, -1)
        return await TransactionAdmin(cluster).abort_transaction(place, producer, seconds)

    outcome = with_cluster(bootstrap, seconds, end)
    report("partition", {f"{place.topic}:{place.partition}": outcome}, "aborted", as_json=as_json)


async def _fence(cluster: "Cluster", names: list[str], seconds: float) -> "dict[str, Outcome]":
    """Fencing makes an id where there is none, so that is asked first."""
    from ottla.client.admin.part import Outcome
    from ottla.client.admin.transactions import TransactionAdmin
    from ottla.client.errors import BrokerError

    admin = TransactionAdmin(cluster)
    described = await admin.describe_transactions(names, seconds)
    there = [name for name, answer in described.items() if not isinstance(answer, BrokerError)]
    fenced = await admin.fence_producers(there, seconds)
    return {
        name: Outcome(answer.code, answer.message) if isinstance(answer, BrokerError) else fenced[name]
        for name, answer in described.items()
    }


async def _producer_at(cluster: "Cluster", place: "TopicPartition", start: int, seconds: float) -> "ActiveProducer":
    from ottla.cli.failures import Failure
    from ottla.cli.named import partitions_named

    (place,) = await partitions_named(cluster, [f"{place.topic}:{place.partition}"], seconds)
    for producer in (await _producers(cluster, [place], seconds))[place]:
        if producer.transaction_start == start:
            return producer
    raise Failure(
        f"no open transaction of {place.topic}:{place.partition} began at offset {start}; "
        f"'ottla transaction producers {place.topic}:{place.partition}' shows those there are"
    )


async def _searched(
    cluster: "Cluster", names: list[str] | None, broker: int | None, seconds: float
) -> "list[TopicPartition]":
    """The partitions to look into; those without leader have nobody to ask."""
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.named import partitions_named
    from ottla.client.admin.topics import TopicAdmin

    topics = await TopicAdmin(cluster).topics(seconds)
    led = {
        TopicPartition(topic.name, part.number)
        for topic in topics
        for part in topic.partitions
        if part.leader >= 0 and (broker is None or broker in part.replicas)
    }
    if not names:
        return sorted(led)
    return [place for place in await partitions_named(cluster, names, seconds) if place in led]


async def _producers(
    cluster: "Cluster", places: "Sequence[TopicPartition]", seconds: float
) -> "dict[TopicPartition, tuple[ActiveProducer, ...]]":
    from ottla.cli.output import progress
    from ottla.client.admin.transactions import TransactionAdmin

    found: dict[TopicPartition, tuple[ActiveProducer, ...]] = {}
    with progress("searching", len(places), "partitions") as advance:
        for first in range(0, len(places), PARTITIONS_AT_ONCE):
            some = places[first : first + PARTITIONS_AT_ONCE]
            found.update(await TransactionAdmin(cluster).producers(some, seconds))
            advance(len(some))
    return found


async def _hanging(
    cluster: "Cluster", places: "Sequence[TopicPartition]", since: int, seconds: float
) -> "list[ProducerAt]":
    from ottla.cli.transaction_views import hanging, open_transactions
    from ottla.client.admin.transactions import TransactionAdmin
    from ottla.client.errors import BrokerError

    candidates = open_transactions(await _producers(cluster, places, seconds), since)
    if not candidates:
        return []
    admin = TransactionAdmin(cluster)
    identities = sorted({candidate.producer.producer_id for candidate in candidates})
    listed = await admin.transactions((), identities, seconds)
    answers = await admin.describe_transactions([each.transactional_id for each in listed], seconds)
    described = {name: answer for name, answer in answers.items() if not isinstance(answer, BrokerError)}
    return hanging(candidates, listed, described)
