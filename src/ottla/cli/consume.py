"""`ottla consume TOPIC`: the records of topics on standard output.

Owns: the options and what they mean together. Never knows: reading (`reading`), which records are wanted
(`record_filter`) and how they look (`record_text`).
"""

import os
import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ottla.cli.record_places import BEGINNING, END
from ottla.cli.record_schemas import (
    PANEL,
    KeyMessage,
    KeySchema,
    RecordForm,
    ValueMessage,
    ValueSchema,
    check_framing,
    decoder_of,
)
from ottla.cli.record_types import NAMES_OF_TYPES, DataType
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, Bootstrap, Seconds, with_cluster

if TYPE_CHECKING:
    from ottla.cli.record_filter import Expression, Keep
    from ottla.cli.record_places import Where
    from ottla.cli.record_text import Printer
    from ottla.client.cluster import Cluster

RECORDS_AT_ONCE = 5000
BYTES = {"key.deserializer": "bytes", "value.deserializer": "bytes"}
"""Records are printed from their bytes, whatever a profile's programs make of them."""
PLACES, FILTERS, LOOKS = "Where to begin and end", "Which records", "How they are printed"


def consume(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC…", help="What to read; ^PATTERN is all topics it matches.")
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            "-f",
            metavar="WHERE",
            show_default=BEGINNING,
            help="beginning, end, an offset, -N for the last N, a time, or how long ago, as 15m.",
            rich_help_panel=PLACES,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            "-u",
            metavar="WHERE",
            help="End there, at the latest where the topic ends now.",
            rich_help_panel=PLACES,
        ),
    ] = None,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end",
            "-e",
            help="End where the topic ended when this started; else follow it.",
            rich_help_panel=PLACES,
        ),
    ] = False,
    most: Annotated[
        int | None,
        typer.Option("--max", "-n", min=0, metavar="N", help="End after so many records.", rich_help_panel=PLACES),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(
            "--idle",
            min=0.0,
            metavar="SECONDS",
            help="End when nothing came for so long.",
            rich_help_panel=PLACES,
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", min=0, metavar="N", help="Only this one; repeat for more.", rich_help_panel=PLACES
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Read as a member: go on where the group is, commit what was shown.",
            rich_help_panel=PLACES,
        ),
    ] = None,
    where_key: Annotated[
        str | None,
        typer.Option("--where-key", metavar="TEXT", help="Only records with this key.", rich_help_panel=FILTERS),
    ] = None,
    where_header: Annotated[
        list[str] | None,
        typer.Option(
            "--where-header",
            metavar="NAME[=VALUE]",
            help="Only records with this header; repeat for more.",
            rich_help_panel=FILTERS,
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "-w",
            metavar="EXPRESSION",
            help="Only records for which this Python is true.",
            rich_help_panel=FILTERS,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a record.", rich_help_panel=LOOKS)] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Rows of all there is of a record, under a heading.", rich_help_panel=LOOKS)
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Values alone, nothing between them.", rich_help_panel=LOOKS)
    ] = False,
    template: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-F",
            metavar="TEXT",
            help="Own lines, as in '{partition}:{offset} {key} {value}\\n'.",
            rich_help_panel=LOOKS,
        ),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Show keys.", rich_help_panel=LOOKS)] = False,
    headers: Annotated[bool, typer.Option("--headers", "-H", help="Show headers.", rich_help_panel=LOOKS)] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", "-t", help="Show times.", rich_help_panel=LOOKS)] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", "-o", help="Show partition:offset.", rich_help_panel=LOOKS)
    ] = False,
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator", metavar="TEXT", help="Between columns instead of a tab, or a comma.", rich_help_panel=LOOKS
        ),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="After each record.", rich_help_panel=LOOKS)
    ] = "\\n",
    null_value: Annotated[
        str | None,
        typer.Option(
            "--null-value",
            metavar="TEXT",
            show_default="null",
            help="How a key or value that is null is written.",
            rich_help_panel=LOOKS,
        ),
    ] = None,
    key_type: Annotated[
        DataType,
        typer.Option("--key-type", metavar="TYPE", help=f"What keys are: {NAMES_OF_TYPES}.", rich_help_panel=LOOKS),
    ] = DataType.TEXT,
    value_type: Annotated[
        DataType, typer.Option("--value-type", metavar="TYPE", help="What values are, likewise.", rich_help_panel=LOOKS)
    ] = DataType.TEXT,
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    key_message: KeyMessage = None,
    value_message: ValueMessage = None,
    framed: Annotated[
        bool,
        typer.Option("--framed", help="Behind the bytes that schema registries put in front.", rich_help_panel=PANEL),
    ] = False,
    committed: Annotated[
        bool, typer.Option("--committed", help="Only records of committed transactions.", rich_help_panel=PLACES)
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="NAME=VALUE", help="A consumer setting by Kafka's name; repeat for more."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Print the records of topics, one a line. Follows the topics until Ctrl-C unless told where to end.

    \b
    ottla consume orders                        all there is, and what comes
    ottla consume orders --until-end --keys
    ottla consume orders --from end --max 1     the next one
    ottla consume orders --from -10 -e          the last ten of each partition
    ottla consume orders --from 2026-01-31T12:00 --until 2026-01-31T13:00 --json
    ottla consume orders --group billing        shared with others, and remembered
    ottla consume orders -e --where-key ann --where-header source=web
    ottla consume orders -e --where "value['amount'] > 10 and time.hour < 8"
    ottla consume orders -e -F '{time} {key}={value}\\n'
    ottla consume '^order' -e --csv > orders.csv
    ottla consume orders --value-type avro --value-schema order.avsc --framed

    \b
    --format fills in {topic} {partition} {offset} {timestamp} {time} {key}
             {value} {headers} {header:NAME} {key_size} {value_size}
    --where  sees topic partition offset timestamp time key value text headers
             raw_key raw_value, and re json datetime timedelta UTC;
             value is what the JSON says, where it is JSON
    """
    from ottla.cli.reading import ReadRequest, Showing, read
    from ottla.cli.record_places import parse_where

    expression = _expression(where)
    keep = _keep(where_key, where_header, expression)
    formats = _Formats(as_json, as_csv, raw, template)
    printer = _printer(formats, (offsets, timestamps, keys, headers), separator, delimiter, null_value)
    if until_end and until is not None:
        raise typer.BadParameter("choose one of --until and --until-end")
    begin = parse_where(start or BEGINNING, "--from")
    last = END if until_end else until
    end = None if last is None else parse_where(last, "--until")
    if group is not None:
        _check_group(start, partition)
    wanted = ReadRequest(topics, partition or (), begin, end, most, group is not None, idle)
    forms = (
        RecordForm("key", key_type, key_schema, key_message, framed),
        RecordForm("value", value_type, value_schema, value_message, framed),
    )
    check_framing(framed, *forms)
    showing = Showing(decoder_of(forms[0]), decoder_of(forms[1]), keep, printer)
    chosen = _settings(bootstrap, seconds, begin, group, committed, settings)

    async def work(cluster: "Cluster") -> None:
        await read(cluster, chosen, wanted, showing, seconds)

    try:
        with_cluster(bootstrap, seconds, work)
    except KeyboardInterrupt:
        if end is not None:
            raise
        raise typer.Exit(0) from None  # the ordinary end of following a topic
    finally:
        complaint = expression.complaint() if expression is not None else None
        if complaint:
            print(f"ottla: {complaint}", file=sys.stderr)


class _Formats(NamedTuple):
    """How records are printed; at most one of them."""

    as_json: bool
    as_csv: bool
    raw: bool
    template: str | None


def _printer(
    formats: _Formats,
    columns: tuple[bool, bool, bool, bool],
    separator: str | None,
    delimiter: str,
    null_value: str | None,
) -> "Printer":
    from ottla.cli.output import takes_colours
    from ottla.cli.record_text import TextRules, csv_printer, format_printer, json_printer, text_printer, unescaped

    if formats.as_json + formats.as_csv + formats.raw + (formats.template is not None) > 1:
        raise typer.BadParameter("choose one of --json, --csv, --raw and --format")
    if formats.as_json:
        return json_printer()
    if formats.as_csv:
        between = unescaped(separator or ",").decode("utf-8", "surrogateescape")
        if len(between) != 1:
            raise typer.BadParameter("cells are separated by one character", param_hint="--separator")
        return csv_printer(between, os.fsencode(null_value or ""))
    null = os.fsencode("null" if null_value is None else null_value)
    if formats.template is not None:
        try:
            return format_printer(formats.template, null)
        except ValueError as problem:
            raise typer.BadParameter(str(problem), param_hint="--format") from None
    between_columns = unescaped("\t" if separator is None else separator)
    after = b"" if formats.raw else unescaped(delimiter)
    return text_printer(TextRules(*columns, between_columns, null, after, takes_colours()))


def _expression(text: str | None) -> "Expression | None":
    from ottla.cli.record_filter import Expression

    try:
        return None if text is None else Expression(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem), param_hint="--where") from None


def _keep(key: str | None, headers: list[str] | None, expression: "Expression | None") -> "Keep | None":
    from ottla.cli.record_filter import chosen

    wanted: list[tuple[str, bytes | None]] = []
    for text in headers or ():
        name, equals, value = text.partition("=")
        wanted.append((name, os.fsencode(value) if equals else None))
    return chosen(None if key is None else os.fsencode(key), wanted, expression)


def _check_group(start: str | None, partitions: list[int] | None) -> None:
    if partitions:
        raise typer.BadParameter("a group says itself who reads which --partition")
    if start not in (None, BEGINNING, END):
        raise typer.BadParameter(
            f"a group that has committed nothing starts at the {BEGINNING} or {END}; "
            "'ottla group reset' moves one that has",
            param_hint="--from",
        )


def _settings(
    bootstrap: str, seconds: float, begin: "Where", group: str | None, committed: bool, settings: list[str] | None
) -> dict[str, object]:
    """Those of the consumer: what the command line says, then the profile, then what suits a command."""
    from ottla.cli.session import client_settings
    from ottla.cli.topic import parse_settings
    from ottla.client.offsets import LATEST
    from ottla.client.settings import CONSUMER

    reset = "none" if begin.offset is not None else "latest" if begin.moment == LATEST else "earliest"
    usual: dict[str, object] = {
        "max.poll.records": RECORDS_AT_ONCE,
        "default.api.timeout.ms": int(seconds * 1000),
        "auto.offset.reset": reset,
    }
    given: dict[str, object] = {"group.id": group, **BYTES}
    if begin.offset is not None:
        given["auto.offset.reset"] = reset  # another place than the one that was asked for would be a surprise
    if committed:
        given["isolation.level"] = "read_committed"
    chosen = parse_settings(settings, "--set")
    for name in chosen.keys() & BYTES.keys():
        raise typer.BadParameter(f"{name} is said with --key-type and --value-type here", param_hint="--set")
    return client_settings(CONSUMER, bootstrap, {**given, **chosen}, usual)
