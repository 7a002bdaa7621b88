"""The columns of a typed read, in Spark's DDL.

Owns: putting together the record's columns and those of the value, and the schema languages of JSON: DDL, Spark's own
JSON, JSON Schema. Never knows: records, how values are read. Invariants: what a language says and columns cannot is a
`BadOption`; every column may be null, since every value may be.
"""

import json
from collections.abc import Mapping
from typing import Any

from ottla.spark.columns import record_columns
from ottla.spark.errors import BadOption
from ottla.spark.formats.options import PERMISSIVE, Form

_PLAIN = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_TEXTS = {"date-time": "TIMESTAMP", "date": "DATE"}


def typed_schema(form: Form, include_headers: bool) -> str:
    """All columns of a read."""
    record = {
        form.record_prefix + name: kind for name, kind in record_columns(include_headers).items() if name != "value"
    }
    corrupt = {form.corrupt_column: "BINARY"} if form.mode == PERMISSIVE else {}
    return ", ".join(filter(None, [columns_ddl(record), value_schema(form), columns_ddl(corrupt)]))


def value_schema(form: Form) -> str:
    """The columns of the value."""
    if not form.schema:
        raise BadOption(
            f"format={form.name} needs a schema: set schema or schemaFile, or give the reader one with schema()"
        )
    if form.name == "avro":
        from ottla.spark.formats.avro_values import avro_columns

        return columns_ddl(avro_columns(form.schema))
    if form.name == "protobuf":
        from ottla.spark.formats.protobuf_values import protobuf_columns

        return columns_ddl(protobuf_columns(form.schema, form.message))
    text = _text(form.schema)
    return columns_ddl(_json_columns(text)) if text.startswith("{") else text


def columns_ddl(columns: Mapping[str, str]) -> str:
    """As a table's columns are declared."""
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())


def struct_ddl(fields: Mapping[str, str]) -> str:
    return f"STRUCT<{', '.join(f'{quoted(name)}: {kind}' for name, kind in fields.items())}>"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(schema: bytes) -> str:
    try:
        return schema.decode().strip()
    except UnicodeDecodeError:
        raise BadOption("the schema is no text") from None


def _json_columns(text: str) -> dict[str, str]:
    try:
        schema = json.loads(text)
    except ValueError as problem:
        raise BadOption(f"the schema is no JSON: {problem}") from None
    if schema.get("type") == "struct":
        return _spark_fields(schema)
    if schema.get("type") == "object" or "properties" in schema:
        return JsonSchema(schema).columns()
    raise BadOption(
        'the schema is neither a JSON Schema of an object nor Spark\'s JSON of a struct ("type" says which)'
    )


def _spark_fields(struct: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {field["name"]: _spark_type(field["type"]) for field in struct["fields"]}
    except (KeyError, TypeError):
        raise BadOption("the schema is not as Spark writes the JSON of a struct") from None


def _spark_type(kind: Any) -> str:
    match kind:
        case str():
            return {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}.get(kind, kind)
        case {"type": "struct"}:
            return struct_ddl(_spark_fields(kind))
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{_spark_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{_spark_type(key)}, {_spark_type(value)}>"
    raise BadOption(f"the schema has a type that columns cannot have: {kind}")


class JsonSchema:
    """A JSON Schema of objects."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._open: list[str] = []

    def columns(self) -> dict[str, str]:
        return self._properties(self._schema)

    def _properties(self, schema: Mapping[str, Any]) -> dict[str, str]:
        return {name: self._type(each, name) for name, each in schema.get("properties", {}).items()}

    def _type(self, schema: Any, where: str) -> str:
        if not isinstance(schema, Mapping):
            raise BadOption(f"the schema does not say what {where} is")
        if "$ref" in schema:
            return self._referred(schema["$ref"], where)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                kinds = [each for each in schema[word] if each != {"type": "null"}]
                if len(kinds) == 1:
                    return self._type(kinds[0], where)
                raise BadOption(f"the schema gives {where} several types, a column has one: give it type string")
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [each for each in kind if each != "null"]
            kind = kinds[0] if len(kinds) == 1 else "several types"
        if kind is None:
            kind = self._type_of_constants(schema)
        if kind == "object":
            return self._object(schema, where)
        if kind == "array":
            return f"ARRAY<{self._type(schema.get('items'), where)}>"
        if kind == "string":
            return _TEXTS.get(schema.get("format", ""), "STRING")
        if kind in _PLAIN:
            return _PLAIN[kind]
        raise BadOption(f"the schema says that {where} is {kind}: a column needs one type")

    def _object(self, schema: Mapping[str, Any], where: str) -> str:
        if schema.get("properties"):
            return struct_ddl(self._properties(schema))
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping) and others:
            return f"MAP<STRING, {self._type(others, where)}>"
        return "STRING"  # anything: its text

    def _type_of_constants(self, schema: Mapping[str, Any]) -> str:
        values = [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]
        texts = values and all(isinstance(each, str) for each in values if each is not None)
        return "string" if texts else "object" if "properties" in schema else "without a type"

    def _referred(self, reference: str, where: str) -> str:
        if reference in self._open:
            raise BadOption(f"the schema's {where} contains itself, which no column can")
        place: Any = self._schema
        for step in reference.removeprefix("#").strip("/").split("/"):
            place = place.get(step) if isinstance(place, Mapping) else None
        if not reference.startswith("#") or place is None:
            raise BadOption(f"the schema refers to {reference}, which is not in it")
        self._open.append(reference)
        try:
            return self._type(place, where)
        finally:
            self._open.pop()
