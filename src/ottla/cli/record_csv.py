"""Records as comma-separated values: what `consume --csv` prints and `produce --csv` reads.

Owns: the columns, in both directions. Never knows: files, topics. Invariants: bytes that are not UTF-8 text go through
unchanged; what is printed reads back as the same key, value, headers and timestamp, as far as both sides agree on how
null is written (an empty key is none).
"""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.record_json import Input, Shown, read_headers, read_timestamp, show_bytes

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_LARGEST_CELL = 1 << 30
"""What Python's reader takes unless told otherwise is smaller than many a record."""


class CsvRules(NamedTuple):
    """How rows are written; `key_column` is the heading of the key where a row is one value."""

    separator: str = ","
    null: bytes | None = None
    key_column: str | None = None


def csv_heading(separator: str) -> bytes:
    return _row(COLUMNS, separator)


def to_csv(partition: TopicPartition, records: Sequence[Shown], separator: str, null: bytes) -> bytes:
    """Rows under `COLUMNS`; headers are a JSON list."""
    absent = _text(null)
    return b"".join(
        _row(
            (
                partition.topic,
                str(partition.partition),
                str(record.offset),
                str(record.timestamp),
                absent if record.key is None else _text(record.key),
                absent if record.value is None else _text(record.value),
                _headers(record) if record.headers else "",
            ),
            separator,
        )
        for record in records
    )


class CsvReader:
    """Rows of one file, whose first names the columns. Call it with line after line.

    A file with a column `value` has records: `key`, `headers`, `timestamp` and `partition` count as well, the rest
    does not. In any other file every row is a value, a JSON object of its columns.
    """

    def __init__(self, rules: CsvRules) -> None:
        self._rules = rules
        self._names: list[str] | None = None
        self._begun = ""
        csv.field_size_limit(_LARGEST_CELL)

    def read(self, line: bytes) -> Input | None:
        """The record that this line completes; ValueError with what is wrong with it."""
        text = self._begun + _text(line)
        if text.count('"') % 2:
            self._begun = text + "\n"
            return None
        self._begun = ""
        text = text.removesuffix("\r")
        if not text:
            return None
        try:
            cells = next(csv.reader(StringIO(text, newline=""), delimiter=self._rules.separator, strict=True))
        except csv.Error as problem:
            raise ValueError(f"is no row of comma-separated values: {problem}") from None
        if self._names is None:
            self._names = self._heading(cells)
            return None
        if len(cells) != len(self._names):
            raise ValueError(f"has {len(cells)} cells, and the heading has {len(self._names)}")
        return self._record(dict(zip(self._names, cells, strict=True)))

    def end(self) -> None:
        """After the last line."""
        if self._begun:
            raise ValueError("ends inside quotes")

    def _heading(self, names: list[str]) -> list[str]:
        wanted = self._rules.key_column
        if wanted is not None and wanted not in names:
            raise ValueError(f"names no column {wanted!r}: it has {', '.join(names)}")
        return names

    def _record(self, row: dict[str, str]) -> Input:
        key_column = self._rules.key_column
        if "value" not in row:
            key = None if key_column is None else _bytes(row[key_column])
            return Input(key, _bytes(json.dumps(row, ensure_ascii=False, separators=(",", ":"))))
        try:
            headers = json.loads(row["headers"]) if row.get("headers") else ()
        except ValueError:
            raise ValueError(f"has headers that are not JSON: {row['headers']!r}") from None
        timestamp, partition = row.get("timestamp") or None, row.get("partition") or None
        return Input(
            self._cell(row.get(key_column or "key") or None),
            self._cell(row["value"]),
            tuple(read_headers(headers)),
            read_timestamp(int(timestamp) if timestamp and timestamp.isdigit() else timestamp),
            int(partition) if partition and partition.isdigit() else None,
        )

    def _cell(self, text: str | None) -> bytes | None:
        data = None if text is None else _bytes(text)
        return None if data == self._rules.null else data


def _headers(record: Shown) -> str:
    return json.dumps([[name, show_bytes(value)] for name, value in record.headers], separators=(",", ":"))


def _row(cells: Sequence[str], separator: str) -> bytes:
    out = StringIO(newline="")
    csv.writer(out, delimiter=separator, lineterminator="\r\n").writerow(cells)  # so that it quotes both of them
    return _bytes(out.getvalue()[:-2] + "\n")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
