"""The format `ottla` as Spark knows it.

Owns: the name, the schema, and which reader or writer serves. Never knows: what they do.
"""

import sys
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.spark.batch_reader import BatchReader, FilteringReader
from ottla.spark.columns import record_columns
from ottla.spark.errors import BadOption, in_one_sentence
from ottla.spark.formats.encoding import encoder_of
from ottla.spark.formats.options import parse_form
from ottla.spark.formats.rows import RowShape, shape_of
from ottla.spark.formats.schemas import columns_ddl, typed_schema
from ottla.spark.options import SourceOptions, parse_source, source_options, truth
from ottla.spark.sink import BatchWriter, ExactStreamWriter, PlainStreamWriter
from ottla.spark.sink_options import SinkOptions, parse_sink
from ottla.spark.stream_reader import StreamReader

_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""What a Python process of Spark's runs when there are filters to push, in a session that does so."""


class OttlaDataSource(DataSource):
    """Topics as tables and streams."""

    def __init__(self, options: Any) -> None:
        self.options = {key.lower(): value for key, value in options.items()}

    @classmethod
    def name(cls) -> str:
        return "ottla"

    @in_one_sentence
    def schema(self) -> str:
        given = source_options(self.options)
        form, headers = parse_form(given), truth(given, "includeHeaders", False)
        return columns_ddl(record_columns(headers)) if form is None else typed_schema(form, headers)

    @in_one_sentence
    def reader(self, schema: StructType) -> BatchReader:
        options = parse_source(self.options, streaming=False)
        kind = FilteringReader if _PUSHING in sys.modules else BatchReader
        return kind(options, *_rows(options, schema))

    @in_one_sentence
    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 — Spark's name
        options = parse_source(self.options, streaming=True)
        return StreamReader(options, *_rows(options, schema))

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise BadOption("a topic cannot be overwritten: write with mode append")
        return BatchWriter(self._sink(schema, streaming=False))

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> ExactStreamWriter | PlainStreamWriter:  # noqa: N802
        options = self._sink(schema, streaming=True)
        return ExactStreamWriter(options) if options.exactly_once else PlainStreamWriter(options)

    def _sink(self, schema: StructType, *, streaming: bool) -> SinkOptions:
        columns = {field.name: field.dataType.simpleString() for field in schema.fields}
        options = parse_sink(self.options, columns, streaming=streaming)
        if options.form is not None:
            typed = StructType([field for field in schema.fields if field.name in options.typed])
            encoder_of(options.form, pa.struct(list(to_arrow_schema(typed, timezone="UTC"))))  # refuses on the driver
        return options


def _rows(options: SourceOptions, schema: StructType) -> tuple[RowShape | None, list[str]]:
    """What is made of records, and which of their columns are chosen where they stay as they are."""
    if options.form is not None:
        return shape_of(options.form, schema, options.include_headers), []
    known = record_columns(True)
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in known:
            raise BadOption(
                f"a record has no column {field.name}: its columns are {', '.join(known)}; "
                "for the fields of typed values say what they are with the option format"
            )
        if kind != known[field.name]:
            raise BadOption(f"column {field.name} is {kind}: allowed is {known[field.name]}")
    return None, schema.names
