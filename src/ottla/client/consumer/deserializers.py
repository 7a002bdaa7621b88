"""From bytes to Python objects.

Owns: the deserializers that come with the client, the shape of a user's own, and applying them to records. Never knows:
where the bytes came from. Invariants: None stays None; what fails stops at its record and names it.

A deserializer is an object with `deserialize(topic, data)` (and, if it likes, `configure(settings, is_key)` and
`close()`), a class of such objects, a function of the bytes, or one of the words in `WORDS`. Numbers are read as Java's
serializers write them, big-endian; `int` is Java's Long, `float` its Double.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from typing import Any, Protocol

from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import DeserializationFailed, InvalidSetting
from ottla.client.settings import Settings
from ottla.records.record import ConsumedRecord

OfBytes = Callable[[bytes], Any]
_LONG = Struct(">q")
_INTEGER = Struct(">i")
_DOUBLE = Struct(">d")


class Deserializer(Protocol):
    """Makes objects of keys or values. `configure` and `close` may be left out."""

    def deserialize(self, topic: str, data: bytes) -> Any: ...


def _number(layout: Struct) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        if len(data) != layout.size:
            raise ValueError(f"{layout.size} bytes are needed, not {len(data)}")
        return layout.unpack(data)[0]

    return read


def as_bytes(data: bytes) -> bytes:
    return data


WORDS: Mapping[str, Callable[[bytes], Any]] = {
    "bytes": as_bytes,
    "str": bytes.decode,
    "json": json.loads,
    "int": _number(_LONG),
    "int32": _number(_INTEGER),
    "float": _number(_DOUBLE),
}
"""What `key.deserializer` and `value.deserializer` take as text."""


class Avro:
    """One Avro schema; needs `fastavro`. With `framed`, behind the five bytes that schema registries put in front."""

    def __init__(self, schema: Mapping[str, Any] | str, *, framed: bool = False) -> None:
        try:
            import fastavro
        except ImportError as missing:
            raise ImportError("Avro needs fastavro: pip install 'ottla[avro]'") from missing
        self._read = fastavro.schemaless_reader
        self._schema = fastavro.parse_schema(json.loads(schema) if isinstance(schema, str) else dict(schema))
        self._skip = 5 if framed else 0

    def deserialize(self, topic: str, data: bytes) -> Any:
        from io import BytesIO

        stream = BytesIO(data)
        stream.seek(self._skip)
        content = self._read(stream, self._schema)
        if stream.tell() != len(data):
            # Of another schema, or framed: what was read is none of what was written.
            raise ValueError(f"{len(data) - stream.tell()} bytes are left over")
        return content


class Protobuf:
    """Messages of one class of `protobuf`. With `framed`, behind what schema registries put in front."""

    def __init__(self, message: type[Any], *, framed: bool = False) -> None:
        self._message = message
        self._framed = framed

    def deserialize(self, topic: str, data: bytes) -> Any:
        if self._framed:
            from ottla.client.protobuf_messages import behind_place

            data = behind_place(data[5:])
        return self._message.FromString(data)


class Deserialization:
    """Both deserializers as the consumer uses them."""

    __slots__ = ("_close", "_key", "_value", "plain")

    def __init__(self, settings: Settings) -> None:
        self._close: list[Callable[[], object]] = []
        self._key = self._made(settings, "key.deserializer")
        self._value = self._made(settings, "value.deserializer")
        self.plain = self._key is None and self._value is None
        """Whether records stay as they are."""

    def _made(self, settings: Settings, name: str) -> Callable[[str], OfBytes] | None:
        """What gives the function of the bytes for a topic; None when bytes stay bytes."""
        given = settings.known(name, settings.get(name), WORDS)
        if given is as_bytes or given is bytes:
            return None
        made: Any = given() if isinstance(given, type) and hasattr(given, "deserialize") else given
        configure = getattr(made, "configure", None)
        if configure is not None:
            configure(dict(settings), name.startswith("key"))
        close = getattr(made, "close", None)
        if close is not None:
            self._close.append(close)
        deserialize: Callable[[str, bytes], Any] | None = getattr(made, "deserialize", None)
        if deserialize is not None:
            return partial(partial, deserialize)
        if not callable(made):
            allowed = ", ".join(sorted(WORDS))
            raise InvalidSetting(name, f"{name} is no deserializer: give an object, a class, a function or {allowed}")
        return lambda topic: made

    def read(self, records: list[ConsumedRecord]) -> tuple[list[ConsumedRecord], DeserializationFailed | None]:
        """The records of one partition with objects instead of bytes, up to the first that is refused."""
        if not records:
            return records, None
        turned: list[ConsumedRecord] = []
        place = TopicPartition(records[0].topic, records[0].partition)
        of_key = None if self._key is None else self._key(place.topic)
        of_value = None if self._value is None else self._value(place.topic)
        make = tuple.__new__  # `_make` without its checks, which cost as much as the rest
        part = "key"
        for topic, number, offset, timestamp, kind, key, value, headers, epoch in records:
            try:
                part = "key"
                if of_key is not None and key is not None:
                    key = of_key(key)
                part = "value"
                if of_value is not None and value is not None:
                    value = of_value(value)
            except Exception as problem:
                failure = DeserializationFailed(place, offset, f"its {part}: {type(problem).__name__}: {problem}")
                failure.__cause__ = problem
                return turned, failure
            fields = (topic, number, offset, timestamp, kind, key, value, headers, epoch)
            turned.append(make(ConsumedRecord, fields))
        return turned, None

    def close(self) -> None:
        for close in self._close:
            close()
