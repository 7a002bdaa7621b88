"""Typed rows as values.

Owns: which encoder serves, framing, rows without anything in them. Never knows: where values go. Invariant: what is
written is read again as it was, a row of nulls as a tombstone and back.
"""

from functools import reduce
from struct import Struct
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.formats.options import Form

_FRAME = Struct(">bI")


class Encoder(Protocol):
    """Made once, used for one batch of rows after another; a null row gives a null value."""

    def encode(self, rows: pa.StructArray) -> pa.Array: ...


def encoder_of(form: Form, row: pa.StructType) -> Encoder:
    """The writer of a format for these columns; what columns it cannot write is a `BadOption`."""
    match form.name:
        case "json":
            from ottla.spark.formats.texts import JsonEncoder

            return JsonEncoder(row)
        case "csv":
            from ottla.spark.formats.texts import CsvEncoder

            return CsvEncoder(row, form.separator, form.null_text)
        case "avro":
            from ottla.spark.formats.avro_values import AvroEncoder

            return AvroEncoder(row, form.schema)
    from ottla.spark.formats.protobuf_values import ProtobufEncoder

    return ProtobufEncoder(row, form.schema, form.message, form.framed)


def encode_values(form: Form, encoder: Encoder, columns: pa.RecordBatch) -> pa.Array:
    """One value a row; rows without anything but nulls are tombstones."""
    nothing = reduce(pc.and_, [column.is_null(nan_is_null=False) for column in columns.columns])
    rows = pa.StructArray.from_arrays(columns.columns, fields=list(columns.schema), mask=nothing)
    values = encoder.encode(rows)
    if form.framed:
        values = pc.binary_join_element_wise(_FRAME.pack(0, form.schema_id), values.cast(pa.binary()), b"")
    return values
