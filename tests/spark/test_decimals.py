"""Decimals with more digits than their column: malformed, in every format and mode, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from ottla.spark.errors import Undecodable
from ottla.spark.formats.json_values import JsonDecoder
from ottla.spark.formats.options import parse_form
from ottla.spark.formats.rows import RowShape, shape_of

_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_SCHEMAS = {"avro": json.dumps({"type": "record", "name": "R", "fields": [{"name": "price", "type": _PRICE}]})}


def in_avro(text: str) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, {"type": "bytes"}, int(Decimal(text) * 100).to_bytes(8, "big", signed=True))
    return stream.getvalue()


WRITERS: dict[str, Callable[[str], bytes]] = {
    "json": lambda text: b'{"price":%b}' % text.encode(),
    "csv": lambda text: text.encode(),
    "avro": in_avro,
}


def shape(name: str, mode: str, *more: tuple[str, str]) -> RowShape:
    columns = StructType().add("price", "decimal(9,2)")
    for column in more:
        columns = columns.add(*column)
    given = {"schema": _SCHEMAS[name]} if name in _SCHEMAS else {}
    form = parse_form({"format": name, "mode": mode, **given})
    assert form is not None
    return shape_of(form, columns, False)


def records(values: list[bytes]) -> pa.RecordBatch:
    count = len(values)
    places = {"topic": ["orders"] * count, "partition": [3] * count, "offset": list(range(count))}
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **places})


@pytest.mark.parametrize("name", WRITERS)
def test_a_decimal_with_more_digits_than_its_column_is_malformed_in_every_format_and_mode(name: str) -> None:
    values = [WRITERS[name](each) for each in ("1234567.89", "123456789", "-1234567.89", "-10000000")]
    good = [Decimal("1234567.89"), Decimal("-1234567.89")]
    with pytest.raises(Undecodable, match="offset 1 of orders-3"):
        list(shape(name, "FAILFAST").rows(iter([records(values)])))
    (rows,) = shape(name, "DROPMALFORMED").rows(iter([records(values)]))
    assert rows.column("price").to_pylist() == good
    (rows,) = shape(name, "PERMISSIVE", ("_corrupt_record", "binary")).rows(iter([records(values)]))
    rows.validate(full=True)
    assert rows.column("price").to_pylist() == [good[0], None, good[1], None]
    assert rows.column("_corrupt_record").to_pylist() == [None, values[1], None, values[3]]


def test_a_decimal_inside_lists_and_objects_is_held_against_its_digits_too() -> None:
    inner = pa.struct([("price", pa.decimal128(4, 2))])
    decoder = JsonDecoder(pa.struct([("many", pa.list_(pa.field("element", inner)))]))
    values = [b'{"many":[{"price":1.5}]}', b'{"many":[{"price":99},{"price":100}]}']
    rows, bad = decoder.decode(pa.array(values, pa.binary()))
    assert rows.to_pylist() == [{"many": [{"price": Decimal("1.50")}]}, None]
    assert list(bad) == [1]
