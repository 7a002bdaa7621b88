"""`ottla topic offsets` and `ottla topic delete-records`: where topics begin and end, and making them begin later.

Owns: these two commands. Never knows: requests (`client.admin`), layout (`topic_views`), how places in a topic are
named (`record_places`, `named`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import show, show_json
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.topic_views import Deletion, OffsetRange
    from ottla.client.cluster import Cluster
    from ottla.client.offsets import FoundOffset

LARGEST_TIMESTAMP = "max-timestamp"


def offsets(
    names: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC[:N,N]…", help="Topics, or some of their partitions, as orders or orders:0,2."),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="WHERE",
            help="The offset of beginning, end, a time, how long ago, or max-timestamp; else beginning and end.",
        ),
    ] = None,
    committed: Annotated[
        bool, typer.Option("--committed", help="The end is before the first open transaction.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show where partitions begin and end, or which offset a moment falls on.

    \b
    ottla topic offsets orders payments:0
    ottla topic offsets orders --at 2026-01-31T12:00   first of that time or later
    ottla topic offsets orders --at 15m                of fifteen minutes ago
    ottla topic offsets orders --at max-timestamp      the latest by its timestamp
    """
    from ottla.cli.topic_views import found_json, found_table, reach_json, reach_table

    isolation = int(committed)
    if at is None:
        reach = with_cluster(bootstrap, seconds, lambda cluster: _reach(cluster, names, isolation, seconds))
        if as_json:
            show_json(reach_json(reach))
        else:
            show(reach_table(reach))
        return
    moment = _moment(at)
    found = with_cluster(bootstrap, seconds, lambda cluster: _found(cluster, names, moment, isolation, seconds))
    if as_json:
        show_json(found_json(found))
    else:
        show(found_table(found))


def delete_records(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC[:N,N]…", help="Topics, or some of their partitions, as orders or orders:0,2."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="WHERE", help="An offset, end for all, -N to keep the last N, a time, or how long ago."
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="FILE", help="Partitions and offsets in the JSON of Kafka's own tool."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Delete the oldest records of partitions, for good: all before an offset or a moment.

    \b
    ottla topic delete-records orders --before end --dry-run    how much is all?
    ottla topic delete-records orders:0,1 --before 5000
    ottla topic delete-records orders --before 7d        older than a week
    ottla topic delete-records --from-file offsets.json
    """
    from ottla.cli.outcomes import require
    from ottla.cli.topic_views import deletion_json, deletion_table

    if bool(names) == bool(file) or bool(before) == bool(file):
        raise typer.BadParameter("name topics and --before, or a --from-file")

    async def work(cluster: "Cluster") -> "list[Deletion]":
        aims = await _aims(cluster, names or (), before, file, seconds)
        return await _delete_records(cluster, aims, dry_run, seconds)

    done = with_cluster(bootstrap, seconds, work)
    if as_json:
        show_json([deletion_json(row) for row in done])
    elif any(not row.outcome.error for row in done):
        show(deletion_table(done))
    require("partition", {str(row.place): row.outcome for row in done})


async def _reach(cluster: "Cluster", names: "Sequence[str]", isolation: int, seconds: float) -> "list[OffsetRange]":
    from ottla.cli.named import partitions_named
    from ottla.cli.topic_views import OffsetRange
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.offsets import EARLIEST, LATEST, raise_errors

    admin = TopicAdmin(cluster)
    places = await partitions_named(cluster, names, seconds)
    first = await admin.offsets(dict.fromkeys(places, EARLIEST), seconds)
    following = await admin.offsets(dict.fromkeys(places, LATEST), seconds, isolation=isolation)
    raise_errors(first)
    raise_errors(following)
    return [OffsetRange(place, first[place].offset, following[place].offset) for place in places]


async def _found(
    cluster: "Cluster", names: "Sequence[str]", moment: int, isolation: int, seconds: float
) -> "Mapping[TopicPartition, FoundOffset]":
    from ottla.cli.named import partitions_named
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.offsets import raise_errors

    places = await partitions_named(cluster, names, seconds)
    found = await TopicAdmin(cluster).offsets(dict.fromkeys(places, moment), seconds, isolation=isolation)
    raise_errors(found)
    return found


def _moment(text: str) -> int:
    """What --at says, as ListOffsets asks for it."""
    from ottla.cli.record_places import parse_where
    from ottla.client.offsets import MAX_TIMESTAMP

    if text == LARGEST_TIMESTAMP:
        return MAX_TIMESTAMP
    moment = parse_where(text, "--at").moment
    if moment is None:
        raise typer.BadParameter(f"{text!r} is an offset already", param_hint="--at")
    return moment


async def _aims(
    cluster: "Cluster", names: "Sequence[str]", before: str | None, file: str | None, seconds: float
) -> "Mapping[TopicPartition, int]":
    """Which offset each partition shall begin with."""
    from ottla.cli.named import partitions_named
    from ottla.cli.record_places import parse_where, resolve
    from ottla.client.admin.topics import TopicAdmin

    if file is not None:
        return read_offsets_file(file)
    where = parse_where(before or "", "--before")
    places = await partitions_named(cluster, names, seconds)
    if where.offset is not None:
        return dict.fromkeys(places, where.offset)  # one beyond the end is the broker's to refuse
    return await resolve(TopicAdmin(cluster), where, places, seconds)


async def _delete_records(
    cluster: "Cluster", aims: "Mapping[TopicPartition, int]", dry_run: bool, seconds: float
) -> "list[Deletion]":
    from ottla.base.errors import ErrorCode
    from ottla.cli.topic_views import Deletion
    from ottla.client.admin.part import Outcome
    from ottla.client.admin.topics import TopicAdmin
    from ottla.client.offsets import EARLIEST, LATEST, raise_errors

    admin = TopicAdmin(cluster)
    first = await admin.offsets(dict.fromkeys(aims, EARLIEST), seconds)
    raise_errors(first)
    if not dry_run:
        done = await admin.delete_records(aims, seconds)
        return [Deletion(place, first[place].offset, done[place][1], done[place][0]) for place in aims]
    ends = await admin.offsets(dict.fromkeys(aims, LATEST), seconds)
    raise_errors(ends)

    def rehearsed(place: "TopicPartition", aim: int) -> Deletion:
        begin, end = first[place].offset, ends[place].offset
        outcome = Outcome(ErrorCode.OFFSET_OUT_OF_RANGE if aim > end else ErrorCode.NONE)
        return Deletion(place, begin, max(begin, end if aim < 0 else aim), outcome)

    return [rehearsed(place, aim) for place, aim in aims.items()]


def read_offsets_file(path: str) -> "dict[TopicPartition, int]":
    """The offsets of a file as kafka-delete-records takes it; Failure when it is none."""
    import json

    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.failures import Failure

    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["partitions"]
        return {TopicPartition(str(row["topic"]), int(row["partition"])): int(row["offset"]) for row in rows}
    except OSError as problem:
        raise Failure(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError):
        example = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}'
        raise Failure(f"{path} does not say which records to delete; it should look like {example}") from None
