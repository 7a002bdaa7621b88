"""Keys and values that are numbers in Kafka's binary forms, as text.

Owns: the names of all types, both directions for Kafka's own serializers, and two spellings of any bytes. Never knows:
records, files, types that need a schema (`record_schemas`).
Invariant: what `decoder` prints, `encoder` of the same type reads back as the same bytes (a float shows its shortest
text that does so).
"""

import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

Convert: TypeAlias = Callable[[bytes | None], bytes | None]


class DataType(StrEnum):
    """What the bytes are; `text` leaves them alone."""

    TEXT = "text"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    HEX = "hex"
    BASE64 = "base64"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class NotOfSchema(ValueError):
    """Bytes or text that a schema does not take."""


NAMES_OF_TYPES = ", ".join(DataType)

_WHOLE = {
    DataType.SHORT: struct.Struct(">h"),
    DataType.INTEGER: struct.Struct(">i"),
    DataType.LONG: struct.Struct(">q"),
}
_BROKEN = {DataType.FLOAT: struct.Struct(">f"), DataType.DOUBLE: struct.Struct(">d")}


def decoder(kind: DataType) -> Convert | None:
    """From a record's bytes to text; None when there is nothing to do. ValueError for bytes that are none such."""
    if kind is DataType.TEXT:
        return None
    if kind is DataType.HEX:
        return unless_null(lambda data: data.hex().encode())
    if kind is DataType.BASE64:
        return unless_null(b64encode)
    form = _WHOLE.get(kind) or _BROKEN[kind]
    show = _float_text if kind is DataType.FLOAT else repr

    def decode(data: bytes) -> bytes:
        if len(data) != form.size:
            raise ValueError(f"is {len(data)} bytes, and a {kind} has {form.size}")
        return show(form.unpack(data)[0]).encode()

    return unless_null(decode)


def encoder(kind: DataType) -> Convert | None:
    """From text to the bytes of a record; None when there is nothing to do. ValueError for text that is none such."""
    if kind is DataType.TEXT:
        return None
    if kind is DataType.HEX:
        return unless_null(lambda text: bytes.fromhex(text.decode()))
    if kind is DataType.BASE64:
        return unless_null(lambda text: b64decode(text, validate=True))
    form: struct.Struct = _WHOLE.get(kind) or _BROKEN[kind]
    read: Callable[[bytes], int | float] = int if kind in _WHOLE else float

    def encode(text: bytes) -> bytes:
        try:
            return form.pack(read(text))
        except (ValueError, struct.error, OverflowError):
            raise ValueError(f"has {text.decode(errors='replace')!r}, which is no {kind}") from None

    return unless_null(encode)


def unless_null(convert: Callable[[bytes], bytes]) -> Convert:
    """The same for what may be null, which stays so."""
    return lambda data: None if data is None else convert(data)


def _float_text(number: float) -> str:
    """The shortest text that is the same number of four bytes."""
    narrow = _BROKEN[DataType.FLOAT]
    for digits in range(6, 10):
        text = f"{number:.{digits}g}"
        if narrow.pack(float(text)) == narrow.pack(number):
            return text
    return repr(number)
