"""Typed columns beside those of the record.

Owns: which column comes from where, framing, what becomes of values that cannot be read. Never knows: how records were
fetched, how a format is read. Invariants: rows have exactly the columns that Spark was told; the other columns of a
record whose value cannot be read are never lost silently, unless the user asked for that.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.spark.columns import record_columns
from ottla.spark.errors import BadOption, Undecodable
from ottla.spark.formats.decoding import Decoder
from ottla.spark.formats.options import DROPMALFORMED, FAILFAST, PERMISSIVE, Form

_FRAME = 5


class RowShape(NamedTuple):
    """What rows of a typed read look like; travels to tasks."""

    form: Form
    schema: pa.Schema
    record: dict[str, str]
    """Columns of the rows that are columns of the record, and which."""
    corrupt: str
    """The column for values that cannot be read; empty when there is none."""

    @property
    def value_type(self) -> pa.StructType:
        return pa.struct(
            [field for field in self.schema if field.name not in self.record and field.name != self.corrupt]
        )

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of records as batches of rows."""
        kind = self.value_type
        decoder = decoder_of(self.form, kind) if kind.num_fields or self.corrupt else None
        for batch in batches:
            rows = self._typed(decoder, batch) if decoder else self._arranged(batch, {})
            if rows.num_rows:
                yield rows

    def _typed(self, decoder: Decoder, batch: pa.RecordBatch) -> pa.RecordBatch:
        raw = batch.column("value")
        if self.form.framed:
            values, bad = _unframed(raw)
        else:
            values, bad = raw, {}
        decoded = decoder.decode(values)
        bad = decoded.bad | bad
        rows = decoded.rows
        marks: Any = None
        if bad:
            if self.form.mode == FAILFAST:
                raise self._failure(batch, bad)
            marks = pa.array([number in bad for number in range(len(raw))], pa.bool_())
            if self.form.mode == DROPMALFORMED:
                good = pc.invert(marks)
                batch, rows, marks = batch.filter(good), rows.filter(good), None
        typed = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
        if self.corrupt:
            none = pa.scalar(None, pa.binary())
            typed[self.corrupt] = pa.nulls(len(rows), pa.binary()) if marks is None else pc.if_else(marks, raw, none)
        return self._arranged(batch, typed)

    def _arranged(self, batch: pa.RecordBatch, typed: dict[str, pa.Array]) -> pa.RecordBatch:
        columns = [
            batch.column(self.record[name]) if name in self.record else typed[name] for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _failure(self, batch: pa.RecordBatch, bad: dict[int, str]) -> Undecodable:
        first = min(bad)
        topic, partition, offset = (batch.column(name)[first] for name in ("topic", "partition", "offset"))
        return Undecodable(
            f"the record at offset {offset} of {topic}-{partition} is no {self.form.name} of the schema: {bad[first]}"
        )


def shape_of(form: Form, schema: StructType, include_headers: bool) -> RowShape:
    """How rows of this schema, which the user wrote or `typed_schema` told, are made."""
    kinds = record_columns(include_headers)
    del kinds["value"]
    names = {form.record_prefix + name: name for name in kinds}
    record: dict[str, str] = {}
    corrupt = ""
    seen: set[str] = set()
    for field in schema.fields:
        name, kind = field.name, field.dataType.simpleString()
        if name.lower() in seen:
            raise BadOption(
                f"column {name} would be there twice: set recordPrefix, for example recordPrefix=record_, "
                "which names the record's own columns record_key, record_topic and so on"
            )
        seen.add(name.lower())
        if not field.nullable:
            raise BadOption(f"column {name} is NOT NULL: a record may have no value, leave it out of the schema")
        if name in names and kind == kinds[names[name]]:
            record[name] = names[name]
        elif name == form.corrupt_column:
            if kind != "binary":
                raise BadOption(f"column {name} is {kind}: allowed is binary")
            corrupt = name
    if corrupt and form.mode != PERMISSIVE:
        raise BadOption(f"column {corrupt} is filled with mode={PERMISSIVE} only")
    return RowShape(form, to_arrow_schema(schema, timezone="UTC"), record, corrupt)


def decoder_of(form: Form, row: pa.StructType) -> Decoder:
    """The reader of a format for these columns; what columns it cannot fill is a `BadOption`."""
    match form.name:
        case "json":
            from ottla.spark.formats.json_values import JsonDecoder

            return JsonDecoder(row)
        case "csv":
            from ottla.spark.formats.csv_values import CsvDecoder

            return CsvDecoder(row, form.separator, form.null_text)
        case "avro":
            from ottla.spark.formats.avro_values import AvroDecoder

            return AvroDecoder(row, form.schema)
    from ottla.spark.formats.protobuf_values import ProtobufDecoder

    return ProtobufDecoder(row, form.schema, form.message, form.framed)


def _unframed(values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Values without what a schema registry's serializer puts before them; null where that is missing."""
    inner: list[bytes | None] = []
    bad: dict[int, str] = {}
    for number, value in enumerate(values.to_pylist()):
        framed = value is not None and len(value) >= _FRAME and value[0] == 0
        inner.append(value[_FRAME:] if framed else None)
        if value is not None and not framed:
            bad[number] = "it does not begin with a zero byte and a schema's number, as framing=confluent says"
    return pa.array(inner, pa.binary()), bad
