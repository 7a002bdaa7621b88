"""`spark.read.format("ottla")`: what is there now, once.

Owns: the steps of a batch read on the driver, and handing tasks their ranges. Never knows: how records are fetched.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.base.vocabulary import TopicPartition
from ottla.spark import segments
from ottla.spark.columns import Gathering, record_columns
from ottla.spark.errors import BadOption, each_in_one_sentence, in_one_sentence
from ottla.spark.filters import Narrowing, narrow
from ottla.spark.formats.rows import RowShape
from ottla.spark.options import SourceOptions
from ottla.spark.plan import Range, cut, ranges_between
from ottla.spark.positions import BEGINNING, END, Offsets
from ottla.spark.reading import read_range
from ottla.spark.survey import Survey
from ottla.spark.tables import Source, read_table


class RangePartition(InputPartition):
    """What one task reads; a stream says of which topic among all of that name."""

    def __init__(self, wanted: Range, topic_id: str = "") -> None:
        self.wanted = wanted
        self.topic_id = topic_id


class BatchReader(DataSourceReader):
    """One batch read."""

    def __init__(self, options: SourceOptions, shape: RowShape | None = None, columns: Sequence[str] = ()) -> None:
        """Rows are these columns of a record (without any: all), or what a shape makes of all of them."""
        self._options = options
        self._columns = list(columns or record_columns(options.include_headers))
        self._shape = shape
        self._narrowing = Narrowing()

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        starts, ends = self._from_disk() if options.path else self._from_cluster()
        if options.table and not options.path:
            # Spark plans the tasks of a table once for all batches of a stream: what there is, each task finds out.
            return [RangePartition(Range(each, starts[each], ends[each])) for each in sorted(ends)]
        ranges = self._narrowing.apply(ranges_between(starts, ends))
        return [RangePartition(each) for each in cut(ranges, options.min_partitions, options.max_records)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, where there was nothing to share
            return iter(())
        options, wanted = self._options, partition.wanted
        read = segments.read_segments if options.path else read_range
        if options.table:
            wanted = wanted if options.path else self._as_it_is(wanted.partition)
            source: Source = lambda gathering: read(options, wanted, gathering)  # noqa: E731 — read twice
            records = read_table(source, wanted.partition, self._columns) if wanted.size else iter(())
        else:
            records = read(options, wanted, Gathering(wanted.partition, self._columns))
        return each_in_one_sentence(records if self._shape is None else self._shape.rows(records))

    def _from_cluster(self) -> tuple[Offsets, Offsets]:
        survey = Survey(self._options)
        chosen = [partition for partition in survey.partitions() if self._narrowing.passes(partition)]
        ends = survey.end(self._options.ending, chosen)
        starts = survey.start(self._options.starting, chosen)
        since = self._narrowing.since
        if since is not None:
            later = survey.first_at(dict.fromkeys(chosen, since))
            starts = {each: max(starts[each], later.get(each, ends[each])) for each in chosen}
        return starts, ends

    def _as_it_is(self, partition: TopicPartition) -> Range:
        """What a partition holds at this moment."""
        survey = Survey(self._options)
        end = survey.end(self._options.ending, [partition])[partition]
        return Range(partition, survey.start(self._options.starting, [partition])[partition], end)

    def _from_disk(self) -> tuple[Offsets, Offsets]:
        options = self._options
        if options.starting != BEGINNING or options.ending != END:
            raise BadOption("path reads whole partitions: filter by offset or timestamp instead of naming offsets")
        starts, ends = segments.extents(options)
        since = self._narrowing.since
        if since is not None:
            moments: dict[TopicPartition, int] = dict.fromkeys(starts, since)
            later = segments.first_at(options, moments)
            starts = {each: max(starts[each], later.get(each, ends[each])) for each in starts}
        return starts, ends


class FilteringReader(BatchReader):
    """Reads less where the query asks for less. Spark refuses such a reader in sessions that do not push filters."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 — Spark's name
        names = self._shape.record if self._shape else {name: name for name in self._columns}
        if self._options.table:  # what is last is not known before everything is read
            names = {column: name for column, name in names.items() if name in ("topic", "partition")}
        self._narrowing, left = narrow(filters, names)
        return left
