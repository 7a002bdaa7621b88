"""Avro as columns, by `fastavro`, one value after another.

Owns: Avro schemas as columns and the other way, reading and writing values. Never knows: records, Spark's sessions.
Invariants: values are what the schema says, to the last byte: there is no registry here that would know another
writer's schema. Times of day stay numbers and UUIDs text, since Spark has no columns for them.
"""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa

from ottla.spark.errors import BadOption, BadRows
from ottla.spark.formats.decoding import Decoded, decode_each
from ottla.spark.formats.schemas import struct_ddl

_PRIMITIVE = {
    "null": "VOID",
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
}
_LOGICAL = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
_WIDER = ({"int", "long"}, "BIGINT"), ({"float", "double"}, "DOUBLE")


def avro_columns(schema: bytes) -> dict[str, str]:
    """The columns of a record, with their types in DDL."""
    return _Columns().record(_parsed(schema))


def _parsed(schema: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(schema)
    except ValueError as problem:
        raise BadOption(f"the schema is no JSON: {problem}") from None
    if not isinstance(parsed, Mapping) or parsed.get("type") != "record":
        raise BadOption("the schema is no Avro schema of a record, which columns need")
    return parsed


class _Columns:
    """Types on the way; names that were declared can be used again."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        self._open: set[str] = set()

    def record(self, schema: Mapping[str, Any]) -> dict[str, str]:
        name = schema.get("name", "")
        self._open.add(name)
        columns = {field["name"]: self._type(field["type"], field["name"]) for field in schema.get("fields", ())}
        self._open.discard(name)
        return columns

    def _type(self, schema: Any, where: str) -> str:
        match schema:
            case str():
                return self._by_name(schema, where)
            case list():
                return self._union(schema, where)
            case {"type": "record"}:
                return self._keep(schema, struct_ddl(self.record(schema)))
            case {"type": "enum"}:
                return self._keep(schema, "STRING")
            case {"type": "array", "items": items}:
                return f"ARRAY<{self._type(items, where)}>"
            case {"type": "map", "values": values}:
                return f"MAP<STRING, {self._type(values, where)}>"
            case {"type": ("bytes" | "fixed"), "logicalType": "decimal", "precision": precision}:
                return self._keep(schema, f"DECIMAL({precision}, {schema.get('scale', 0)})")
            case {"type": "fixed"}:
                return self._keep(schema, "BINARY")
            case {"type": ("int" | "long"), "logicalType": logical} if logical in _LOGICAL:
                return _LOGICAL[logical]
            case {"type": kind}:
                return self._type(kind, where)
        raise BadOption(f"the Avro schema does not say what {where} is")

    def _by_name(self, name: str, where: str) -> str:
        short = name.rpartition(".")[2]
        if name in _PRIMITIVE:
            return _PRIMITIVE[name]
        if short in self._named:
            return self._named[short]
        if short in self._open:
            raise BadOption(f"the Avro schema's {where} contains itself, which no column can")
        raise BadOption(f"the Avro schema has no type {name}, which {where} is said to be")

    def _union(self, schemas: list[Any], where: str) -> str:
        kinds = [each for each in schemas if each != "null"]
        if len(kinds) == 1:
            return self._type(kinds[0], where)
        for members, wide in _WIDER:
            if kinds and all(isinstance(each, str) and each in members for each in kinds):
                return wide
        raise BadOption(f"the Avro schema gives {where} several types, a column has one")

    def _keep(self, schema: Mapping[str, Any], kind: str) -> str:
        self._named[schema.get("name", "").rpartition(".")[2]] = kind
        return kind


def load_schema(schema: Mapping[str, Any]) -> Any:
    """The schema as the library wants it."""
    try:
        import fastavro
    except ImportError:
        raise BadOption("format=avro needs fastavro, on executors too: pip install 'ottla[avro]'") from None
    try:
        return fastavro.parse_schema(_without_times_of_day(schema))
    except Exception as problem:  # the library's own, and whatever odd JSON makes it stumble over
        raise BadOption(f"the Avro schema is refused: {problem}") from None


def _without_times_of_day(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_times_of_day(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    dropped = schema.get("logicalType") in ("time-millis", "time-micros", "uuid")
    return {
        name: _without_times_of_day(each) if name in ("type", "items", "values", "fields") else each
        for name, each in schema.items()
        if not (dropped and name == "logicalType")
    }


class AvroDecoder:
    """Values of one schema."""

    def __init__(self, row: pa.StructType, schema: bytes) -> None:
        self._schema = load_schema(_parsed(schema))
        self._row = row

    def decode(self, values: pa.Array) -> Decoded:
        import fastavro

        def read(value: bytes) -> Any:
            stream = BytesIO(value)
            row = fastavro.schemaless_reader(stream, self._schema)
            if stream.tell() != len(value):
                raise ValueError(f"{len(value) - stream.tell()} bytes are left over")
            return row

        return decode_each(values, read, self._row)


class AvroEncoder:
    """Rows of one schema; of the rows' own where the user gave none."""

    def __init__(self, row: pa.StructType, schema: bytes) -> None:
        self._schema = load_schema(_parsed(schema) if schema else _record_of(row, "row"))

    def encode(self, rows: pa.StructArray) -> pa.Array:
        import fastavro

        values: list[bytes | None] = []
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            if row is None:
                values.append(None)
                continue
            stream = BytesIO()
            try:
                fastavro.schemaless_writer(stream, self._schema, row)
            except Exception as problem:  # the library says in many ways that a row does not fit
                raise BadRows(f"a row does not fit the Avro schema: {str(problem) or type(problem).__name__}") from None
            values.append(stream.getvalue())
        return pa.array(values, pa.binary())


def _record_of(row: pa.StructType, name: str) -> dict[str, Any]:
    fields = [
        {"name": field.name, "type": ["null", _type_of(field.type, f"{name}_{field.name}")], "default": None}
        for field in row
    ]
    return {"type": "record", "name": name, "fields": fields}


def _type_of(kind: pa.DataType, name: str) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return _record_of(kind, name)
    if types.is_list(kind):
        return {"type": "array", "items": ["null", _type_of(kind.value_type, name)]}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _type_of(kind.item_type, name)]}
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    for fits, simple in (
        (types.is_boolean, "boolean"),
        (types.is_int64, "long"),
        (types.is_integer, "int"),
        (types.is_float64, "double"),
        (types.is_floating, "float"),
        (types.is_string, "string"),
        (types.is_binary, "bytes"),
        (types.is_date, {"type": "int", "logicalType": "date"}),
    ):
        if fits(kind):
            return simple
    raise BadOption(f"Avro has nothing for a column of type {kind}")
