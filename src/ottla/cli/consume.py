"""`ottla consume TOPIC`: the records of a topic on standard output.

Owns: the options, where reading starts and when it ends. Never knows: fetching (`client.consumer`) and the look of
records (`record_text`).
"""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.base.vocabulary import TopicPartition
    from ottla.cli.record_text import Printer
    from ottla.client.cluster import Cluster, Topic
    from ottla.client.consumer import Consumer

BEGINNING, END = "beginning", "end"
POLL_SECONDS = 1.0
UNTIL_END_SECONDS = 0.05
"""Positions pass markers of transactions without a record to show for it."""
RECORDS_AT_ONCE = 5000


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
        partitions = choose(await cluster.topic(topic, cluster.deadline(seconds)), wanted.partitions)
        await _consume(bootstrap, partitions, wanted, printer, seconds)

    try:
        with_cluster(bootstrap, seconds, work)
    except KeyboardInterrupt:
        if until_end:
            raise
        raise typer.Exit(0) from None  # the ordinary end of following a topic


async def _consume(
    bootstrap: str, partitions: "Sequence[TopicPartition]", wanted: Wanted, printer: "Printer", seconds: float
) -> None:
    from ottla.client.consumer import Consumer

    settings = {
        "bootstrap.servers": bootstrap,
        "client.id": "ottla-cli",
        "isolation.level": "read_committed" if wanted.committed else "read_uncommitted",
        "auto.offset.reset": "none" if wanted.where.offset is not None else "earliest",
        "max.poll.records": RECORDS_AT_ONCE,
        "default.api.timeout.ms": int(seconds * 1000),
    }
    async with Consumer(settings) as consumer:
        consumer.assign(partitions)
        await _seek(consumer, partitions, wanted.where)
        await _print_all(consumer, partitions, wanted, printer)


async def _seek(consumer: "Consumer", partitions: "Sequence[TopicPartition]", where: From) -> None:
    from ottla.client.offsets import EARLIEST, LATEST

    if where.offset is not None:
        for place in partitions:
            consumer.seek(place, where.offset)
    elif where.last is not None:
        firsts = await consumer.beginning_offsets(partitions)
        for place, end in (await consumer.end_offsets(partitions)).items():
            consumer.seek(place, max(firsts[place], end - where.last))
    elif where.moment == EARLIEST:
        consumer.seek_to_beginning(*partitions)
    elif where.moment == LATEST:
        consumer.seek_to_end(*partitions)
    else:
        assert where.moment is not None
        consumer.seek_to_time(where.moment, *partitions)


async def _print_all(
    consumer: "Consumer", partitions: "Sequence[TopicPartition]", wanted: Wanted, printer: "Printer"
) -> None:
    from itertools import groupby

    from ottla.base.vocabulary import TopicPartition

    out = sys.stdout.buffer
    end = _End(consumer, await consumer.end_offsets(partitions)) if wanted.until_end else None
    left = wanted.most
    while left is None or left > 0:
        if end is not None and await end.passed():
            return
        most = RECORDS_AT_ONCE if left is None else min(left, RECORDS_AT_ONCE)
        records = await consumer.poll(POLL_SECONDS if end is None else UNTIL_END_SECONDS, most)
        for (topic, number), group in groupby(records, key=lambda record: record[:2]):
            place = TopicPartition(topic, number)
            shown = [record for record in group if end is None or record.offset < end.offsets[place]]
            left = None if left is None else left - len(shown)
            out.write(printer(place, shown))
        out.flush()


class _End:
    """Where a topic ended when reading began, and whether reading still comes nearer to it."""

    def __init__(self, consumer: "Consumer", offsets: "Mapping[TopicPartition, int]") -> None:
        self.offsets = offsets
        self._consumer = consumer
        self._read = -1
        self._moved = 0.0

    async def passed(self) -> bool:
        """Whether everything there was has been read; Failure when nothing comes any more."""
        from time import monotonic

        from ottla.cli.failures import Failure

        positions = [await self._consumer.position(place) for place in self.offsets]
        if all(position >= end for position, end in zip(positions, self.offsets.values(), strict=True)):
            return True
        if sum(positions) != self._read:
            self._read, self._moved = sum(positions), monotonic()
        elif monotonic() - self._moved > self._consumer.settings.seconds("default.api.timeout.ms"):
            raise Failure(f"the end is not reached: {self._consumer.why_idle()}")
        return False


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
