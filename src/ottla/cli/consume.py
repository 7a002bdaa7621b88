"""`ottla consume TOPIC`: the records of a topic on standard output.

Owns: the options, where reading starts and when it ends. Never knows: fetching (`client.assigned`) and the look of
records (`record_text`).
"""

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.record_text import Printer
    from ottla.client.cluster import Cluster, Topic
    from ottla.client.assigned import Consumer, Start

BEGINNING, END = "beginning", "end"
POLL_SECONDS = 1.0


class From(NamedTuple):
    """Where to start: one of an offset, a number of records before the end, or a moment."""

    offset: int | None = None
    last: int | None = None
    moment: int | None = None


class Wanted(NamedTuple):
    """What to read. Without `most` and `until_end`: follow the topic until interrupted."""

    topic: str
    partitions: Sequence[int]
    where: From
    most: int | None
    until_end: bool
    committed: bool


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    start: Annotated[
        str,
        typer.Option("--from", "-f", metavar="WHERE", help="beginning, end, an offset, -N for the last N, or a time."),
    ] = BEGINNING,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this one; repeat for more.")
    ] = None,
    most: Annotated[int | None, typer.Option("--max", "-n", min=0, help="End after so many records.")] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", "-e", help="End where the topic ended when this started; else follow it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a record.")] = False,
    template: Annotated[
        str | None,
        typer.Option(
            "--format", "-F", metavar="TEXT", help="Own lines, as in '{partition}:{offset} {key} {value}\\n'."
        ),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Show keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", "-H", help="Show headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", "-t", help="Show times.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", "-o", help="Show partition:offset.")] = False,
    separator: Annotated[
        str,
        typer.Option("--separator", metavar="TEXT", show_default=False, help="Between the columns instead of a tab."),
    ] = "\t",
    null_value: Annotated[
        str, typer.Option("--null-value", metavar="TEXT", help="How a key or value that is null is written.")
    ] = "null",
    committed: Annotated[bool, typer.Option("--committed", help="Only records of committed transactions.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Print the records of a topic, one a line. Follows the topic until Ctrl-C unless told where to end.

    \b
    ottla consume orders                              all there is, and what comes
    ottla consume orders --until-end --keys
    ottla consume orders --from end --max 1           the next one
    ottla consume orders --from -10 -e                the last ten of each partition
    ottla consume orders --from 2026-01-31T12:00 --json
    ottla consume orders -e -F '{time} {key}={value}\\n'

    Placeholders of --format: {topic} {partition} {offset} {timestamp} {time} {key} {value} {headers}.
    """
    from ottla.cli.record_text import TextRules, format_printer, json_printer, text_printer

    where = parse_from(start)
    null = os.fsencode(null_value)
    if as_json and template is not None:
        raise typer.BadParameter("choose one of --json and --format")
    if as_json:
        printer = json_printer()
    elif template is not None:
        try:
            printer = format_printer(template, null)
        except ValueError as problem:
            raise typer.BadParameter(str(problem), param_hint="--format") from None
    else:
        printer = text_printer(TextRules(offsets, timestamps, keys, headers, os.fsencode(separator), null))

    wanted = Wanted(topic, partition or (), where, most, until_end, committed)

    async def work(cluster: "Cluster") -> None:
        await _consume(cluster, wanted, printer, seconds)

    try:
        with_cluster(bootstrap, seconds, work)
    except KeyboardInterrupt:
        if until_end:
            raise
        raise typer.Exit(0) from None  # the ordinary end of following a topic


async def _consume(cluster: "Cluster", wanted: Wanted, printer: "Printer", seconds: float) -> None:
    from ottla.client.assigned import Consumer, ConsumerSettings, OutOfRange

    partitions = choose(await cluster.topic(wanted.topic, cluster.deadline(seconds)), wanted.partitions)
    policy = OutOfRange.FAIL if wanted.where.offset is not None else OutOfRange.EARLIEST
    settings = ConsumerSettings(committed_only=wanted.committed, out_of_range=policy, patience_seconds=seconds)
    async with Consumer(cluster, settings) as consumer:
        await consumer.assign(await _starts(cluster, partitions, wanted.where, seconds), seconds)
        await _print_all(consumer, wanted, printer)


async def _print_all(consumer: "Consumer", wanted: Wanted, printer: "Printer") -> None:
    out = sys.stdout.buffer
    ends = await consumer.end_offsets() if wanted.until_end else {}
    left = wanted.most
    while left is None or left > 0:
        if wanted.until_end and all(consumer.positions[place] >= end for place, end in ends.items()):
            return
        for partition, records, _ in await consumer.poll(POLL_SECONDS):
            if wanted.until_end:
                records = [record for record in records if record.offset < ends[partition]]
            if left is not None:
                records = records[:left]
                left -= len(records)
            out.write(printer(partition, records))
        out.flush()


async def _starts(
    cluster: "Cluster", partitions: "Sequence[TopicPartition]", where: From, seconds: float
) -> "dict[TopicPartition, Start]":
    from ottla.client.assigned import Start
    from ottla.client.offsets import EARLIEST, LATEST, find_offsets, raise_errors

    if where.offset is not None:
        return dict.fromkeys(partitions, Start(offset=where.offset))
    if where.moment is not None:
        return dict.fromkeys(partitions, Start(moment=where.moment))
    assert where.last is not None
    deadline = cluster.deadline(seconds)
    firsts = await find_offsets(cluster, dict.fromkeys(partitions, EARLIEST), deadline)
    ends = await find_offsets(cluster, dict.fromkeys(partitions, LATEST), deadline)
    raise_errors(firsts)
    raise_errors(ends)
    return {place: Start(offset=max(firsts[place].offset, ends[place].offset - where.last)) for place in partitions}


def choose(topic: "Topic", numbers: Sequence[int]) -> "list[TopicPartition]":
    """The partitions to read: those asked for, or all when none is."""
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.failures import Failure

    there = [part.number for part in topic.partitions]
    for number in numbers:
        if number not in there:
            raise Failure(f"topic {topic.name!r} has no partition {number}; it has 0 to {len(there) - 1}")
    return [TopicPartition(topic.name, number) for number in dict.fromkeys(numbers or there)]


def parse_from(text: str) -> From:
    """What --from says; a time without zone is local."""
    from ottla.client.offsets import EARLIEST, LATEST

    if text == BEGINNING:
        return From(moment=EARLIEST)
    if text == END:
        return From(moment=LATEST)
    if text.isascii() and text.isdigit():
        return From(offset=int(text))
    if text.startswith("-") and text[1:].isascii() and text[1:].isdigit():
        return From(last=int(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not beginning, end, an offset, -N, or a time such as 2026-01-31T12:00", param_hint="--from"
        ) from None
    return From(moment=int(moment.timestamp() * 1000))
