"""`ottla produce TOPIC`: lines or JSON objects into a topic.

Owns: the options, the summary, and which line is named when one is wrong. Never knows: batches and requests.
"""

import os
import sys
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.cli.input_lines import LineRules
    from ottla.client.cluster import Cluster
    from ottla.client.errors import ClientError
    from ottla.client.producer import Placed, Producer

BATCH_BYTES = 256 * 1024
LINGER = 5
"""Milliseconds that a line waits for others to travel with."""
CREATION_SECONDS = 5.0
"""How long a topic that the broker may create by itself is waited for."""
STANDARD_INPUT = "-"


class CompressionName(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE…", help="What to send; standard input without any, or for -.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="What stands between key and value in a line."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for every record; repeat for more."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Send all to this one; else the key decides.")
    ] = None,
    compression: Annotated[
        CompressionName, typer.Option("--compression", "-z", help="How batches are compressed.")
    ] = CompressionName.NONE,
    acks: Annotated[Acks, typer.Option("--acks", help="Who must have a record before it counts as sent.")] = Acks.ALL,
    idempotent: Annotated[
        bool, typer.Option("--idempotent/--no-idempotent", help="With acks=all: a repetition leaves no duplicate.")
    ] = True,
    null_value: Annotated[
        str | None, typer.Option("--null-value", metavar="TEXT", help="A value written like this is sent as null.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Lines are objects with key, value, headers and timestamp.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary on standard error.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Send each line of standard input or of files to a topic as a record.

    \b
    echo 'hello' | ottla produce orders
    ottla produce orders --key-separator : < orders.txt
    ottla produce users -K = --null-value ''          (ann= deletes ann)
    ottla consume orders -e --json | ottla produce copy --json -z zstd
    """
    from ottla.cli.input_lines import LineRules

    if as_json and (key_separator is not None or null_value is not None):
        raise typer.BadParameter("--json says itself what is key and null: leave out --key-separator and --null-value")
    if key_separator == "":
        raise typer.BadParameter("a separator needs at least one character", param_hint="--key-separator")
    rules = LineRules(
        None if key_separator is None else os.fsencode(key_separator),
        None if null_value is None else os.fsencode(null_value),
        parse_headers(header),
        as_json,
    )
    delivery = int(max(seconds, DEFAULT_SECONDS) * 1000)
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "client.id": "ottla-cli",
        "acks": acks.value,
        "enable.idempotence": idempotent and acks is Acks.ALL,
        "compression.type": compression.value,
        "batch.size": BATCH_BYTES,
        "max.block.ms": int(seconds * 1000),
        "delivery.timeout.ms": delivery,
        "request.timeout.ms": delivery - LINGER,
        "linger.ms": LINGER,
    }
    job = _Job(topic, partition, files or [STANDARD_INPUT], rules, settings)

    async def work(cluster: "Cluster") -> None:
        await cluster.topic(topic, cluster.deadline(min(seconds, CREATION_SECONDS)), create=True)
        await job.work()

    try:
        with_cluster(bootstrap, seconds, work)
    finally:
        if not quiet and job.summary:
            print(job.summary, file=sys.stderr)


class _Job:
    """One run of the command, and what is to be said about it afterwards, also when it ended early."""

    def __init__(
        self, topic: str, partition: int | None, files: list[str], rules: "LineRules", settings: dict[str, object]
    ) -> None:
        self.summary = ""
        self._topic = topic
        self._partition = partition
        self._files = files
        self._rules = rules
        self._settings = settings
        self._failure: ClientError | None = None

    async def work(self) -> None:
        import asyncio
        from time import monotonic

        from ottla.cli.failures import Failure
        from ottla.client.producer import Producer

        async with Producer(self._settings) as producer:
            begun = monotonic()
            try:
                try:
                    await self._send_all(producer)
                except (Failure, asyncio.CancelledError):
                    await producer.flush()  # what was read before the bad line or Ctrl-C is sent
                    raise
                await producer.flush()
                self._raise_failure()
            finally:
                self.summary = summarize(self._topic, _totals(producer.metrics()), monotonic() - begun)

    async def _send_all(self, producer: "Producer") -> None:
        from ottla.cli.failures import Failure
        from ottla.cli.input_lines import line_reader, lines_of

        read = line_reader(self._rules)
        put, settled = producer.put, self._settled
        topic, partition = self._topic, self._partition
        async for name, descriptor in _opened(self._files):
            number = 0
            async for lines in lines_of(descriptor):
                for line in lines:
                    number += 1
                    try:
                        key, value, headers, timestamp = read(line)
                    except ValueError as problem:
                        raise Failure(f"line {number} of {name} {problem}; the lines before it were sent") from None
                    sent = await put(topic, value, key, headers=headers, partition=partition, timestamp=timestamp)
                    sent.add_callback(settled)
                self._raise_failure()

    def _settled(self, placed: "Placed | None", failure: "ClientError | None") -> None:
        self._failure = self._failure or failure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _totals(metrics: dict[str, float]) -> tuple[int, int, int]:
    names = ("records_acknowledged", "bytes_acknowledged", "records_failed")
    acknowledged, size, failed = (int(metrics[name]) for name in names)
    return acknowledged, size, failed


async def _opened(files: list[str]) -> AsyncIterator[tuple[str, int]]:
    """Each input by name and descriptor."""
    from ottla.cli.failures import Failure

    for name in files:
        if name == STANDARD_INPUT:
            yield "standard input", sys.stdin.fileno()
            continue
        try:
            descriptor = os.open(name, os.O_RDONLY)
        except OSError as problem:
            raise Failure(f"cannot read {name}: {problem.strerror}") from None
        try:
            yield name, descriptor
        finally:
            os.close(descriptor)


def summarize(topic: str, totals: tuple[int, int, int], seconds: float) -> str:
    """The line at the end: how much arrived and how fast."""
    from ottla.cli.output import size_text

    records, size, failed = totals
    pace = (
        f", {records / seconds:,.0f} records/s, {size_text(int(size / seconds))}/s" if records and seconds > 0 else ""
    )
    lost = f", {failed:,} failed" if failed else ""
    plural = "" if records == 1 else "s"
    return f"sent {records:,} record{plural} ({size_text(size)}) to {topic!r} in {seconds:.2f} s{pace}{lost}"


def parse_headers(texts: list[str] | None) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of repeated NAME=VALUE options."""
    headers = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
        headers.append((name, os.fsencode(value)))
    return tuple(headers)
