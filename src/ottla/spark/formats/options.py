"""The options that give values a type.

Owns: their names and what goes together. Never knows: records, clusters, how a format is read.
Invariants: whatever is wrong is a `BadOption`; what is parsed can be pickled, and needs no file any more.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.spark.errors import BadOption

FORMATS = ("json", "avro", "protobuf", "csv")
FAILFAST, PERMISSIVE, DROPMALFORMED = "FAILFAST", "PERMISSIVE", "DROPMALFORMED"
_MODES = (FAILFAST, PERMISSIVE, DROPMALFORMED)
_CSV = ("sep", "nullValue")
SHARED_NAMES = ("format", "schema", "schemaFile", "messageName", "framing", "recordPrefix", *_CSV)
SOURCE_FORM_NAMES = (*SHARED_NAMES, "mode", "columnNameOfCorruptRecord")
SINK_FORM_NAMES = (*SHARED_NAMES, "schemaId")
CONFLUENT = "confluent"
_WITH_BINARY_SCHEMA = "protobuf"


class Form(NamedTuple):
    """What values are made of."""

    name: str
    schema: bytes
    """As the user wrote it; empty when there is none."""
    message: str
    """Which message of a descriptor set."""
    framed: bool
    """Values begin with a zero and the number that a schema registry gave the schema."""
    mode: str
    corrupt_column: str
    record_prefix: str
    """Before the names of the record's own columns, so that those of the value can have any name."""
    separator: str
    null_text: str
    schema_id: int


def parse_form(given: Mapping[str, str]) -> Form | None:
    """None when values stay bytes."""
    name = given.get("format", "").strip().lower()
    if not name:
        extra = next((each for each in (*SOURCE_FORM_NAMES, *SINK_FORM_NAMES) if each in given), None)
        if extra is not None:
            raise BadOption(f"{extra} is for typed values: say format={'|'.join(FORMATS)} too")
        return None
    if name not in FORMATS:
        raise BadOption(f"format cannot be {given['format']!r}: allowed is {', '.join(FORMATS)}")
    wrong = next((each for each in _CSV if each in given and name != "csv"), None)
    if wrong or ("messageName" in given and name != "protobuf"):
        raise BadOption(f"{wrong or 'messageName'} does not go with format={name}")
    schema = _schema(given, name)
    if name == "protobuf" and not (schema and given.get("messageName")):
        raise BadOption("format=protobuf needs messageName, and schemaFile with what protoc --descriptor_set_out wrote")
    mode = given.get("mode", FAILFAST).strip().upper()
    if mode not in _MODES:
        raise BadOption(f"mode cannot be {given['mode']!r}: allowed is {', '.join(_MODES)}")
    separator = given.get("sep", ",")
    if len(separator) != 1 or not separator.isascii():
        raise BadOption(f"sep cannot be {separator!r}: allowed is one character")
    return Form(
        name=name,
        schema=schema,
        message=given.get("messageName", ""),
        framed=_framed(given),
        mode=mode,
        corrupt_column=given.get("columnNameOfCorruptRecord", "_corrupt_record"),
        record_prefix=given.get("recordPrefix", ""),
        separator=separator,
        null_text=given.get("nullValue", ""),
        schema_id=_schema_id(given),
    )


def _schema(given: Mapping[str, str], name: str) -> bytes:
    if "schema" in given and "schemaFile" in given:
        raise BadOption("schema and schemaFile say the same: set one of them")
    if "schemaFile" in given:
        path = Path(given["schemaFile"].removeprefix("file://"))
        try:
            return path.read_bytes()
        except OSError as problem:
            raise BadOption(f"schemaFile cannot be read: {path}: {problem.strerror}") from None
    text = given.get("schema", "").strip()
    if name == _WITH_BINARY_SCHEMA and text:
        from base64 import b64decode

        try:
            return b64decode(text, validate=True)
        except ValueError:
            raise BadOption("schema is no descriptor set in base64; schemaFile takes the file of protoc") from None
    return text.encode()


def _framed(given: Mapping[str, str]) -> bool:
    framing = given.get("framing", "none").strip().lower()
    if framing not in ("none", CONFLUENT):
        raise BadOption(f"framing cannot be {given['framing']!r}: allowed is none or {CONFLUENT}")
    return framing == CONFLUENT


def _schema_id(given: Mapping[str, str]) -> int:
    text = given.get("schemaId", "0")
    if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 31:
        raise BadOption(f"schemaId cannot be {text!r}: allowed is the number that the registry gave the schema")
    if "schemaId" in given and not _framed(given):
        raise BadOption(f"schemaId is written with framing={CONFLUENT} only")
    return int(text)
