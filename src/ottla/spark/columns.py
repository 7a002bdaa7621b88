"""Records as the columns of Spark's Kafka source.

Owns: the schema, and turning a reader's columns into it. Never knows: where bytes come from.
Invariant: nothing is done row by row.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla.base.vocabulary import TopicPartition
from ottla.records.columns import ColumnReader, Most

_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
_HEADER = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
_HEADERS = pa.list_(pa.field("element", pa.struct(_HEADER)))

AT_ONCE = Most(64 * 1024, 8 * 1024 * 1024)
"""What one batch for Spark has at least, where there is enough, and exceeds by one batch of records at most."""
_READER_NAMES = {"timestampType": "timestamp_type"}
"""Columns that the codec calls otherwise."""


def record_columns(include_headers: bool) -> dict[str, str]:
    """The columns of a record, with their types as Spark writes them."""
    return {name: kind for name, kind in _TYPES.items() if include_headers or name != "headers"}


class Gatherer(Protocol):
    """What takes a partition's records as they are fetched."""

    reader: ColumnReader

    @property
    def enough(self) -> bool:
        """Whether it is time to take."""

    def take(self) -> pa.RecordBatch: ...


def is_enough(reader: ColumnReader) -> bool:
    """Whether a reader holds as much as one batch of rows should."""
    return reader.rows >= AT_ONCE.rows or reader.size >= AT_ONCE.size


class Gathering:
    """Records of one partition on their way to Spark, as these columns: what is not among them is not even copied."""

    def __init__(self, partition: TopicPartition, columns: Iterable[str]) -> None:
        self._topic = pa.scalar(partition.topic, pa.string())
        self._columns = list(columns)
        read = {_READER_NAMES.get(name, name) for name in self._columns if name != "topic"}
        self.reader = ColumnReader(sorted(read or {"offset"}), unit="us", most=AT_ONCE)

    @property
    def enough(self) -> bool:
        return is_enough(self.reader)

    def take(self) -> pa.RecordBatch:
        found = self.reader.finish()
        return pa.RecordBatch.from_arrays([self._column(name, found) for name in self._columns], names=self._columns)

    def _column(self, name: str, found: pa.RecordBatch) -> Any:
        if name == "topic":
            return pa.repeat(self._topic, found.num_rows)
        column = found.column(_READER_NAMES.get(name, name))
        if name == "timestampType":
            return column.cast(pa.int32())
        return _none_for_empty(column) if name == "headers" else column


def _none_for_empty(lists: pa.Array) -> pa.Array:
    """Spark's Kafka source has null where a record has no headers."""
    empty = pc.equal(pc.list_value_length(lists), 0)
    pairs = pa.StructArray.from_arrays(lists.values.flatten(), fields=_HEADER)
    return pa.ListArray.from_arrays(lists.offsets, pairs, type=_HEADERS, mask=empty)
