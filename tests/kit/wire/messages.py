"""Kafka messages as plain dictionaries, through kio's codec, which shares nothing with ottla's own.

`encode` leaves out fields that a version does not have, so one table of fields serves every version of an API; a field
that no version has is a mistake in the test and fails. `decode` refuses bytes left over after the message.
"""

from __future__ import annotations

import datetime
import enum
import io
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

Fields = Mapping[str, Any]
Answer = dict[str, Any]

API_KEYS: dict[str, int] = {name: key for key, name in api_key_map.items()}
ZERO_ID = uuid.UUID(int=0)
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_ZEROS: dict[str, object] = {
    "bool": False, "string": "", "bytes": b"", "records": None, "uuid": ZERO_ID, "float64": 0.0,
    "timedelta_i32": datetime.timedelta(0), "timedelta_i64": datetime.timedelta(0), "error_code": ErrorCode.none,
}  # fmt: skip


def versions(api: str) -> range:
    """Every version of an API that the codec knows."""
    known = [version for version, types in schema_name_map[api].items() if EntityType.request in types]
    return range(min(known), max(known) + 1)


def encode(api: str, version: int, values: Fields, correlation: int, client: str | None = "test") -> bytes:
    """A whole request frame, without its length."""
    schema: Any = load_request_schema(API_KEYS[api], version)
    _refuse_unknown(api, values)
    header_schema = schema.__header_schema__
    header = {"request_api_key": API_KEYS[api], "request_api_version": version, "correlation_id": correlation}
    buffer = io.BytesIO()
    entity_writer(header_schema)(buffer, _build(header_schema, {**header, "client_id": client}))
    entity_writer(schema)(buffer, _build(schema, values))
    return buffer.getvalue()


def decode(api: str, version: int, frame: bytes) -> tuple[int, Answer]:
    """The correlation id and the fields of a response frame."""
    schema: Any = load_response_schema(API_KEYS[api], version)
    _let_times_be_absent(schema)
    header, size = entity_reader(schema.__header_schema__)(frame, 0)
    body, body_size = entity_reader(schema)(frame, size)
    left = len(frame) - size - body_size
    assert left == 0, f"{left} bytes left over after a {api} response of version {version}"
    return header.correlation_id, _plain(body)


@cache
def _let_times_be_absent(schema: Any) -> None:
    """Kafka says -1 where there is no time, also in fields that the codec takes for times that are always there."""
    for field in fields(schema):
        inner = _inner_type(field.type)
        if is_dataclass(inner):
            _let_times_be_absent(inner)  # type: ignore[arg-type]
        elif field.metadata.get("kafka_type") == "datetime_i64" and not isinstance(field.type, UnionType):
            field.type = field.type | None  # type: ignore[operator]


@cache
def _field_names(api: str) -> frozenset[str]:
    def names(schema: Any) -> Iterator[str]:
        for field in fields(schema):
            yield field.name
            inner = _inner_type(field.type)
            if is_dataclass(inner):
                yield from names(inner)

    key = API_KEYS[api]
    return frozenset(name for version in versions(api) for name in names(load_request_schema(key, version)))


def _refuse_unknown(api: str, values: object) -> None:
    if isinstance(values, Mapping):
        unknown = set(values) - _field_names(api)
        assert not unknown, f"no version of {api} has {sorted(unknown)}; there are {sorted(_field_names(api))}"
        for value in values.values():
            _refuse_unknown(api, value)
    elif isinstance(values, list | tuple):
        for value in values:
            _refuse_unknown(api, value)


def _inner_type(kind: Any) -> Any:
    """The type of a field without its optionality and without the tuple around it."""
    if get_origin(kind) is UnionType:
        kind = next(argument for argument in get_args(kind) if argument is not NoneType)
    if get_origin(kind) is tuple:
        return _inner_type(get_args(kind)[0])
    return kind


def _is_array(kind: Any) -> bool:
    if get_origin(kind) is UnionType:
        return any(get_origin(argument) is tuple for argument in get_args(kind))
    return get_origin(kind) is tuple


def _build(schema: Any, values: Fields) -> Any:
    return schema(**{field.name: _field_value(field, values) for field in fields(schema)})


def _field_value(field: Field[Any], values: Fields) -> Any:
    inner = _inner_type(field.type)
    kind = field.metadata.get("kafka_type", "")
    if field.name not in values:
        if field.default is not MISSING:
            return field.default
        if _is_array(field.type):
            return ()
        return _build(inner, {}) if is_dataclass(inner) else _ZEROS.get(kind, 0)
    value = values[field.name]
    if value is None:
        return None
    if _is_array(field.type):
        return tuple(_build(inner, item) if is_dataclass(inner) else _scalar(kind, item) for item in value)
    return _build(inner, value) if is_dataclass(inner) else _scalar(kind, value)


def _scalar(kind: str, value: Any) -> Any:
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kind == "datetime_i64":
        return _EPOCH + datetime.timedelta(milliseconds=value)
    return value


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain_field(field, getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, datetime.datetime):
        return round((value - _EPOCH).total_seconds() * 1000)
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, bool | NoneType | bytes | uuid.UUID | float):
        return value
    return int(value) if isinstance(value, int) else str(value)


def _plain_field(field: Field[Any], value: Any) -> Any:
    if value is None and not _is_array(field.type):
        kind = field.metadata.get("kafka_type")
        return {"uuid": ZERO_ID, "datetime_i64": -1}.get(kind or "")
    return _plain(value)
