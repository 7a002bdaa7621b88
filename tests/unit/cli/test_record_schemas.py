"""Avro and Protobuf as JSON text and back, by the options that name a schema."""

import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
import typer
from google.protobuf import descriptor_pb2

from ottla.cli.failures import Failure
from ottla.cli.record_schemas import RecordForm, check_framing, decoder_of, encoder_of
from ottla.cli.record_types import DataType, NotOfSchema

AVRO, PROTOBUF = DataType.AVRO, DataType.PROTOBUF
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}, "default": "NEW"},
        {"name": "before", "type": ["null", "State"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}, "default": []},
        {"name": "raw", "type": "bytes", "default": ""},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}, "default": "ab"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "default": "",
        },
    ],
}
WHOLE = {
    "id": 7,
    "note": "zwölf",
    "state": "PAID",
    "before": "NEW",
    "lines": [{"tea": 1.5}, {}],
    "raw": "\u0000ÿ",
    "mark": "xy",
    "time": "2026-01-31T12:00:00.250000+00:00",
    "day": "2026-01-31",
    "price": "12.50",
}


@pytest.fixture
def avro(tmp_path: Path) -> RecordForm:
    return form_of(tmp_path, ORDER)


def form_of(folder: Path, schema: object) -> RecordForm:
    file = folder / "order.avsc"
    file.write_text(json.dumps(schema))
    return RecordForm("value", AVRO, str(file))


def encoded(form: RecordForm, content: object) -> bytes:
    encode = encoder_of(form)
    assert encode is not None
    data = encode(json.dumps(content).encode())
    assert data is not None
    return data


def decoded(form: RecordForm, data: bytes) -> Any:
    decode = decoder_of(form)
    assert decode is not None
    assert decode(None) is None
    return json.loads(decode(data) or b"")


# --- Avro ---


def test_avro_of_all_kinds_is_json_and_comes_back_as_it_went(avro: RecordForm) -> None:
    data = encoded(avro, WHOLE)
    assert decoded(avro, data) == WHOLE
    assert encoded(avro, decoded(avro, data)) == data


def test_what_is_sent_is_what_other_programs_read(avro: RecordForm) -> None:
    from io import BytesIO

    read: Any = fastavro.schemaless_reader(BytesIO(encoded(avro, WHOLE)), fastavro.parse_schema(ORDER), None)
    assert (read["id"], read["raw"], read["mark"], read["price"]) == (7, b"\0\xff", b"xy", Decimal("12.50"))
    assert read["time"].timestamp() == 1769860800.25


def test_fields_that_have_a_default_may_be_left_out(tmp_path: Path) -> None:
    fields: list[Any] = [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}]
    form = form_of(tmp_path, {"type": "record", "name": "Order", "fields": fields})
    assert decoded(form, encoded(form, {"id": 1})) == {"id": 1, "note": None}


@pytest.mark.parametrize(
    ("schema", "content"), [("string", "text"), ("long", -1), (["null", "int"], None), ({"type": "boolean"}, True)]
)
def test_a_schema_need_not_be_that_of_a_record(tmp_path: Path, schema: object, content: object) -> None:
    form = form_of(tmp_path, schema)
    assert decoded(form, encoded(form, content)) == content


def test_of_a_union_the_first_type_that_fits_counts_unless_another_is_named(tmp_path: Path) -> None:
    named = [{"type": "record", "name": name, "fields": [{"name": "n", "type": "int"}]} for name in ("a.One", "a.Two")]
    form = form_of(tmp_path, ["null", "double", "long", *named])
    assert encoded(form, 1)[0] == 2
    assert encoded(form, {"long": 1}) == b"\4\2"
    assert encoded(form, {"a.Two": {"n": 1}}) == b"\x08\2"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "has no 'id' in the value, which Order needs"),
        ({"id": 1, "nota": "x"}, "has 'nota' in the value, which Order has no field for"),
        ({"id": "1"}, 'has "1" as the value.id, which is to be long'),
        ({"id": True}, "has true as the value.id, which is to be long"),
        ({"id": 1 << 63}, "has 9223372036854775808 as the value.id, which is too much for long"),
        ({"id": 1, "note": 2}, "has 2 as the value.note, which is to be null or string"),
        ({"id": 1, "state": "OLD"}, 'has "OLD" as the value.state, which is to be one of NEW, PAID'),
        ({"id": 1, "lines": {}}, "has {} as the value.lines, which is to be array"),
        ({"id": 1, "raw": "€"}, "has '€' as the value.raw, of which no byte is made"),
        ({"id": 1, "time": "noon"}, "has 'noon' as the value.time, which is no timestamp-millis"),
        ({"id": 1, "mark": "abc"}, "does not fit the Avro schema"),
        ([], "has [] as the value, which is to be Order"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(avro: RecordForm, content: object, said: str) -> None:
    with pytest.raises(NotOfSchema, match=re.escape(said)):
        encoded(avro, content)


def test_a_frame_is_written_with_its_number_and_passed_over(avro: RecordForm) -> None:
    data = encoded(avro._replace(schema_id=258), WHOLE)
    assert data[:5] == b"\0\0\0\1\2"
    assert decoded(avro._replace(framed=True), data) == WHOLE


def test_bytes_and_text_that_are_none_such_are_refused(avro: RecordForm) -> None:
    with pytest.raises(NotOfSchema, match="is no Avro of this schema"):
        decoded(avro, b"\2")
    encode = encoder_of(avro)
    assert encode is not None
    with pytest.raises(NotOfSchema, match="is not JSON"):
        encode(b"{")


# --- Protobuf ---


@pytest.fixture
def protobuf(tmp_path: Path) -> RecordForm:
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="unit_price", number=2, type=1, label=1)
    order.field.add(name="tags", number=3, type=9, label=3)
    path = tmp_path / "shop.desc"
    path.write_bytes(files.SerializeToString())
    return RecordForm("value", PROTOBUF, str(path))


