"""Protobuf as columns, by Google's library, one value after another.

Owns: messages as columns, reading and writing values. Never knows: records, Spark's sessions.
Invariants: the descriptor set is all that is needed, no generated code; a field that knows whether it was set is null
when it was not, any other has its default.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

from ottla.client import protobuf_messages
from ottla.spark.errors import BadOption, BadRows
from ottla.spark.formats.decoding import Decoded, decode_each
from ottla.spark.formats.schemas import struct_ddl

_DDL = {
    "double": "DOUBLE",
    "float": "FLOAT",
    "int32": "INT",
    "int64": "BIGINT",
    "uint32": "BIGINT",
    "uint64": "DECIMAL(20, 0)",
    "bool": "BOOLEAN",
    "enum": "STRING",
}
_TIMESTAMP = "google.protobuf.Timestamp"


@cache
def message_class(descriptors: bytes, name: str) -> Any:
    """The class of a message in what `protoc --descriptor_set_out --include_imports` writes."""
    try:
        return protobuf_messages.message_class(descriptors, name)
    except ImportError:
        raise BadOption("format=protobuf needs protobuf, on executors too: pip install 'ottla[protobuf]'") from None
    except protobuf_messages.BadDescriptors as problem:
        raise BadOption(f"messageName and schema do not do: {problem}") from None


def protobuf_columns(descriptors: bytes, name: str) -> dict[str, str]:
    """The columns of a message, with their types in DDL."""
    return _columns(message_class(descriptors, name).DESCRIPTOR, ())


def _columns(message: Any, inside: tuple[str, ...]) -> dict[str, str]:
    if message.full_name in inside:
        raise BadOption(f"message {message.full_name} contains itself, which no column can")
    inside = (*inside, message.full_name)
    return {field.name: _column(field, inside) for field in message.fields}


def _column(field: Any, inside: tuple[str, ...]) -> str:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"MAP<{_single(key, inside)}, {_single(value, inside)}>"
    single = _single(field, inside)
    return f"ARRAY<{single}>" if is_repeated(field) else single


def _single(field: Any, inside: tuple[str, ...]) -> str:
    kind = kind_of(field)
    if kind == "message":
        is_time = field.message_type.full_name == _TIMESTAMP
        return "TIMESTAMP" if is_time else struct_ddl(_columns(field.message_type, inside))
    if kind == "string":
        return "BINARY" if field.type == field.TYPE_BYTES else "STRING"
    return _DDL[kind]


def kind_of(field: Any) -> str:
    """The kind of Python object a field has."""
    kinds = {
        field.CPPTYPE_DOUBLE: "double",
        field.CPPTYPE_FLOAT: "float",
        field.CPPTYPE_INT32: "int32",
        field.CPPTYPE_INT64: "int64",
        field.CPPTYPE_UINT32: "uint32",
        field.CPPTYPE_UINT64: "uint64",
        field.CPPTYPE_BOOL: "bool",
        field.CPPTYPE_ENUM: "enum",
        field.CPPTYPE_STRING: "string",
        field.CPPTYPE_MESSAGE: "message",
    }
    return kinds[field.cpp_type]


def is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def is_map(field: Any) -> bool:
    return kind_of(field) == "message" and field.message_type.GetOptions().map_entry


class ProtobufDecoder:
    """Values of one message."""

    def __init__(self, row: pa.StructType, descriptors: bytes, name: str, framed: bool) -> None:
        self._class = message_class(descriptors, name)
        self._row = row
        self._framed = framed

    def decode(self, values: pa.Array) -> Decoded:
        parse = self._class.FromString
        if self._framed:
            return decode_each(values, lambda value: _row(parse(protobuf_messages.behind_place(value))), self._row)
        return decode_each(values, lambda value: _row(parse(value)), self._row)


def _row(message: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        name = field.name
        if is_repeated(field):
            row[name] = _repeated(field, getattr(message, name))
        elif not field.has_presence or message.HasField(name):
            row[name] = _value(field, getattr(message, name))
    return row


def _repeated(field: Any, values: Any) -> Any:
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return [(key, _value(inner, values[key])) for key in values]
    return [_value(field, each) for each in values]


def _value(field: Any, value: Any) -> Any:
    kind = kind_of(field)
    if kind == "enum":
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if kind == "message":
        if field.message_type.full_name == _TIMESTAMP:
            from datetime import UTC

            return value.ToDatetime(UTC)
        return _row(value)
    return value


class ProtobufEncoder:
    """Rows as messages."""

    def __init__(self, row: pa.StructType, descriptors: bytes, name: str, framed: bool) -> None:
        self._class = message_class(descriptors, name)
        known = self._class.DESCRIPTOR.fields_by_name
        unknown = [field.name for field in row if field.name not in known]
        if unknown:
            raise BadOption(f"message {name} has no field for column {unknown[0]}: leave it out of the rows")
        self._before = protobuf_messages.write_place(self._class.DESCRIPTOR) if framed else b""

    def encode(self, rows: pa.StructArray) -> pa.Array:
        values: list[bytes | None] = []
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            if row is None:
                values.append(None)
                continue
            message = self._class()
            try:
                _fill(message, row)
                values.append(self._before + message.SerializeToString())
            except (TypeError, ValueError, KeyError, AttributeError) as problem:
                raise BadRows(f"a row does not fit the message {message.DESCRIPTOR.full_name}: {problem}") from None
        return pa.array(values, pa.binary())


def _fill(message: Any, row: dict[str, Any]) -> None:
    for name, value in row.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name[name]
        if is_map(field):
            _fill_map(getattr(message, name), field.message_type.fields_by_name["value"], value)
        elif is_repeated(field):
            _fill_list(getattr(message, name), field, value)
        elif kind_of(field) == "message":
            _fill_message(getattr(message, name), value)
        else:
            setattr(message, name, _plain(field)(value))


def _fill_map(entries: Any, field: Any, values: dict[Any, Any]) -> None:
    for key, value in values.items():
        if kind_of(field) == "message":
            _fill_message(entries[key], value)
        else:
            entries[key] = _plain(field)(value)


def _fill_list(elements: Any, field: Any, values: list[Any]) -> None:
    for value in values:
        if kind_of(field) == "message":
            _fill_message(elements.add(), value)
        else:
            elements.append(_plain(field)(value))


def _fill_message(message: Any, value: Any) -> None:
    message.SetInParent()
    if message.DESCRIPTOR.full_name == _TIMESTAMP:
        message.FromDatetime(value)
    elif value is not None:
        _fill(message, value)


def _plain(field: Any) -> Callable[[Any], Any]:
    kind = kind_of(field)
    if kind == "enum":
        return lambda value: field.enum_type.values_by_name[value].number
    if kind == "uint64":
        return int
    return lambda value: value
