"""JSON as columns.

Owns: reading values with Arrow's JSON reader, and one by one where that cannot. Never knows: records, Spark.
Invariants: what Arrow reads is what reading one by one would give, so no neighbour decides how a value is judged; a
value never takes part in another's row.

One by one is as Spark reads JSON: a number or an object is text where text is wanted, a time may be seconds, bytes are
base64, an object is a map where a map is wanted. Arrow's reader is stricter, and is asked first.
"""

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ottla.spark.errors import BadOption
from ottla.spark.formats.decoding import (
    Decoded,
    Unreadable,
    bytes_of,
    check_decimals,
    decode_each,
    decode_together,
    holds_decimals,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf", "INF": "inf", "-INF": "-inf"}
_SPACE = " \t\r\n"
"""What JSON takes for space."""
Reader = Callable[[Any], Any]


class JsonDecoder:
    """Values that are JSON objects."""

    def __init__(self, row: pa.StructType) -> None:
        self._row = row
        self._read = reader_of(row)
        arrow = _arrow_reads(row)
        self._schema = None if arrow is None else pa.schema(list(arrow))
        self._decimals = holds_decimals(row)

    def decode(self, values: pa.Array) -> Decoded:
        if self._schema is None or not len(values):
            return self._singly(values)
        return decode_together(values, self._together, self._singly)

    def _together(self, values: pa.Array) -> pa.StructArray:
        """Each value is a line that begins with `{` and ends with `}`. Between two of them no comma can be, and no text
        of JSON holds a line's end, so each line has whole objects only; as many rows as lines means one in each."""
        assert self._schema is not None
        try:
            texts = pc.utf8_trim(values.fill_null(b"{}").cast(pa.string()), _SPACE)
            if not pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py():
                raise Unreadable
            lines = bytes_of(pc.binary_join_element_wise(texts, "\n", ""))
            table = pyarrow.json.read_json(
                pa.BufferReader(lines),
                pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
                pyarrow.json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != len(values):
                raise Unreadable
            columns = [table.column(field.name).combine_chunks().cast(field.type) for field in self._row]
            missing = values.is_null() if values.null_count else None
            rows = pa.StructArray.from_arrays(columns, fields=list(self._row), mask=missing)
            if self._decimals:
                check_decimals(rows)
            return rows
        except (pa.ArrowInvalid, UnicodeError) as problem:
            raise Unreadable from problem

    def _singly(self, values: pa.Array) -> Decoded:
        return decode_each(values, self._one, self._row)

    def _one(self, value: bytes) -> Any:
        try:
            return self._read(_decoder.decode(value.decode()))
        except RecursionError:  # Arrow takes any depth of what is passed over
            if self._schema is None:
                raise ValueError("it is nested too deeply") from None
        try:
            return self._together(pa.array([value], pa.binary()))[0].as_py()
        except Unreadable:
            raise ValueError("it is nested too deeply") from None


def _arrow_reads(kind: pa.DataType) -> pa.DataType | None:
    """What Arrow is asked for so that a cast gives `kind`; None where it cannot help."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _arrow_reads(field.type)) for field in kind]
        return None if any(each is None for _, each in fields) or not fields else pa.struct(fields)
    if pa.types.is_list(kind):
        element = _arrow_reads(kind.value_type)
        return None if element is None else pa.list_(pa.field(kind.value_field.name, element))
    if pa.types.is_date(kind):
        return pa.string()
    simple = (
        pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_timestamp,
        pa.types.is_decimal,
    )  # fmt: skip
    return kind if any(each(kind) for each in simple) else None


# --- one by one -------------------------------------------------------------------------------------------------------


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


_decoder = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def reader_of(kind: pa.DataType) -> Reader:
    """What makes a Python object for Arrow of a JSON value; ValueError when it is another kind of value."""
    types = pa.types
    if types.is_struct(kind):
        return _struct({field.name: reader_of(field.type) for field in kind})
    if types.is_list(kind):
        return _list(reader_of(kind.value_type))
    if types.is_map(kind) and types.is_string(kind.key_type):
        return _map(reader_of(kind.item_type))
    if types.is_integer(kind):
        return _integer(kind.bit_width)
    if types.is_decimal(kind):
        return _decimal(kind)
    if types.is_timestamp(kind):
        return _moment if kind.tz else _local_moment
    for fits, reader in (
        (types.is_boolean, _boolean),
        (types.is_floating, _float),
        (types.is_string, _string),
        (types.is_binary, _binary),
        (types.is_date, _date),
    ):
        if fits(kind):
            return reader
    raise BadOption(f"JSON has nothing for a column of type {kind}")


def _refused(value: Any, wanted: str) -> ValueError:
    shown = as_text(value)
    return ValueError(f"{shown[:40]}{'…' if len(shown) > 40 else ''} is no {wanted}")


def _struct(fields: dict[str, Reader]) -> Reader:
    def read(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise _refused(value, "object")
        row = {}
        for name, reader in fields.items():
            if name in value:
                try:
                    row[name] = reader(value[name])
                except ValueError as problem:
                    raise ValueError(f"{name}: {problem}") from None
        return row

    return read


def _list(element: Reader) -> Reader:
    def read(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise _refused(value, "array")
        return [element(each) for each in value]

    return read


def _map(item: Reader) -> Reader:
    def read(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise _refused(value, "object")
        return [(key, item(each)) for key, each in value.items()]

    return read


def _integer(bits: int) -> Reader:
    bound = 1 << (bits - 1)

    def read(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not _Number or not value.lstrip("-").isdigit():
            raise _refused(value, "whole number")
        number = int(value)
        if not -bound <= number < bound:
            raise _refused(value, f"number of {bits} bits")
        return number

    return read


def _decimal(kind: pa.DataType) -> Reader:
    unit = Decimal(1).scaleb(-kind.scale)
    bound = Decimal(10) ** (kind.precision - kind.scale)

    def read(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, str):
            raise _refused(value, "decimal")
        try:
            number = Decimal(value).quantize(unit, ROUND_HALF_UP)
        except ArithmeticError:
            raise _refused(value, "decimal") from None
        if not abs(number) < bound:
            raise _refused(value, f"decimal of {kind.precision} digits, {kind.scale} of them behind the point")
        return number

    return read


def _boolean(value: Any) -> Any:
    if value is not None and type(value) is not bool:
        raise _refused(value, "boolean")
    return value


def _float(value: Any) -> Any:
    if type(value) is _Number:
        return float(_NOT_FINITE.get(value, value))
    if type(value) is str and value in _NOT_FINITE:
        return float(_NOT_FINITE[value])
    if value is not None:
        raise _refused(value, "number")
    return None


def _string(value: Any) -> Any:
    return value if value is None or type(value) is str else as_text(value)


def _binary(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is not str:
        raise _refused(value, "base64")
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise _refused(value, "base64") from None


def _date(value: Any) -> Any:
    if value is None:
        return None
    try:
        return date.fromisoformat(value if type(value) is str else "")
    except ValueError:
        raise _refused(value, "date") from None


def _moment(value: Any) -> Any:
    if value is None:
        return None
    try:
        if type(value) is _Number:
            return _EPOCH + timedelta(seconds=int(value))
        read = datetime.fromisoformat(value if type(value) is str else "")
    except (ValueError, OverflowError):
        raise _refused(value, "time") from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _local_moment(value: Any) -> Any:
    read = _moment(value)
    return None if read is None else read.astimezone(UTC).replace(tzinfo=None)


def as_text(value: Any) -> str:
    """Parsed JSON, written again with its numbers as they were."""
    match value:
        case _Number():
            return str(value)
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{as_text(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(as_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
