"""`spark.readStream.format("ottla")`: batch after batch.

Owns: how far each trigger goes, partitions that appear and disappear, telling a group how far the query is.
Never knows: how records are fetched.
Invariants: an offset that Spark was told never goes back; a new partition is read from its beginning; with
Trigger.AvailableNow nothing is read that came after the start of the query.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.spark.batch_reader import RangePartition
from ottla.spark.columns import Gathering, record_columns
from ottla.spark.errors import each_in_one_sentence, in_one_sentence
from ottla.spark.formats.rows import RowShape
from ottla.spark.options import SourceOptions
from ottla.spark.plan import cut, limit_bytes, limit_rows, ranges_between
from ottla.spark.positions import Offsets, from_checkpoint, to_checkpoint
from ottla.spark.reading import read_range
from ottla.spark.survey import Survey

Checkpoint = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module. The driver keeps one for as long as a query runs; tasks get a copy of the options only."""

    def __init__(self, options: SourceOptions, shape: RowShape | None = None, columns: Sequence[str] = ()) -> None:
        self._options = options
        self._columns = list(columns or record_columns(options.include_headers))
        self._shape = shape
        self._survey: Survey | None = None
        self._target: Offsets | None = None
        """Where AvailableNow ends."""
        self._seen: Offsets | None = None
        self._told: Offsets | None = None
        self._last_trigger: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns, "_shape": self._shape, "_survey": None}

    # --- on the driver ------------------------------------------------------------------------------------------------

    @in_one_sentence
    def initialOffset(self) -> Checkpoint:  # noqa: N802 — Spark's names, here and below
        survey = self._surveyor()
        return to_checkpoint(survey.start(self._options.starting, survey.partitions()))

    @in_one_sentence
    def latestOffset(self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit) -> Checkpoint:  # noqa: N802
        starts = from_checkpoint(start)
        self._tell_group(starts)
        ends = self._ends(starts)
        self._seen = ends
        begun = self._with_new(starts, ends)
        return to_checkpoint(self._admit(begun, ends, limit))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limits = self._options.limits
        if limits.max_rows:
            return ReadMaxRows(limits.max_rows)
        if limits.max_bytes:
            return ReadMaxBytes(limits.max_bytes)
        return ReadMinRows(limits.min_rows) if limits.min_rows else ReadAllAvailable()

    def reportLatestOffset(self) -> Checkpoint | None:  # noqa: N802
        return None if self._seen is None else to_checkpoint(self._seen)

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        survey = self._surveyor()
        self._target = survey.ends(survey.partitions())

    @in_one_sentence
    def partitions(self, start: Checkpoint, end: Checkpoint) -> Sequence[InputPartition]:
        starts, ends = from_checkpoint(start), from_checkpoint(end)
        ranges = ranges_between(self._with_new(starts, ends), ends)
        return [RangePartition(each) for each in cut(ranges, self._options.min_partitions, self._options.max_records)]

    def commit(self, end: Checkpoint) -> None:
        self._tell_group(from_checkpoint(end))

    def _surveyor(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(self._options)
        return self._survey

    def _ends(self, starts: Offsets) -> Offsets:
        """Where everything ends now; a partition that is gone stays where it was, if that is allowed."""
        survey = self._surveyor()
        ends = dict(self._target) if self._target is not None else survey.ends(survey.partitions())
        for partition, start in starts.items():
            if partition not in ends:
                if self._target is None:
                    survey.lost(f"partition {partition} is gone, or no longer chosen; it was read up to {start}")
                ends[partition] = start
            elif ends[partition] < start:
                if self._target is None:
                    survey.lost(f"partition {partition} ends at {ends[partition]}; it was read up to {start}")
                ends[partition] = start
        return ends

    def _with_new(self, starts: Offsets, ends: Offsets) -> Offsets:
        new = [partition for partition in ends if partition not in starts]
        return starts | self._surveyor().beginnings(new)

    def _admit(self, starts: Offsets, ends: Offsets, limit: ReadLimit) -> Offsets:
        survey, limits = self._surveyor(), self._options.limits
        now = survey.time()
        waiting = sum(each.size for each in ranges_between(starts, ends))
        if self._last_trigger is None:
            self._last_trigger = now
        everything = isinstance(limit, ReadAllAvailable)
        early = now - self._last_trigger < limits.max_delay
        if waiting < limits.min_rows and early and self._target is None and not everything:
            return starts
        self._last_trigger = now
        if isinstance(limit, ReadMaxRows):
            ends = limit_rows(starts, ends, limit.max_rows)
        if limits.max_bytes and not everything:
            busy = {each.partition: each.start for each in ranges_between(starts, ends)}
            ends = limit_bytes(starts, ends, limits.max_bytes, survey.record_bytes(busy))
        return ends

    def _tell_group(self, offsets: Offsets) -> None:
        if self._options.group and offsets != self._told:
            self._surveyor().commit(self._options.group, offsets)
            self._told = offsets

    # --- in tasks -----------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        gathering = Gathering(partition.wanted.partition, self._columns)
        records = read_range(self._options, partition.wanted, gathering)
        return each_in_one_sentence(records if self._shape is None else self._shape.rows(records))
