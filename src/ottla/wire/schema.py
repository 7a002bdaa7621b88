"""What a protocol message looks like: fields, types and the versions in which they exist.

Owns: the description that the generated message classes carry and that `wire.codec` compiles. Never knows: bytes.
A message class covers every version of its API: a field that a version lacks keeps its default when read and is left
out when written, so handlers are written once, for all versions.
"""

from typing import Any, ClassVar, NamedTuple

LATEST = 32767


class Field(NamedTuple):
    """One field of a message. `kind` is a primitive's name or a `Message` class; versions are inclusive ranges."""

    name: str
    kind: "str | type[Message]"
    array: bool = False
    first: int = 0
    last: int = LATEST
    null_from: int = LATEST + 1
    tag: int = -1
    tag_from: int = 0
    default: Any = None
    legacy: bool = False
    """Always in the old string format, also in flexible versions (the client id of a request header)."""


# Why classes are generated and cover every version: design/0001.
class Message:
    """Base of the generated classes: fields by slots, compared and shown by value."""

    __slots__: tuple[str, ...] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"


class Encoded:
    """Stands in an array of an answer for a struct whose bytes are known already, in the answer's own version; `errors`
    are the error codes in it. Only what is written in steps may hold it."""

    __slots__ = ("data", "errors")

    def __init__(self, data: bytes, errors: list[int]) -> None:
        self.data = data
        self.errors = errors


class Root(Message):
    """A message that stands by itself: it knows its key, its versions and from which on it is flexible."""

    __slots__: tuple[str, ...] = ()
    KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = LATEST + 1
