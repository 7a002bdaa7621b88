"""A topic as a table: the last record of each key, without those that say it is gone.

Owns: finding the last offset of each key, and leaving out the rest. Never knows: Spark, where records come from.
Invariants: a partition is read by one task, twice: first its keys, then the records that are still the last of theirs;
so memory holds the partition's keys and one batch, never its values. Records without a key are in no table.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.base.vocabulary import TopicPartition
from ottla.records.columns import ColumnReader
from ottla.spark.columns import AT_ONCE, Gatherer, Gathering, is_enough

_MERGED_AT = 256 * 1024
"""So many new keys at least are gathered before they are put to those that are known."""
Source = Callable[[Gatherer], Iterator[pa.RecordBatch]]


class KeyGathering:
    """Keys and offsets of one partition."""

    def __init__(self) -> None:
        self.reader = ColumnReader(("key", "offset"), most=AT_ONCE)

    @property
    def enough(self) -> bool:
        return is_enough(self.reader)

    def take(self) -> pa.RecordBatch:
        return self.reader.finish()


def read_table(source: Source, partition: TopicPartition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the table, of a source that gives the same records each time it is asked."""
    last = last_offsets(source(KeyGathering()))
    for batch in source(Gathering(partition, list(dict.fromkeys([*columns, "offset", "value"])))):
        offsets = batch.column("offset")
        first = bisect_left(last, offsets[0].as_py(), key=_number)
        end = bisect_right(last, offsets[len(offsets) - 1].as_py(), key=_number)
        kept = pc.is_in(offsets, value_set=last[first:end])
        rows = batch.filter(pc.and_(kept, batch.column("value").is_valid()))
        if rows.num_rows:
            yield rows.select(columns)


def last_offsets(batches: Iterator[pa.RecordBatch]) -> pa.Array:
    """Where each key was last written, in order."""
    known: pa.Table | None = None
    waiting: list[pa.Table] = []
    rows = 0
    for batch in batches:
        with_key = batch.filter(batch.column("key").is_valid())
        waiting.append(pa.table({name: with_key.column(name) for name in ("key", "offset")}))
        rows += with_key.num_rows
        if rows >= max(_MERGED_AT, known.num_rows if known else 0):
            known, waiting, rows = _merged(known, waiting), [], 0
    if waiting:
        known = _merged(known, waiting)
    if known is None:
        return pa.array([], pa.int64())
    offsets = known.column("offset").combine_chunks()
    return offsets.take(pc.sort_indices(offsets))


def _merged(known: pa.Table | None, waiting: list[pa.Table]) -> pa.Table:
    together = pa.concat_tables(waiting if known is None else [known, *waiting])
    grouped = together.group_by("key", use_threads=False).aggregate([("offset", "max")])
    return pa.table({"key": grouped.column("key"), "offset": grouped.column("offset_max")})


def _number(scalar: pa.Scalar) -> int:
    number: int = scalar.as_py()
    return number
