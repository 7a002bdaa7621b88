"""The format `ottla` as Spark knows it.

Owns: the name, the schema, and which reader or writer serves. Never knows: what they do.
"""

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.spark.batch_reader import BatchReader
from ottla.spark.columns import SCHEMA, SCHEMA_WITH_HEADERS
from ottla.spark.options import parse_source, truth
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
