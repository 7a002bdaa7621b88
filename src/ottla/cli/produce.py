"""`ottla produce TOPIC`: lines, JSON objects, rows or whole files into a topic.

Owns: the options and what they mean together. Never knows: input (`input_lines`), sending (`sending`).
"""

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.record_schemas import PANEL, KeyMessage, KeySchema, RecordForm, ValueMessage, ValueSchema, encoder_of
from ottla.cli.record_types import NAMES_OF_TYPES, DataType
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.cli.input_lines import Common
    from ottla.client.cluster import Cluster

BATCH_BYTES = 256 * 1024
LINGER = 5
"""Milliseconds that a line waits for others to travel with."""
CREATION_SECONDS = 5.0
"""How long a topic that the broker may create by itself is waited for."""
BYTES = {"key.serializer": "bytes", "value.serializer": "bytes"}
"""Records are read as bytes, whatever a profile's programs make of theirs."""
INPUT, RECORDS, DELIVERY = "What is read", "What is sent", "How it is sent"


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
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Lines are objects with key, value, headers and timestamp.", rich_help_panel=INPUT),
    ] = False,
    as_csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            help="Rows under a heading: key, value, headers, timestamp, or what you have.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Each file, or all of standard input, is one value.", rich_help_panel=INPUT)
    ] = False,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "-K",
            metavar="TEXT",
            help="What stands between key and value in a line.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", "-k", metavar="TEXT", help="The key of records that bring none.", rich_help_panel=RECORDS
        ),
    ] = None,
    key_column: Annotated[
        str | None,
        typer.Option(
            "--key-column", metavar="NAME", help="With --csv: the column that is the key.", rich_help_panel=INPUT
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="NAME=VALUE",
            help="A header for every record; repeat for more.",
            rich_help_panel=RECORDS,
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", "-t", metavar="TIME", help="The time of records that bring none.", rich_help_panel=RECORDS
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            metavar="N",
            help="Send all to this one; else the key decides.",
            rich_help_panel=RECORDS,
        ),
    ] = None,
    null_value: Annotated[
        str | None,
        typer.Option(
            "--null-value", metavar="TEXT", help="A value written like this is sent as null.", rich_help_panel=INPUT
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter", "-D", metavar="TEXT", help="Between records instead of a line feed.", rich_help_panel=INPUT
        ),
    ] = None,
    separator: Annotated[
        str, typer.Option("--separator", metavar="CHARACTER", help="With --csv: between cells.", rich_help_panel=INPUT)
    ] = ",",
    same_partition: Annotated[
        bool,
        typer.Option(
            "--same-partition", help="With --json or --csv: to the partition each names.", rich_help_panel=RECORDS
        ),
    ] = False,
    key_type: Annotated[
        DataType,
        typer.Option(
            "--key-type", metavar="TYPE", help=f"What keys are sent as: {NAMES_OF_TYPES}.", rich_help_panel=RECORDS
        ),
    ] = DataType.TEXT,
    value_type: Annotated[
        DataType,
        typer.Option(
            "--value-type", metavar="TYPE", help="What values are sent as, likewise.", rich_help_panel=RECORDS
        ),
    ] = DataType.TEXT,
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    key_message: KeyMessage = None,
    value_message: ValueMessage = None,
    key_schema_id: Annotated[
        int | None,
        typer.Option(
            "--key-schema-id", min=0, max=2**31 - 1, metavar="N", help="The same for keys.", rich_help_panel=PANEL
        ),
    ] = None,
    value_schema_id: Annotated[
        int | None,
        typer.Option(
            "--value-schema-id",
            min=0,
            max=2**31 - 1,
            metavar="N",
            help="Put in front what schema registries do, with this number of the schema.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", min=0.001, metavar="N", help="At most so many records a second.", rich_help_panel=DELIVERY
        ),
    ] = None,
    compression: Annotated[
        CompressionName | None,
        typer.Option("--compression", "-z", help="How batches are compressed.", rich_help_panel=DELIVERY),
    ] = None,
    acks: Annotated[
        Acks | None,
        typer.Option(
            "--acks",
            show_default="all",
            help="Who must have a record before it counts as sent.",
            rich_help_panel=DELIVERY,
        ),
    ] = None,
    idempotent: Annotated[
        bool,
        typer.Option(
            "--idempotent/--no-idempotent",
            help="With acks=all: a repetition leaves no duplicate.",
            rich_help_panel=DELIVERY,
        ),
    ] = True,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id",
            metavar="ID",
            help="All in one transaction: everything arrives, or nothing.",
            rich_help_panel=DELIVERY,
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", help="Leave out lines that cannot be sent, and say how many.", rich_help_panel=INPUT
        ),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Print where each record is, one JSON object a line.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary and no progress.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="NAME=VALUE", help="A producer setting by Kafka's name; repeat for more."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Send each line of standard input or of files to a topic as a record.

    \b
    echo 'hello' | ottla produce orders
    ottla produce orders --key-separator : < orders.txt
    ottla produce users -K = --null-value ''          (ann= deletes ann)
    ottla produce orders --csv --key-column customer orders.csv
    ottla produce pictures --raw --key cat -H type=png cat.png
    ottla consume orders -e --json | ottla produce copy --json -z zstd
    seq 1000 | ottla produce load --rate 50 --set linger.ms=0
    ottla produce orders --value-type avro --value-schema order.avsc < orders.jsonl
    """
    from ottla.cli.input_lines import LineRules
    from ottla.cli.record_csv import CsvRules
    from ottla.cli.record_text import unescaped
    from ottla.cli.sending import STANDARD_INPUT, Job, Sending

    if as_json + as_csv + raw > 1:
        raise typer.BadParameter("choose one of --json, --csv and --raw")
    if (as_json or as_csv or raw) and key_separator is not None:
        raise typer.BadParameter("--key-separator is for lines: --json and --csv say themselves what is key")
    if key_separator == "" or delimiter == "":
        raise typer.BadParameter("a separator needs at least one character")
    if as_json and null_value is not None:
        raise typer.BadParameter("--json says itself what is null: leave out --null-value")
    if same_partition and (partition is not None or not (as_json or as_csv)):
        raise typer.BadParameter("--same-partition is for --json and --csv, and says itself which --partition")
    if key_column is not None and not as_csv:
        raise typer.BadParameter("--key-column is for --csv")
    null = None if null_value is None else os.fsencode(null_value)
    rules = LineRules(
        None if key_separator is None else unescaped(key_separator),
        null,
        as_json,
        CsvRules(_one_character(separator), null, key_column) if as_csv else None,
    )
    job = Job(
        Sending(topic, partition, files or [STANDARD_INPUT], rate, raw, skip_bad, report, not quiet, same_partition),
        rules,
        _common(
            header,
            key,
            timestamp,
            RecordForm("key", key_type, key_schema, key_message, schema_id=key_schema_id),
            RecordForm("value", value_type, value_schema, value_message, schema_id=value_schema_id),
        ),
        unescaped(delimiter) if delimiter else b"\n",
        _settings(bootstrap, seconds, acks, idempotent, compression, transactional_id, settings),
    )

    async def work(cluster: "Cluster") -> None:
        await cluster.topic(topic, cluster.deadline(min(seconds, CREATION_SECONDS)), create=True)
        await job.work()

    try:
        with_cluster(bootstrap, seconds, work)
    finally:
        if not quiet and job.summary:
            print(job.summary, file=sys.stderr)


def _common(
    header: list[str] | None, key: str | None, timestamp: str | None, key_form: RecordForm, value_form: RecordForm
) -> "Common":
    from ottla.cli.input_lines import Common

    return Common(
        parse_headers(header),
        None if key is None else os.fsencode(key),
        None if timestamp is None else _moment(timestamp),
        encoder_of(key_form),
        encoder_of(value_form),
    )


def _settings(
    bootstrap: str,
    seconds: float,
    acks: Acks | None,
    idempotent: bool,
    compression: CompressionName | None,
    transactional_id: str | None,
    settings: list[str] | None,
) -> dict[str, object]:
    """Those of the producer: what the command line says, then the profile, then what suits a command."""
    from ottla.cli.session import client_settings
    from ottla.cli.topic import parse_settings
    from ottla.client.settings import PRODUCER

    usual: dict[str, object] = {
        "batch.size": BATCH_BYTES,
        "max.block.ms": int(seconds * 1000),
        "request.timeout.ms": int(max(seconds, DEFAULT_SECONDS) * 1000),
        "linger.ms": LINGER,
    }
    given: dict[str, object] = dict(BYTES)
    if acks is not None:
        given["acks"] = acks.value
    if not idempotent or (acks is not None and acks is not Acks.ALL):
        given["enable.idempotence"] = False
    if compression is not None:
        given["compression.type"] = compression.value
    if transactional_id is not None:
        given["transactional.id"] = transactional_id
    named = parse_settings(settings, "--set")
    for name in named.keys() & BYTES.keys():
        raise typer.BadParameter(f"{name} is said with --key-type and --value-type here", param_hint="--set")
    chosen = client_settings(PRODUCER, bootstrap, {**given, **named}, usual)
    waits = [str(chosen[name]) for name in ("request.timeout.ms", "linger.ms")]
    if all(wait.isdigit() for wait in waits):  # what is no number is refused by its own name
        chosen.setdefault("delivery.timeout.ms", sum(map(int, waits)))
    return chosen


def _one_character(separator: str) -> str:
    from ottla.cli.record_text import unescaped

    plain = unescaped(separator).decode("utf-8", "surrogateescape")
    if len(plain) != 1:
        raise typer.BadParameter("cells are separated by one character", param_hint="--separator")
    return plain


def _moment(text: str) -> int:
    from ottla.cli.record_places import parse_where

    moment = parse_where(text, "--timestamp").moment
    if moment is None or moment < 0:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-01-31T12:00", param_hint="--timestamp")
    return moment


def parse_headers(texts: list[str] | None) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of repeated NAME=VALUE options."""
    headers = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
        headers.append((name, os.fsencode(value)))
    return tuple(headers)