@pytest.mark.parametrize("message", [None, "shop.Order"])
@pytest.mark.parametrize("schema_id", [None, 1])
def test_protobuf_is_json_and_comes_back_as_it_went(
    protobuf: RecordForm, message: str | None, schema_id: int | None
) -> None:
    form = protobuf._replace(message=message, schema_id=schema_id, framed=schema_id is not None)
    data = encoded(form, {"id": 7, "tags": ["ä"]})
    assert data == (b"" if schema_id is None else b"\0\0\0\0\1\0") + b"\x08\x07\x1a\x02\xc3\xa4"
    # Numbers of 64 bits are texts, as Protobuf's JSON has them: not every program could hold them otherwise.
    assert decoded(form, data) == {"id": "7", "unit_price": 0.0, "tags": ["ä"]}
    assert encoded(form, decoded(form, data)) == data


def test_what_no_message_is_is_refused(protobuf: RecordForm) -> None:
    with pytest.raises(NotOfSchema, match=r"does not fit the message shop\.Order"):
        encoded(protobuf, {"nothing": 1})
    with pytest.raises(NotOfSchema, match="is no Protobuf of this message"):
        decoded(protobuf, b"\x08")
    with pytest.raises(NotOfSchema, match="is no Protobuf of this message"):
        decoded(protobuf._replace(framed=True), b"\0")


# --- options ---


def test_types_without_a_schema_are_what_they_were() -> None:
    assert decoder_of(RecordForm("key", DataType.TEXT)) is None
    assert encoded(RecordForm("key", DataType.SHORT), 258) == b"\1\2"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (RecordForm("value", AVRO), "avro needs a schema: name its file"),
        (RecordForm("key", DataType.TEXT, schema="x"), "say --key-type avro or protobuf too"),
        (RecordForm("key", DataType.HEX, schema_id=1), "say --key-type avro or protobuf too"),
        (RecordForm("value", AVRO, "x", message="M"), "Avro has no messages to choose from"),
    ],
)
def test_options_that_do_not_go_together_are_refused(form: RecordForm, said: str) -> None:
    for make in (decoder_of, encoder_of):
        with pytest.raises(typer.BadParameter, match=said):
            make(form)


def test_a_frame_belongs_to_a_schema() -> None:
    check_framing(False, RecordForm("value", DataType.TEXT))
    check_framing(True, RecordForm("key", DataType.TEXT), RecordForm("value", AVRO))
    with pytest.raises(typer.BadParameter):
        check_framing(True, RecordForm("key", DataType.TEXT), RecordForm("value", DataType.LONG))


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        (AVRO, b"{", r"is no avro schema that can be used: "),
        (AVRO, b'{"type": "nothing"}', r"is no avro schema that can be used: "),
        (PROTOBUF, b"\0\0", r"is no protobuf schema that can be used: the schema is no descriptor set"),
    ],
)
def test_a_file_that_is_no_schema_is_a_sentence(tmp_path: Path, kind: DataType, content: bytes, said: str) -> None:
    file = tmp_path / "schema"
    file.write_bytes(content)
    for make in (decoder_of, encoder_of):
        with pytest.raises(Failure, match=said) as failure:
            make(RecordForm("value", kind, str(file)))
        assert "\n" not in str(failure.value)


def test_a_file_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(Failure, match="cannot read /nowhere/at-all: No such file or directory"):
        decoder_of(RecordForm("value", AVRO, "/nowhere/at-all"))


@pytest.mark.parametrize(("module", "extra"), [("fastavro", "avro"), ("google.protobuf", "protobuf")])
def test_a_library_that_is_missing_is_a_sentence(
    avro: RecordForm, monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for make in (decoder_of, encoder_of):
        with pytest.raises(Failure, match=re.escape(f"pip install 'ottla[{extra}]'")):
            make(avro._replace(kind=DataType(extra)))
