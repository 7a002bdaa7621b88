"""What JSON says, as the objects that an Avro schema wants.

Owns: which of JSON's values stand for which of Avro's: bytes as Avro's own JSON has them (a character each), times in
ISO's form, decimal numbers as text. Never knows: bytes of Avro, options. Invariant: a value that does not fit is told
with its place, and never sent as something near it.
"""

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.cli.record_types import NotOfSchema


class Fitting:
    """JSON's values as the objects that an Avro schema wants; NotOfSchema says where one does not fit.

    Of a union the first type counts that a value fits; {"type": value}, as Avro's own JSON has it, names another.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._whole: dict[str, str] = {}
        """The names of types with the space of names they are in."""
        self._remember(schema, "")

    def __call__(self, content: Any) -> Any:
        return self._fit(self._schema, content, "the value")

    def _remember(self, schema: Any, space: str) -> None:
        """Types that can be used again by their names."""
        if isinstance(schema, list):
            for each in schema:
                self._remember(each, space)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if "name" in schema and kind in ("record", "error", "enum", "fixed"):
                space = schema.get("namespace", schema["name"].rpartition(".")[0] or space)
                short = schema["name"].rpartition(".")[2]
                whole = f"{space}.{short}".lstrip(".")
                self._named[short] = self._named[whole] = schema
                self._whole[short] = self._whole[whole] = whole
            for field in schema.get("fields", ()):
                self._remember(field["type"], space)
            for inner in (schema.get("items"), schema.get("values"), kind):
                if isinstance(inner, dict | list):
                    self._remember(inner, space)

    def _fit(self, schema: Any, content: Any, where: str) -> Any:
        if isinstance(schema, list):
            return self._union(schema, content, where)
        if isinstance(schema, str):
            named = self._named.get(schema)
            return _primitive(schema, content, where) if named is None else self._fit(named, content, where)
        kind = schema["type"]
        if isinstance(kind, dict | list) or kind in self._named:
            return self._fit(kind, content, where)
        if kind in ("record", "error"):
            return self._record(schema, content, where)
        if kind == "array" and isinstance(content, list):
            return [self._fit(schema["items"], each, where) for each in content]
        if kind == "map" and isinstance(content, dict):
            return {name: self._fit(schema["values"], each, f"{where}.{name}") for name, each in content.items()}
        if kind == "enum" and content in schema["symbols"]:
            return content
        if kind in ("array", "map", "enum"):
            raise NotOfSchema(f"has {_shown(content)} as {where}, which is to be {_wanted(schema)}")
        logical = _LOGICAL.get(schema.get("logicalType", ""))
        if logical is not None and isinstance(content, str):
            try:
                return logical(content)
            except (ValueError, ArithmeticError):
                raise NotOfSchema(f"has {content!r} as {where}, which is no {schema['logicalType']}") from None
        return _primitive("bytes" if kind == "fixed" else kind, content, where)

    def _record(self, schema: Mapping[str, Any], content: Any, where: str) -> dict[str, Any]:
        if not isinstance(content, dict):
            raise NotOfSchema(f"has {_shown(content)} as {where}, which is to be {_wanted(schema)}")
        fields = {field["name"]: field for field in schema["fields"]}
        for name in content:
            if name not in fields:
                raise NotOfSchema(f"has {name!r} in {where}, which {schema['name']} has no field for")
        for name, field in fields.items():
            if name not in content and "default" not in field:
                raise NotOfSchema(f"has no {name!r} in {where}, which {schema['name']} needs")
        return {name: self._fit(fields[name]["type"], each, f"{where}.{name}") for name, each in content.items()}

    def _union(self, schemas: list[Any], content: Any, where: str) -> Any:
        tagged = next(iter(content.items())) if isinstance(content, dict) and len(content) == 1 else None
        for schema in schemas:
            try:
                return self._fit(schema, content, where)
            except NotOfSchema:
                continue
        for schema in schemas:
            name = self._whole.get(_name(schema), _name(schema))
            if tagged is not None and tagged[0] in (name, _name(schema)):
                return name, self._fit(schema, tagged[1], where)
        raise NotOfSchema(
            f"has {_shown(content)} as {where}, which is to be {' or '.join(_wanted(each) for each in schemas)}"
        )


def _primitive(kind: str, content: Any, where: str) -> Any:
    wanted = _PRIMITIVE.get(kind)
    number = isinstance(content, int | float) and not isinstance(content, bool)
    if wanted is None or not isinstance(content, wanted) or (kind in _NUMBERS and not number):
        raise NotOfSchema(f"has {_shown(content)} as {where}, which is to be {_wanted(kind)}")
    bound = _BOUNDS.get(kind)
    if bound is not None and not -bound <= content < bound:
        raise NotOfSchema(f"has {content} as {where}, which is too much for {kind}")
    if kind == "bytes":
        try:
            return content.encode("latin-1")
        except UnicodeEncodeError:
            raise NotOfSchema(f"has {content!r} as {where}, of which no byte is made") from None
    return content


_NUMBERS = frozenset({"int", "long", "float", "double"})
_BOUNDS = {"int": 1 << 31, "long": 1 << 63}
_PRIMITIVE: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": int | float,
    "double": int | float,
    "bytes": str,
    "string": str,
}


_LOGICAL: dict[str, Callable[[str], Any]] = {
    "timestamp-millis": datetime.fromisoformat,
    "timestamp-micros": datetime.fromisoformat,
    "local-timestamp-millis": datetime.fromisoformat,
    "local-timestamp-micros": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "decimal": Decimal,
}


def _shown(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"


def _name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name") or schema.get("type"))


def _wanted(schema: Any) -> str:
    return (
        f"one of {', '.join(schema['symbols'])}" if isinstance(schema, dict) and "symbols" in schema else _name(schema)
    )
