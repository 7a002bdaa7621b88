"""Records as the columns of Spark's Kafka source.

Owns: the schema, and turning a reader's columns into it. Never knows: where bytes come from.
Invariant: nothing is done row by row.
"""

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
_READ = ("key", "value", "partition", "offset", "timestamp", "timestamp_type")
_NAMES = list(_TYPES)


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
    """Records of one partition on their way to Spark."""

    def __init__(self, partition: TopicPartition, include_headers: bool) -> None:
        self._partition = partition
        self.reader = ColumnReader((*_READ, "headers") if include_headers else _READ, unit="us", most=AT_ONCE)

    @property
    def enough(self) -> bool:
        return is_enough(self.reader)

    def take(self) -> pa.RecordBatch:
        key, value, partition, offset, timestamp, kind, *headers = self.reader.finish().columns
        topic = pa.repeat(pa.scalar(self._partition.topic, pa.string()), len(offset))
        columns: list[Any] = [key, value, topic, partition, offset, timestamp, kind.cast(pa.int32())]
        columns += [_none_for_empty(lists) for lists in headers]
        return pa.RecordBatch.from_arrays(columns, names=_NAMES[: len(columns)])


def _none_for_empty(lists: pa.Array) -> pa.Array:
    """Spark's Kafka source has null where a record has no headers."""
    empty = pc.equal(pc.list_value_length(lists), 0)
    pairs = pa.StructArray.from_arrays(lists.values.flatten(), fields=_HEADER)
    return pa.ListArray.from_arrays(lists.offsets, pairs, type=_HEADERS, mask=empty)
