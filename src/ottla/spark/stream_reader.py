"""`spark.readStream.format("ottla")`: batch after batch.

Owns: how far each trigger goes, partitions that appear and disappear, telling a group how far the query is.
Never knows: how records are fetched.
Invariants: every trigger judges whether the query can go on where its checkpoint says; an offset that Spark was told
goes back only where the log behind it is another one or was cut, and the user allows for that; the offset in which a
partition appears carries where it began, so that a batch that is run again is the same batch; a new partition is read
from its beginning; with Trigger.AvailableNow nothing is read that came after the start of the query.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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

from ottla.base.vocabulary import TopicPartition
from ottla.spark.batch_reader import RangePartition
from ottla.spark.columns import Gathering, record_columns
from ottla.spark.continuity import Onwards, find_breaks
from ottla.spark.errors import each_in_one_sentence, in_one_sentence
from ottla.spark.formats.rows import RowShape
from ottla.spark.options import SourceOptions
from ottla.spark.plan import cut, limit_bytes, limit_rows, ranges_between
from ottla.spark.positions import Offsets, Reached, from_checkpoint, to_checkpoint
from ottla.spark.reading import read_range
from ottla.spark.survey import Survey

Checkpoint = dict[str, Any]


class _There(NamedTuple):
    """What a cluster has."""

    ends: Offsets
    ids: Mapping[str, str]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query's source.

    The driver keeps one for as long as a query runs; tasks get a copy of the options only.
    """

    def __init__(self, options: SourceOptions, shape: RowShape | None = None, columns: Sequence[str] = ()) -> None:
        self._options = options
        self._columns = list(columns or record_columns(options.include_headers))
        self._shape = shape
        self._survey: Survey | None = None
        self._target: _There | None = None
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
        partitions = survey.partitions()
        offsets = survey.start(self._options.starting, partitions)
        return to_checkpoint(Reached(offsets, survey.topic_ids(partitions), initial=True))

    @in_one_sentence
    def latestOffset(self, start: Checkpoint, limit: ReadLimit) -> Checkpoint:  # noqa: N802
        reached = from_checkpoint(start)
        self._tell_group(reached.offsets)
        there = self._target or self._there()
        ends, elsewhere = self._go_on(reached, there)
        self._seen = ends
        elsewhere |= self._beginnings(partition for partition in ends if partition not in reached.offsets)
        begun = reached.offsets | elsewhere
        starts = {partition: begun[partition] for partition in ends}
        admitted = self._admit(starts, ends, limit)
        if admitted is None or (admitted == reached.offsets and not elsewhere):
            return dict(start)  # word for word: to Spark anything else is a new batch
        ids = {**reached.ids, **there.ids}
        kept = {topic: ids[topic] for topic in sorted({each.topic for each in admitted}) if topic in ids}
        return to_checkpoint(Reached(admitted, kept, starts if reached.initial else elsewhere))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limits = self._options.limits
        if limits.max_rows:
            return ReadMaxRows(limits.max_rows)
        if limits.max_bytes:
            return ReadMaxBytes(limits.max_bytes)
        return ReadMinRows(limits.min_rows) if limits.min_rows else ReadAllAvailable()

    def reportLatestOffset(self) -> Checkpoint | None:  # noqa: N802
        return None if self._seen is None else to_checkpoint(Reached(self._seen))

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._there()

    @in_one_sentence
    def partitions(self, start: Checkpoint, end: Checkpoint) -> Sequence[InputPartition]:
        reached = from_checkpoint(end)
        starts = from_checkpoint(start).offsets | dict(reached.begun)
        # a checkpoint of somebody else does not tell where partitions began
        starts |= self._beginnings(partition for partition in reached.offsets if partition not in starts)
        pieces = cut(ranges_between(starts, reached.offsets), self._options.min_partitions, self._options.max_records)
        return [RangePartition(each, reached.ids.get(each.partition.topic, "")) for each in pieces]

    def commit(self, end: Checkpoint) -> None:
        self._tell_group(from_checkpoint(end).offsets)

    def _surveyor(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(self._options)
        return self._survey

    def _there(self) -> _There:
        survey = self._surveyor()
        partitions = survey.partitions(begun=True)
        ids = survey.topic_ids(partitions)
        return _There(survey.ends(partitions), ids)

    def _go_on(self, reached: Reached, there: _There) -> tuple[Offsets, Offsets]:
        """Where everything ends, and where those go on that cannot where they were, if that is allowed."""
        survey = self._surveyor()
        ends = {each: max(end, reached.offsets.get(each, end)) for each, end in there.ends.items()}
        written = survey.written(each for each, end in there.ends.items() if end < ends[each])
        breaks = find_breaks(reached, there.ends, written, there.ids)
        for each in breaks:
            survey.lost(each.said)
        elsewhere: Offsets = survey.beginnings(each.partition for each in breaks if each.onwards is Onwards.BEGINNING)
        for partition, _, onwards in breaks:
            if onwards is Onwards.WAIT:
                ends[partition] = reached.offsets[partition]
            elif onwards is not Onwards.NOWHERE:
                ends[partition] = there.ends[partition]
                elsewhere.setdefault(partition, there.ends[partition])
        return ends, elsewhere

    def _beginnings(self, new: Iterable[TopicPartition]) -> Offsets:
        found = self._surveyor().beginnings(new)
        for partition, offset in found.items():
            if offset:
                self._surveyor().lost(f"partition {partition} is new and begins at {offset} instead of 0")
        return found

    def _admit(self, starts: Offsets, ends: Offsets, limit: ReadLimit) -> Offsets | None:
        """How far the next batch goes; None when it is too early for one."""
        survey, limits = self._surveyor(), self._options.limits
        now = survey.time()
        waiting = sum(each.size for each in ranges_between(starts, ends))
        if self._last_trigger is None:
            self._last_trigger = now
        everything = isinstance(limit, ReadAllAvailable)
        early = now - self._last_trigger < limits.max_delay
        if waiting < limits.min_rows and early and self._target is None and not everything:
            return None
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
        records = read_range(self._options, partition.wanted, gathering, partition.topic_id)
        return each_in_one_sentence(records if self._shape is None else self._shape.rows(records))
