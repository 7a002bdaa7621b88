"""The format `ottla` as Spark knows it.

Owns: the name, the schema, and which reader or writer serves. Never knows: what they do.
"""

from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.spark.batch_reader import BatchReader
from ottla.spark.columns import record_columns
from ottla.spark.errors import BadOption
from ottla.spark.formats.encoding import encoder_of
from ottla.spark.formats.options import parse_form
from ottla.spark.formats.rows import RowShape, shape_of
from ottla.spark.formats.schemas import columns_ddl, typed_schema
from ottla.spark.options import SourceOptions, parse_source, source_options, truth
from ottla.spark.sink import BatchWriter, ExactStreamWriter, PlainStreamWriter
from ottla.spark.sink_options import SinkOptions, parse_sink
from ottla.spark.stream_reader import StreamReader


class OttlaDataSource(DataSource):
    """Topics as tables and streams."""

    def __init__(self, options: Any) -> None:
        self.options = {key.lower(): value for key, value in options.items()}

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        given = source_options(self.options)
        form, headers = parse_form(given), truth(given, "includeHeaders", False)
        return columns_ddl(record_columns(headers)) if form is None else typed_schema(form, headers)

    def reader(self, schema: StructType) -> BatchReader:
        options = parse_source(self.options, streaming=False)
        return BatchReader(options, _shape(options, schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 — Spark's name
        options = parse_source(self.options, streaming=True)
        return StreamReader(options, _shape(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise BadOption("a topic cannot be overwritten: write with mode append")
        return BatchWriter(self._sink(schema, streaming=False))

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


def _shape(options: SourceOptions, schema: StructType) -> RowShape | None:
    if options.form is not None:
        return shape_of(options.form, schema, options.include_headers)
    if schema.names != list(record_columns(options.include_headers)):
        raise BadOption("a reader's own schema() is for typed values: say what they are with the option format")
    return None
