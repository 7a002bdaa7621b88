"""Keys and values by a schema, as JSON text: Avro and Protobuf.

Owns: the options that name a schema, what goes together in them, and both directions between a record's bytes and text.
Never knows: records, files of records; the bytes are those of the client's own serializers. Invariants: what is printed
reads back as the same object; a library that is missing, or a schema that is none, ends the command with a sentence
before anything is read or sent.
"""

import json
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer

from ottla.cli.record_types import Convert, DataType, NotOfSchema, decoder, encoder, unless_null

PANEL = "Avro and Protobuf"
WITH_SCHEMA = (DataType.AVRO, DataType.PROTOBUF)
_SCHEMA = "Its schema: Avro's JSON, or what protoc --include_imports --descriptor_set_out writes."
_MESSAGE = "With protobuf: the message, as shop.Order, where the schema has several."

KeySchema: TypeAlias = Annotated[
    str | None, typer.Option("--key-schema", metavar="FILE", help="The same for keys.", rich_help_panel=PANEL)
]
ValueSchema: TypeAlias = Annotated[
    str | None, typer.Option("--value-schema", metavar="FILE", help=_SCHEMA, rich_help_panel=PANEL)
]
KeyMessage: TypeAlias = Annotated[
    str | None, typer.Option("--key-message", metavar="NAME", help="The same for keys.", rich_help_panel=PANEL)
]
ValueMessage: TypeAlias = Annotated[
    str | None, typer.Option("--value-message", metavar="NAME", help=_MESSAGE, rich_help_panel=PANEL)
]


class RecordForm(NamedTuple):
    """What keys or values are; `part` is which of them, for sentences about the options."""

    part: str
    kind: DataType
    schema: str | None = None
    message: str | None = None
    framed: bool = False
    schema_id: int | None = None


def decoder_of(form: RecordForm) -> Convert | None:
    """From a record's bytes to text; None when there is nothing to do. ValueError for bytes that are none such."""
    _check(form)
    if form.kind not in WITH_SCHEMA:
        return decoder(form.kind)
    return unless_null(_avro_decoder(form) if form.kind is DataType.AVRO else _protobuf_decoder(form))


def encoder_of(form: RecordForm) -> Convert | None:
    """From text to the bytes of a record; None when there is nothing to do. ValueError for text that is none such."""
    _check(form)
    if form.kind not in WITH_SCHEMA:
        return encoder(form.kind)
    return unless_null(_avro_encoder(form) if form.kind is DataType.AVRO else _protobuf_encoder(form))


def check_framing(framed: bool, *forms: RecordForm) -> None:
    if framed and not any(form.kind in WITH_SCHEMA for form in forms):
        raise typer.BadParameter("only avro and protobuf have a frame", param_hint="--framed")


def _check(form: RecordForm) -> None:
    kind = f"--{form.part}-type"
    if form.kind not in WITH_SCHEMA:
        for option, given in (("schema", form.schema), ("message", form.message), ("schema-id", form.schema_id)):
            if given is not None:
                raise typer.BadParameter(f"say {kind} avro or protobuf too", param_hint=f"--{form.part}-{option}")
    elif form.schema is None:
        raise typer.BadParameter(f"{form.kind} needs a schema: name its file", param_hint=f"--{form.part}-schema")
    elif form.message is not None and form.kind is DataType.AVRO:
        raise typer.BadParameter("Avro has no messages to choose from", param_hint=f"--{form.part}-message")


def _made(form: RecordForm, make: Callable[[bytes], Any]) -> Any:
    """What `make` makes of the schema's content; a `Failure` for what is wrong with it."""
    from ottla.cli.failures import Failure

    assert form.schema is not None, "the options were checked"
    try:
        with open(form.schema, "rb") as file:
            return make(file.read())
    except OSError as problem:
        raise Failure(f"cannot read {form.schema}: {problem.strerror}; name the file of a schema") from None
    except ImportError as missing:
        raise Failure(str(missing)) from None
    except Exception as problem:  # the libraries say in many ways that something is no schema
        said = str(problem) or type(problem).__name__
        raise Failure(f"{form.schema} is no {form.kind} schema that can be used: {said}") from None


def _sentence(problem: Exception) -> str:
    said = str(problem)
    return f"{type(problem).__name__}: {said}" if said else type(problem).__name__


# --- Avro -------------------------------------------------------------------------------------------------------------


def _avro_decoder(form: RecordForm) -> Callable[[bytes], bytes]:
    from ottla.client.consumer.deserializers import Avro

    reader: Avro = _made(form, lambda content: Avro(content.decode(), framed=form.framed))

    def decode(data: bytes) -> bytes:
        try:
            content = reader.deserialize("", data)
        except Exception as problem:  # as many kinds as there are ways to stumble over foreign bytes
            raise NotOfSchema(f"is no Avro of this schema ({_sentence(problem)})") from None
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()

    return decode


def _plain(value: Any) -> Any:
    """JSON's form of what it has none for: bytes as Avro's own JSON has them, times in ISO's form, numbers as text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _avro_encoder(form: RecordForm) -> Callable[[bytes], bytes]:
    from ottla.cli.record_avro import Fitting
    from ottla.client.producer.serializers import Avro

    writer: Avro = _made(form, lambda content: Avro(content.decode(), confluent_id=form.schema_id))
    fit: Fitting = _made(form, lambda content: Fitting(json.loads(content)))

    def encode(text: bytes) -> bytes:
        try:
            data = writer.serialize("", fit(_content(text)))
        except NotOfSchema:
            raise
        except Exception as problem:  # what fits the schema's form may still be out of its bounds
            raise NotOfSchema(f"does not fit the Avro schema ({_sentence(problem)})") from None
        assert data is not None
        return data

    return encode


def _content(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise NotOfSchema(f"is not JSON: {problem}") from None


# --- Protobuf ---------------------------------------------------------------------------------------------------------


def _protobuf_decoder(form: RecordForm) -> Callable[[bytes], bytes]:
    from ottla.client.consumer.deserializers import Protobuf

    reader = Protobuf(_message(form), framed=form.framed)
    from google.protobuf.json_format import MessageToJson

    def decode(data: bytes) -> bytes:
        try:
            message = reader.deserialize("", data)
            text: str = MessageToJson(
                message,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                ensure_ascii=False,
                indent=None,
            )
        except Exception as problem:  # the library's own kinds, and what a frame that is none leads to
            raise NotOfSchema(f"is no Protobuf of this message ({_sentence(problem)})") from None
        return text.encode()

    return decode


def _protobuf_encoder(form: RecordForm) -> Callable[[bytes], bytes]:
    from ottla.client.producer.serializers import Protobuf

    writer = Protobuf(confluent_id=form.schema_id)
    kind = _message(form)
    from google.protobuf.json_format import Parse

    def encode(text: bytes) -> bytes:
        try:
            data = writer.serialize("", Parse(text, kind()))
        except Exception as problem:
            raise NotOfSchema(f"does not fit the message {kind.DESCRIPTOR.full_name} ({problem})") from None
        assert data is not None
        return data

    return encode


def _message(form: RecordForm) -> Any:
    from ottla.client.protobuf_messages import message_class

    return _made(form, lambda content: message_class(content, form.message))
