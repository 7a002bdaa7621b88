"""Records as lines of bytes.

Owns: the columns of the plain output and the placeholders of `--format`. Never knows: where records come from.
Invariant: keys and values go out as the very bytes they are.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from ottla.base.vocabulary import TopicPartition
from ottla.cli.record_json import Shown, to_json
from ottla.records.record import Headers

Printer: TypeAlias = Callable[[TopicPartition, Sequence[Shown]], bytes]

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_PIECE = re.compile(r"\{(?P<name>[a-z_]*)(?::(?P<header>[^}]*))?\}|\\(?P<escape>.)", re.DOTALL)
_COLOURS = {"place": b"\x1b[2m", "time": b"\x1b[2m", "headers": b"\x1b[35m", "key": b"\x1b[36m"}
_PLAIN = b"\x1b[0m"
_Piece: TypeAlias = Callable[[TopicPartition, Shown], bytes]


class TextRules(NamedTuple):
    """What a line shows beside the value, how null is written, and whether what is beside the value has colours."""

    partition: bool = False
    timestamp: bool = False
    key: bool = False
    headers: bool = False
    separator: bytes = b"\t"
    null: bytes = b"null"
    delimiter: bytes = b"\n"
    coloured: bool = False


def json_printer() -> Printer:
    return lambda partition, records: b"".join(to_json(partition, record) for record in records)


def csv_printer(separator: str, null: bytes) -> Printer:
    """Rows under one heading, which comes before the first."""
    from ottla.cli.record_csv import csv_heading, to_csv

    heading = csv_heading(separator)

    def show(partition: TopicPartition, records: Sequence[Shown]) -> bytes:
        nonlocal heading
        before, heading = heading, b""
        return before + to_csv(partition, records, separator, null)

    return show


def text_printer(rules: TextRules) -> Printer:
    """Columns in a fixed order, one line a record."""
    null, delimiter = rules.null, rules.delimiter
    columns = _columns(rules)
    if not columns:
        return lambda _, records: b"".join([(null if r.value is None else r.value) + delimiter for r in records])
    columns.append(_FIELDS["value"](null))
    separator = rules.separator

    def show(partition: TopicPartition, records: Sequence[Shown]) -> bytes:
        return b"".join([separator.join([column(partition, r) for column in columns]) + delimiter for r in records])

    return show


def _columns(rules: TextRules) -> list[_Piece]:
    wanted = [("place", rules.partition), ("time", rules.timestamp), ("headers", rules.headers), ("key", rules.key)]
    columns = [(name, _FIELDS[name](rules.null)) for name, chosen in wanted if chosen]
    return [_coloured(_COLOURS[name], piece) if rules.coloured else piece for name, piece in columns]


def _coloured(colour: bytes, piece: _Piece) -> _Piece:
    return lambda partition, record: colour + piece(partition, record) + _PLAIN


def format_printer(template: str, null: bytes) -> Printer:
    """Records by a template: {key}, {value} … are filled in, \\n and \\t are what they are in most languages.

    ValueError with a sentence when the template names something that is not there.
    """
    pieces: list[_Piece] = []
    end = 0
    for found in _PIECE.finditer(template):
        pieces += _literal(template[end : found.start()])
        end = found.end()
        name, escape = found["name"], found["escape"]
        if escape is not None:
            pieces += _literal(_ESCAPES.get(escape, escape))
        elif found["header"] and name == "header":
            pieces.append(_header(found["header"], null))
        elif name in _FIELDS and found["header"] is None:
            pieces.append(_FIELDS[name](null))
        else:
            known = ", ".join(f"{{{field}}}" for field in (*_FIELDS, "header:NAME"))
            raise ValueError(f"{found[0]} is none of {known}")
    pieces += _literal(template[end:])
    if not re.search(r"(?<!\\)\{", template):
        raise ValueError(f"{template!r} shows nothing of a record; --json, --csv and --raw are formats by name")
    return lambda partition, records: b"".join(piece(partition, record) for record in records for piece in pieces)


def unescaped(text: str) -> bytes:
    """What an option means in which \\n, \\t, \\0 … stand for bytes that are hard to type; other text is as it is."""
    plain = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)
    return plain.encode("utf-8", "surrogateescape")


def _header(name: str, null: bytes) -> _Piece:
    """The last header of a name, which is the one that counts where a record has several."""

    def show(_: TopicPartition, record: Shown) -> bytes:
        last = next((value for found, value in reversed(record.headers) if found == name), None)
        return null if last is None else last

    return show


def _literal(text: str) -> list[_Piece]:
    data = text.encode("utf-8", "surrogateescape")
    return [lambda _, __: data] if data else []


def time_text(timestamp: int) -> str:
    """ISO time in UTC with milliseconds; the bare number when no calendar has it."""
    try:
        moment = datetime.fromtimestamp(timestamp // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(timestamp)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp % 1000:03d}Z"


def _headers_text(headers: Headers, null: bytes) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (null if value is None else value) for name, value in headers
    )


_FIELDS: dict[str, Callable[[bytes], _Piece]] = {
    "topic": lambda _: lambda partition, __: partition.topic.encode(),
    "partition": lambda _: lambda partition, __: b"%d" % partition.partition,
    "offset": lambda _: lambda __, record: b"%d" % record.offset,
    "place": lambda _: lambda partition, record: b"%d:%d" % (partition.partition, record.offset),
    "timestamp": lambda _: lambda __, record: b"%d" % record.timestamp,
    "time": lambda _: lambda __, record: time_text(record.timestamp).encode(),
    "key": lambda null: lambda _, record: null if record.key is None else record.key,
    "value": lambda null: lambda _, record: null if record.value is None else record.value,
    "headers": lambda null: lambda _, record: _headers_text(record.headers, null),
    "key_size": lambda _: lambda __, record: b"%d" % (-1 if record.key is None else len(record.key)),
    "value_size": lambda _: lambda __, record: b"%d" % (-1 if record.value is None else len(record.value)),
}
