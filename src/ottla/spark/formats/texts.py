"""Rows as JSON and CSV, column by column: Arrow puts the texts together, no Python object is made for a row.

Owns: how each type is written. Never knows: records, framing. Invariants: JSON is as Spark's `to_json` writes it:
fields that are null are left out, times are UTC, bytes are base64, numbers that JSON lacks are texts.
"""

import json
from base64 import b64encode
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.errors import BadOption

_SPECIAL = r'["\\\x00-\x1f]'
_SHORT = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
Write = Callable[[pa.Array], pa.Array]


def _join(*parts: pa.Array | str) -> pa.Array:
    """Null where a part is."""
    return pc.binary_join_element_wise(*parts, "")


class JsonEncoder:
    """Rows as objects."""

    def __init__(self, row: pa.StructType) -> None:
        self._write = json_writer(row)

    def encode(self, rows: pa.StructArray) -> pa.Array:
        return self._write(rows)


def json_writer(kind: pa.DataType) -> Write:
    """What writes an array of this type as JSON texts, null where it is null."""
    types = pa.types
    if types.is_struct(kind):
        return _objects(kind)
    if types.is_list(kind):
        return _arrays(kind)
    if types.is_map(kind) and types.is_string(kind.key_type):
        return _maps(kind)
    for fits, write in (
        (types.is_boolean, _plain),
        (types.is_integer, _plain),
        (types.is_decimal, _plain),
        (types.is_floating, _floats),
        (types.is_string, _strings),
        (types.is_date, lambda array: _join('"', _plain(array), '"')),
        (types.is_timestamp, lambda array: _join('"', moments(array), '"')),
        (types.is_binary, _bytes),
    ):
        if fits(kind):
            return write
    raise BadOption(f"JSON has nothing for a column of type {kind}")


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _floats(array: pa.Array) -> pa.Array:
    texts = _plain(array)
    finite = pc.is_finite(array)
    if pc.all(finite).as_py() is not False:
        return texts
    for found, written in (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        texts = pc.if_else(pc.equal(texts, found), written, texts)
    return texts


def _strings(array: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(array, _SPECIAL)).as_py():
        for found, written in _SHORT:
            array = pc.replace_substring(array, found, written)
        if pc.any(pc.match_substring_regex(array, r"[\x00-\x1f]")).as_py():
            array = pa.array([_without_control(each) for each in array.to_pylist()], pa.string())
    return _join('"', array, '"')


def _without_control(text: str | None) -> str | None:
    return None if text is None else "".join(each if each >= " " else json.dumps(each)[1:-1] for each in text)


def _bytes(array: pa.Array) -> pa.Array:
    texts = [None if each is None else f'"{b64encode(each).decode()}"' for each in array.to_pylist()]
    return pa.array(texts, pa.string())


def moments(array: pa.Array) -> pa.Array:
    """Times to the microsecond; those that have a zone in UTC."""
    texts = pc.replace_substring(array.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    return _join(texts, "Z") if array.type.tz else texts


def _objects(kind: pa.StructType) -> Write:
    writers = [(f",{json.dumps(field.name, ensure_ascii=False)}:", json_writer(field.type)) for field in kind]

    def write(array: pa.Array) -> pa.Array:
        pieces = [
            _join(before, writer(column)).fill_null("")
            for (before, writer), column in zip(writers, array.flatten(), strict=True)
        ]
        body = pc.utf8_slice_codeunits(_join(*pieces), 1) if pieces else pa.array([""] * len(array))
        return _null_as(array, _join("{", body, "}"))

    return write


def _arrays(kind: pa.ListType) -> Write:
    element = json_writer(kind.value_type)

    def write(array: pa.Array) -> pa.Array:
        return _null_as(array, _join("[", _joined(array.offsets, element(array.values)), "]"))

    return write


def _maps(kind: pa.MapType) -> Write:
    item = json_writer(kind.item_type)

    def write(array: pa.Array) -> pa.Array:
        entries = _join(_strings(array.keys), ":", item(array.items).fill_null("null"))
        return _null_as(array, _join("{", _joined(array.offsets, entries), "}"))

    return write


def _joined(offsets: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts.fill_null("null")), ",")


def _null_as(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string())) if array.null_count else texts


class CsvEncoder:
    """Rows as rows."""

    def __init__(self, row: pa.StructType, separator: str, null_text: str) -> None:
        self._separator = separator
        self._null = null_text
        self._special = rf'["\r\n\x{ord(separator):02x}]'
        self._writers = [self._writer(field) for field in row]

    def _writer(self, field: pa.Field) -> Write:
        types = pa.types
        if types.is_string(field.type):
            return self._strings
        if types.is_timestamp(field.type):
            return moments
        if any(fits(field.type) for fits in (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)):
            return _plain
        if types.is_date(field.type):
            return _plain
        raise BadOption(f"CSV has nothing for column {field.name} of type {field.type}")

    def _strings(self, array: pa.Array) -> pa.Array:
        """In quotes where they would be taken for something else."""
        unclear = pc.or_(pc.match_substring_regex(array, self._special), pc.equal(array, self._null))
        if not pc.any(unclear).as_py():
            return array
        return pc.if_else(unclear, _join('"', pc.replace_substring(array, '"', '""'), '"'), array)

    def encode(self, rows: pa.StructArray) -> pa.Array:
        texts = [
            writer(column).fill_null(self._null) for writer, column in zip(self._writers, rows.flatten(), strict=True)
        ]
        return _null_as(rows, pc.binary_join_element_wise(*texts, self._separator))
