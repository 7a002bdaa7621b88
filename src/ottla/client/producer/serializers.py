"""From Python objects to bytes.

Owns: the serializers that come with the client and the shape of a user's own. Never knows: where the bytes go.
Invariants: None stays None, which is a tombstone; a serializer that fails fails one record.

A serializer is an object with `serialize(topic, value)` (and, if it likes, `configure(settings, is_key)` and
`close()`), a class of such objects, a function of one value, or one of the words in `WORDS`. Numbers are written as
Java's serializers do, big-endian; `int` is Java's Long, `float` its Double.
"""

import json
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Protocol

from ottla.client.errors import InvalidSetting

_LONG = Struct(">q")
_INTEGER = Struct(">i")
_DOUBLE = Struct(">d")


class Serializer(Protocol):
    """Turns keys or values into bytes. `configure` and `close` may be left out."""

    def serialize(self, topic: str, value: Any) -> bytes | None: ...


def as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"bytes are needed, not {type(value).__name__}; set a serializer for anything else")


def as_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"text is needed, not {type(value).__name__}")
    return value.encode()


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


WORDS: Mapping[str, Callable[[Any], bytes]] = {
    "bytes": as_bytes,
    "str": as_text,
    "json": as_json,
    "int": _LONG.pack,
    "int32": _INTEGER.pack,
    "float": _DOUBLE.pack,
}
"""What `key.serializer` and `value.serializer` take as text."""


class Avro:
    """One Avro schema; needs `fastavro`. With `confluent_id`, in the framing of schema registries."""

    def __init__(self, schema: Mapping[str, Any] | str, *, confluent_id: int | None = None) -> None:
        try:
            import fastavro
        except ImportError as missing:
            raise ImportError("Avro needs fastavro: pip install 'ottla[avro]'") from missing
        self._write = fastavro.schemaless_writer
        self._schema = fastavro.parse_schema(json.loads(schema) if isinstance(schema, str) else dict(schema))
        self._prefix = b"" if confluent_id is None else b"\0" + _INTEGER.pack(confluent_id)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        from io import BytesIO

        out = BytesIO()
        out.write(self._prefix)
        self._write(out, self._schema, value)
        return out.getvalue()


class Protobuf:
    """Messages of `protobuf`, which serialize themselves. With `confluent_id`, in the framing of schema registries."""

    def __init__(self, *, confluent_id: int | None = None) -> None:
        self._prefix = b"" if confluent_id is None else b"\0" + _INTEGER.pack(confluent_id)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        serialized: bytes = value.SerializeToString()
        if not self._prefix:
            return serialized
        from ottla.client.protobuf_messages import write_place

        return self._prefix + write_place(value.DESCRIPTOR) + serialized


class Serialization:
    """A serializer as the producer calls it, made of whatever the user gave."""

    __slots__ = ("_close", "plain", "turn")

    def __init__(self, name: str, given: object, settings: Mapping[str, object]) -> None:
        made = given() if isinstance(given, type) else given
        self.plain = made is as_bytes
        """Whether bytes pass as they are."""
        self.turn: Callable[[str, Any], bytes | None]
        serialize = getattr(made, "serialize", None)
        if serialize is not None:
            self.turn = serialize
        elif callable(made):
            self.turn = lambda topic, value: made(value)
        else:
            allowed = ", ".join(sorted(WORDS))
            raise InvalidSetting(name, f"{name} is no serializer: give an object, a class, a function or {allowed}")
        configure = getattr(made, "configure", None)
        if configure is not None:
            configure(settings, name.startswith("key"))
        self._close: Callable[[], object] | None = getattr(made, "close", None)

    def close(self) -> None:
        if self._close is not None:
            self._close()
