"""The format `ottla` as Spark knows it.

Owns: the name, the schema, and which reader or writer serves. Never knows: what they do.
"""

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.spark.batch_reader import BatchReader
from ottla.spark.columns import SCHEMA, SCHEMA_WITH_HEADERS
from ottla.spark.errors import BadOption
from ottla.spark.options import parse_source, truth
from ottla.spark.sink import BatchWriter, ExactStreamWriter, PlainStreamWriter
from ottla.spark.sink_options import parse_sink
from ottla.spark.stream_reader import StreamReader


class OttlaDataSource(DataSource):
    """Topics as tables and streams."""

    def __init__(self, options: Any) -> None:
        self.options = {key.lower(): value for key, value in options.items()}

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        headers = {"includeHeaders": self.options["includeheaders"]} if "includeheaders" in self.options else {}
        return SCHEMA_WITH_HEADERS if truth(headers, "includeHeaders", False) else SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(parse_source(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 — Spark's name
        return StreamReader(parse_source(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise BadOption("a topic cannot be overwritten: write with mode append")
        return BatchWriter(parse_sink(self.options, _columns(schema), streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> ExactStreamWriter | PlainStreamWriter:  # noqa: N802
        options = parse_sink(self.options, _columns(schema), streaming=True)
        return ExactStreamWriter(options) if options.exactly_once else PlainStreamWriter(options)


def _columns(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
