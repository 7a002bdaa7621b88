"""Values as typed columns and back, without Spark."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from pyspark.sql.types import StructType

from ottla.spark.errors import BadOption, BadRows, Undecodable
from ottla.spark.formats.avro_values import avro_columns
from ottla.spark.formats.encoding import encode_values, encoder_of
from ottla.spark.formats.options import Form, parse_form
from ottla.spark.formats.protobuf_values import message_class, protobuf_columns
from ottla.spark.formats.rows import decoder_of, shape_of
from ottla.spark.formats.schemas import typed_schema, value_schema

MOMENT = datetime(2026, 3, 1, 10, 0, 0, 500_000, UTC)
ZONED = pa.timestamp("us", "UTC")


def form(name: str, **given: str) -> Form:
    parsed = parse_form({"format": name, **given})
    assert parsed is not None
    return parsed


def decoded(chosen: Form, row: dict[str, pa.DataType], *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    rows, bad = decoder_of(chosen, pa.struct(list(row.items()))).decode(pa.array(values, pa.binary()))
    return rows.to_pylist(), bad


def encoded(chosen: Form, **columns: pa.Array) -> list[bytes | None]:
    batch = pa.RecordBatch.from_pydict(columns)
    values = encode_values(chosen, encoder_of(chosen, pa.struct(list(batch.schema))), batch)
    made: list[bytes | None] = values.cast(pa.binary()).to_pylist()
    return made


# --- JSON -------------------------------------------------------------------------------------------------------------

EVERYTHING = {
    "whole": pa.int32(),
    "real": pa.float64(),
    "exact": pa.decimal128(10, 2),
    "text": pa.string(),
    "truth": pa.bool_(),
    "day": pa.date32(),
    "at": ZONED,
    "many": pa.list_(pa.field("element", pa.string())),
    "inner": pa.struct([("a", pa.int64()), ("days", pa.list_(pa.field("element", pa.date32())))]),
}
SOMETHING = {
    "whole": -7,
    "real": 1.5,
    "exact": Decimal("12.30"),
    "text": 'a "quoted"\tßtring\\',
    "truth": True,
    "day": date(2026, 2, 28),
    "at": MOMENT,
    "many": ["x", None, ""],
    "inner": {"a": 1 << 40, "days": [date(2020, 1, 1)]},
}


def test_json_of_every_kind_is_read_and_written() -> None:
    columns = {name: pa.array([SOMETHING[name], None], kind) for name, kind in EVERYTHING.items()}
    value, tombstone = encoded(form("json"), **columns)
    assert tombstone is None
    assert value is not None
    assert json.loads(value)["at"] == "2026-03-01T10:00:00.500000Z"
    assert decoded(form("json"), EVERYTHING, value, None) == ([SOMETHING, None], {})


def test_json_maps_and_bytes_are_read_and_written() -> None:
    kinds = {"counts": pa.map_(pa.string(), pa.int64()), "raw": pa.binary()}
    row = {"counts": [("a", 1), ('b"', 2)], "raw": b"\0\xff"}
    value = encoded(form("json"), **{name: pa.array([row[name]], kinds[name]) for name in kinds})[0]
    assert value == b'{"counts":{"a":1,"b\\"":2},"raw":"AP8="}'
    assert decoded(form("json"), kinds, value) == ([row], {})


def test_json_is_written_as_spark_writes_it() -> None:
    values = encoded(
        form("json"),
        a=pa.array([1.0, float("nan"), float("-inf"), None], pa.float64()),
        b=pa.array(["plain", "bell\x07", "new\nline", "only"], pa.string()),
    )
    assert [json.loads(value or b"") for value in values] == [
        {"a": 1.0, "b": "plain"},
        {"a": "NaN", "b": "bell\x07"},
        {"a": "-Infinity", "b": "new\nline"},
        {"b": "only"},
    ]


def test_rows_that_are_part_of_a_larger_batch_are_written_as_they_are() -> None:
    lists = pa.array([["a"], None, ["b", "c"], []], pa.list_(pa.string()))
    assert encoded(form("json"), a=lists[1:], b=pa.array([0, 1, 2, 3])[1:]) == [
        b'{"b":1}',
        b'{"a":["b","c"],"b":2}',
        b'{"a":[],"b":3}',
    ]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"{} {}", "Extra data"),
        (b'{}}{"v":{}', "Extra data"),
        (b'{"whole":3},"x":4', "Extra data"),
        (b'{"whole":3} ,"x":[1,2]', "Extra data"),
        (b'"', "Unterminated string"),
        (b"[1]", "[1] is no object"),
        (b'{"whole": "7"}', 'whole: "7" is no whole number'),
        (b'{"whole": 7.5}', "whole: 7.5 is no whole number"),
        (b'{"whole": 5000000000}', "is no number of 32 bits"),
        (b'{"day": "2026-02-30"}', "day: "),
        (b'{"at": "noon"}', "at: "),
        (b'{"truth": 1}', "truth: 1 is no boolean"),
        (b'{"many": {}}', "many: {} is no array"),
        (b'{"inner": {"a": []}}', "inner: a: [] is no whole number"),
        (b'{"exact": 123456789.10}', "is no decimal of 10 digits"),
        (b'{"text": "\xff"}', "invalid start byte"),
    ],
)
def test_json_that_is_not_of_the_schema_is_told_apart_and_harms_no_neighbour(value: bytes, why: str) -> None:
    good = b'{"whole": 1}'
    values = [good] * 300 + [value] + [good] * 300
    rows, bad = decoded(form("json"), EVERYTHING, *values)
    assert list(bad) == [300]
    assert why in bad[300]
    assert rows[300] is None
    assert {row["whole"] for number, row in enumerate(rows) if number != 300} == {1}


def test_json_is_read_as_leniently_as_spark_reads_it() -> None:
    kinds = {"text": pa.string(), "at": ZONED, "exact": pa.decimal128(4, 1), "real": pa.float64()}
    rows, bad = decoded(
        form("json"),
        kinds,
        b'{"text": 1.50}',
        b'{"text": {"a": [1, "x"]}}',
        b'{"at": 1772359200}',
        b'{"at": "2026-03-01T12:00:00+02:00"}',
        b'{"at": "2026-03-01 10:00:00"}',
        b'{"exact": 1.25}',
        b'{"real": "NaN", "other": 1}',
        b'{"text": "a", "text": "b"}',
        b"null",
    )
    assert bad == {}
    assert [row and {name: each for name, each in row.items() if each is not None} for row in rows[:6]] == [
        {"text": "1.50"},
        {"text": '{"a":[1,"x"]}'},
        {"at": datetime(2026, 3, 1, 10, tzinfo=UTC)},
        {"at": datetime(2026, 3, 1, 10, tzinfo=UTC)},
        {"at": datetime(2026, 3, 1, 10, tzinfo=UTC)},
        {"exact": Decimal("1.3")},
    ]
    assert str(rows[6]["real"]) == "nan"
    assert (rows[7]["text"], rows[8]) == ("b", None)


def test_json_that_is_nested_deeper_than_python_goes_is_judged_alike_alone_and_with_others() -> None:
    deep = b'{"whole":1,"other":' + b"[" * 5000 + b"]" * 5000 + b"}"
    for values in ([deep], [deep, b"?"]):
        rows, bad = decoded(form("json"), {"whole": pa.int32()}, *values)
        assert rows[0] == {"whole": 1}
        assert 0 not in bad
    far = b'{"many":' + b"[" * 5000 + b"]" * 5000 + b"}"
    _, bad = decoded(form("json"), {"many": pa.list_(pa.field("element", pa.int64()))}, far)
    assert bad == {0: "it is nested too deeply"}


# --- CSV --------------------------------------------------------------------------------------------------------------

FLAT = {name: kind for name, kind in EVERYTHING.items() if name not in ("many", "inner")}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_csv_of_every_kind_is_read_and_written(separator: str) -> None:
    chosen = form("csv", sep=separator)
    texts = [f'a {separator}"b"', "", "two\nlines", None]
    rows = [SOMETHING | {"text": text} for text in texts]
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in FLAT.items()}
    flat = [{name: row[name] for name in FLAT} for row in rows]
    assert decoded(chosen, FLAT, *encoded(chosen, **columns)) == (flat, {})


@pytest.mark.parametrize("value", [b"1", b"1,a,b", b"x,a", b'1,"a', b"1,a\n2,b", b"1,\xff"])
def test_csv_that_is_not_of_the_schema_is_told_apart_and_harms_no_neighbour(value: bytes) -> None:
    kinds = {"n": pa.int32(), "s": pa.string()}
    values = [b"5,good\r\n"] * 300 + [value, None] + [b'6,"b"'] * 300
    rows, bad = decoded(form("csv"), kinds, *values)
    assert list(bad) == [300]
    assert rows[300] is None
    assert rows[301] is None
    assert (rows[299], rows[302]) == ({"n": 5, "s": "good"}, {"n": 6, "s": "b"})


def test_csv_times_may_lack_a_zone_and_nulls_may_have_a_name() -> None:
    kinds = {"at": ZONED, "s": pa.string()}
    rows, bad = decoded(form("csv", nullValue="-"), kinds, b"2026-03-01 10:00:00.5,-", b'2026-03-01T10:00:00.5Z,"-"')
    assert (rows, bad) == ([{"at": MOMENT, "s": None}, {"at": MOMENT, "s": "-"}], {})


# --- Avro -------------------------------------------------------------------------------------------------------------

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "to", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "code", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
ORDER_TYPES = {
    "id": pa.int64(),
    "item": pa.string(),
    "price": pa.decimal128(9, 2),
    "at": ZONED,
    "day": pa.date32(),
    "state": pa.string(),
    "before": pa.string(),
    "tags": pa.list_(pa.field("element", pa.string())),
    "counts": pa.map_(pa.string(), pa.int32()),
    "to": pa.struct([("city", pa.string())]),
    "code": pa.string(),
}
ONE_ORDER = {
    "id": 7,
    "item": "tea",
    "price": Decimal("3.50"),
    "at": MOMENT,
    "day": date(2026, 3, 1),
    "state": "PAID",
    "before": None,
    "tags": ["a"],
    "counts": [("x", 1)],
    "to": {"city": "Graz"},
    "code": "f3b7c5de-3f1a-4e5a-9d52-5e7b3f1c0a11",
}
AVRO = form("avro", schema=json.dumps(ORDER))


def test_an_avro_schema_is_told_as_columns() -> None:
    assert avro_columns(AVRO.schema) == {
        "id": "BIGINT",
        "item": "STRING",
        "price": "DECIMAL(9, 2)",
        "at": "TIMESTAMP",
        "day": "DATE",
        "state": "STRING",
        "before": "STRING",
        "tags": "ARRAY<STRING>",
        "counts": "MAP<STRING, INT>",
        "to": "STRUCT<`city`: STRING>",
        "code": "STRING",
    }


def test_avro_is_read_and_written_as_its_library_does() -> None:
    columns = {name: pa.array([ONE_ORDER[name]], kind) for name, kind in ORDER_TYPES.items()}
    (value,) = encoded(AVRO, **columns)
    assert value is not None
    theirs: Any = fastavro.schemaless_reader(BytesIO(value), fastavro.parse_schema(ORDER))
    assert (theirs["at"], str(theirs["code"])) == (MOMENT, ONE_ORDER["code"])
    rows, bad = decoded(AVRO, ORDER_TYPES, value, None, value + b"x", value[:5])
    assert rows == [ONE_ORDER, None, None, None]
    assert bad[2] == "1 bytes are left over"
    assert list(bad) == [2, 3]


def test_avro_without_a_schema_is_written_by_that_of_the_rows() -> None:
    columns = {name: pa.array([SOMETHING[name], None], kind) for name, kind in EVERYTHING.items()}
    value, _ = encoded(form("avro"), **columns)
    assert value is not None
    whole = fastavro.parse_schema(
        {"type": "record", "name": "row", "fields": [{"name": "whole", "type": ["null", "int"]}]}
    )
    read: Any = fastavro.schemaless_reader(BytesIO(value), whole)
    assert read == {"whole": -7}


def test_a_row_that_avro_cannot_write_is_said() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    with pytest.raises(BadRows, match="a row does not fit the Avro schema"):
        encoded(form("avro", schema=json.dumps(schema)), n=pa.array(["x"]))


# --- Protobuf ---------------------------------------------------------------------------------------------------------


def descriptors() -> bytes:
    """What protoc would write for shop.proto with the messages Place and Order."""
    from google.protobuf import timestamp_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    state = file.enum_type.add(name="State")
    for number, name in enumerate(["NEW", "PAID"]):
        state.value.add(name=name, number=number)
    file.message_type.add(name="Place").field.add(name="city", number=1, type=kinds.TYPE_STRING, label=1)
    order = file.message_type.add(name="Order")
    for number, (name, kind, label, type_name) in enumerate(
        [
            ("id", kinds.TYPE_INT64, 1, None),
            ("size", kinds.TYPE_UINT64, 1, None),
            ("price", kinds.TYPE_DOUBLE, 1, None),
            ("state", kinds.TYPE_ENUM, 1, ".shop.State"),
            ("at", kinds.TYPE_MESSAGE, 1, ".google.protobuf.Timestamp"),
            ("to", kinds.TYPE_MESSAGE, 1, ".shop.Place"),
            ("tags", kinds.TYPE_STRING, 3, None),
            ("stops", kinds.TYPE_MESSAGE, 3, ".shop.Place"),
            ("counts", kinds.TYPE_MESSAGE, 3, ".shop.Order.CountsEntry"),
            ("raw", kinds.TYPE_BYTES, 1, None),
        ],
        1,
    ):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=1)
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    written: bytes = descriptor_pb2.FileDescriptorSet(file=[times, file]).SerializeToString()
    return written


PLACE = pa.struct([("city", pa.string())])
MESSAGE_TYPES = {
    "id": pa.int64(),
    "size": pa.decimal128(20, 0),
    "price": pa.float64(),
    "state": pa.string(),
    "at": ZONED,
    "to": PLACE,
    "tags": pa.list_(pa.field("element", pa.string())),
    "stops": pa.list_(pa.field("element", PLACE)),
    "counts": pa.map_(pa.string(), pa.int32()),
    "raw": pa.binary(),
}
ONE_MESSAGE = {
    "id": 7,
    "size": Decimal((1 << 64) - 1),
    "price": 3.5,
    "state": "PAID",
    "at": MOMENT,
    "to": {"city": "Graz"},
    "tags": ["a", "b"],
    "stops": [{"city": "Wien"}, {"city": "Linz"}],
    "counts": [("x", 1)],
    "raw": b"\0",
}


def protobuf(**given: str) -> Form:
    return form("protobuf", schema=b64encode(descriptors()).decode(), messageName="shop.Order", **given)


def test_a_protobuf_message_is_told_as_columns() -> None:
    assert protobuf_columns(descriptors(), "shop.Order") == {
        "id": "BIGINT",
        "size": "DECIMAL(20, 0)",
        "price": "DOUBLE",
        "state": "STRING",
        "at": "TIMESTAMP",
        "to": "STRUCT<`city`: STRING>",
        "tags": "ARRAY<STRING>",
        "stops": "ARRAY<STRUCT<`city`: STRING>>",
        "counts": "MAP<STRING, INT>",
        "raw": "BINARY",
    }


@pytest.mark.parametrize("framing", ["none", "confluent"])
def test_protobuf_is_read_and_written_as_its_library_does(framing: str) -> None:
    chosen = protobuf(framing=framing)
    columns = {name: pa.array([ONE_MESSAGE[name]], kind) for name, kind in MESSAGE_TYPES.items()}
    (value,) = encoded(chosen, **columns)
    assert value is not None
    if framing == "confluent":
        assert value[:7] == b"\0\0\0\0\0\2\2"  # the file's second message
        value = value[5:]
    theirs = message_class(descriptors(), "shop.Order").FromString(value[2:] if framing == "confluent" else value)
    assert (theirs.size, theirs.state, theirs.to.city) == ((1 << 64) - 1, 1, "Graz")
    rows, bad = decoded(chosen, MESSAGE_TYPES, value, None, value[:-1])
    assert rows[0] == ONE_MESSAGE
    assert (rows[1:], list(bad)) == ([None, None], [2])


def test_an_empty_message_has_its_defaults() -> None:
    rows, _ = decoded(protobuf(), MESSAGE_TYPES, b"")
    assert (rows[0]["id"], rows[0]["state"], rows[0]["tags"], rows[0]["to"]) == (0, "NEW", [], None)


# --- schemas and options ----------------------------------------------------------------------------------------------


def test_a_json_schema_is_told_as_columns() -> None:
    schema = {
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "state": {"enum": ["NEW", "PAID"]},
            "to": {"$ref": "#/$defs/place"},
            "stops": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "rest": {"type": "object"},
        },
    }
    assert value_schema(form("json", schema=json.dumps(schema))) == (
        "`id` BIGINT, `price` DOUBLE, `at` TIMESTAMP, `day` DATE, `state` STRING, `to` STRUCT<`city`: STRING>, "
        "`stops` ARRAY<STRUCT<`city`: STRING>>, `counts` MAP<STRING, BIGINT>, `rest` STRING"
    )


def test_sparks_own_json_is_told_as_columns() -> None:
    inner = {"type": "array", "containsNull": True, "elementType": "long"}
    fields = [{"name": "a", "type": inner, "nullable": True, "metadata": {}}, {"name": "b`c", "type": "decimal(3,1)"}]
    schema = json.dumps({"type": "struct", "fields": fields})
    assert value_schema(form("json", schema=schema)) == "`a` ARRAY<BIGINT>, `b``c` decimal(3,1)"


def test_a_schema_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.avsc"
    file.write_text(json.dumps(ORDER))
    assert form("avro", schemaFile=str(file)).schema == file.read_bytes()
    descriptor_set = tmp_path / "shop.desc"
    descriptor_set.write_bytes(descriptors())
    chosen = form("protobuf", schemaFile=str(descriptor_set), messageName="shop.Place")
    assert typed_schema(chosen, False).endswith("`timestampType` int, `city` STRING")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schema": "a INT"}, "schema is for typed values"),
        ({"format": "xml"}, "format cannot be 'xml'"),
        ({"format": "json", "mode": "LOOSE"}, "mode cannot be 'LOOSE'"),
        ({"format": "json", "sep": ";"}, "sep does not go with format=json"),
        ({"format": "csv", "sep": "::"}, "sep cannot be"),
        ({"format": "json", "messageName": "A"}, "messageName does not go with format=json"),
        ({"format": "json", "schema": "a INT", "schemaFile": "x"}, "set one of them"),
        ({"format": "json", "schemaFile": "/nowhere/x"}, "schemaFile cannot be read"),
        ({"format": "protobuf", "schema": "AAAA"}, "needs messageName"),
        ({"format": "protobuf", "schema": "?", "messageName": "A"}, "no descriptor set in base64"),
        ({"format": "json", "framing": "magic"}, "framing cannot be 'magic'"),
        ({"format": "json", "schemaId": "7"}, "schemaId is written with framing=confluent only"),
        ({"format": "json", "framing": "confluent", "schemaId": "x"}, "schemaId cannot be 'x'"),
    ],
)
def test_what_is_wrong_with_an_option_is_one_sentence(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption) as failure:
        parse_form(given)
    assert said in str(failure.value)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (form("json"), "format=json needs a schema"),
        (form("json", schema='{"type": "array"}'), "neither a JSON Schema of an object"),
        (form("json", schema="{"), "the schema is no JSON"),
        (form("json", schema='{"properties": {"a": {}}}'), "a is without a type"),
        (form("json", schema='{"properties": {"a": {"$ref": "#/b"}}}'), "refers to #/b"),
        (form("avro", schema='"string"'), "no Avro schema of a record"),
        (form("avro", schema='{"type": "record", "fields": [{"name": "a", "type": "B"}]}'), "has no type B"),
        (form("avro", schema='{"type":"record","fields":[{"name":"a","type":["int","string"]}]}'), "several types"),
        (form("avro", schema='{"type":"record","name":"T","fields":[{"name":"a","type":"T"}]}'), "contains itself"),
        (form("protobuf", schema="AAAA", messageName="A"), "the schema is no descriptor set"),
        (protobuf()._replace(message="shop.Nothing"), "the descriptor set has google.protobuf.Timestamp, shop.Order"),
    ],
)
def test_what_is_wrong_with_a_schema_is_one_sentence(chosen: Form, said: str) -> None:
    with pytest.raises(BadOption) as failure:
        value_schema(chosen)
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


# --- columns of rows --------------------------------------------------------------------------------------------------


def struct(*fields: tuple[str, str]) -> StructType:
    schema = StructType()
    for name, kind in fields:
        schema = schema.add(name, kind)
    return schema


def records(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["orders"] * count),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([MOMENT] * count, ZONED),
            "timestampType": pa.array([0] * count, pa.int32()),
        }
    )


def test_names_of_the_record_may_be_those_of_the_value_with_a_prefix() -> None:
    chosen = form("json", recordPrefix="record_")
    schema = struct(("record_offset", "long"), ("offset", "string"), ("timestamp", "string"))
    (rows,) = shape_of(chosen, schema, False).rows(iter([records(b'{"offset": "mine", "timestamp": "then"}')]))
    assert rows.to_pylist() == [{"record_offset": 0, "offset": "mine", "timestamp": "then"}]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ((("offset", "long"), ("Offset", "string")), "column Offset would be there twice: set recordPrefix"),
        ((("_corrupt_record", "binary"),), "is filled with mode=PERMISSIVE only"),
        ((("_corrupt_record", "string"),), "column _corrupt_record is string: allowed is binary"),
    ],
)
def test_columns_that_cannot_be_are_refused(fields: tuple[tuple[str, str], ...], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        shape_of(form("json"), struct(*fields), False)


def test_values_in_the_frame_of_a_schema_registry() -> None:
    chosen = form("json", framing="confluent", mode="PERMISSIVE")
    shape = shape_of(chosen, struct(("a", "long"), ("_corrupt_record", "binary")), False)
    (rows,) = shape.rows(iter([records(b'\0\0\0\0\7{"a": 1}', None, b'{"a": 2}', b"\0\0")]))
    assert rows.to_pylist() == [
        {"a": 1, "_corrupt_record": None},
        {"a": None, "_corrupt_record": None},
        {"a": None, "_corrupt_record": b'{"a": 2}'},
        {"a": None, "_corrupt_record": b"\0\0"},
    ]
    written = encoded(form("json", framing="confluent", schemaId="7"), a=pa.array([1, None]))
    assert written == [b'\0\0\0\0\7{"a":1}', None]


def test_a_value_that_cannot_be_read_is_named_in_one_sentence() -> None:
    shape = shape_of(form("json"), struct(("a", "long")), False)
    with pytest.raises(Undecodable) as failure:
        list(shape.rows(iter([records(b"{}", b"?")])))
    said = str(failure.value)
    assert said.startswith("the record at offset 1 of orders-3 is no json of the schema: Expecting value")
    assert "mode=PERMISSIVE" in said
    assert "\n" not in said
