"""The errors that an answer tells of, wherever in it they stand.

Owns: which fields of a message are error codes. Never knows: what an error means, who counts them. Invariants: a field
that a version lacks is not looked at; a part of a message in which no error can stand costs nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from ottla.wire.schema import Encoded, Message, Root

_Collect = Callable[[Iterable[Any], list[int]], None]
_ENDING = "error_code"
PORTION = 100
"""Elements of an array that are looked at in one step."""


class _Part(NamedTuple):
    """A field of structs in which errors stand."""

    name: str
    array: bool
    places: "_Places"

    def of(self, message: Any) -> Sequence[Any]:
        value: Any = getattr(message, self.name)
        if value is None:
            return ()
        found: Sequence[Any] = value if self.array else (value,)
        return found


class _Places(NamedTuple):
    """Where errors stand in a message, and what adds those of several such messages to a list."""

    own: tuple[str, ...]
    parts: tuple[_Part, ...]
    collect: _Collect


def errors_in(message: Root, version: int) -> list[int]:
    """Every error code of an answer that is not zero."""
    found: list[int] = []
    _known[type(message), version].collect((message,), found)
    return found


def errors_in_portions(message: Root, version: int) -> Iterator[list[int]]:
    """The same, those of some elements of the answer's arrays at a time, so that a long one can be looked through
    between other work."""
    return _in_portions(message, _known[type(message), version])


def _in_portions(message: Message, places: _Places) -> Iterator[list[int]]:
    yield [code for name in places.own if (code := getattr(message, name))]
    for part in places.parts:
        elements = part.of(message)
        for start in range(0, len(elements), PORTION):
            portion = elements[start : start + PORTION]
            found: list[int] = []
            for each in portion:
                if type(each) is Encoded:
                    found += each.errors
                elif part.places.parts:
                    yield from _in_portions(each, part.places)
            if not part.places.parts:
                part.places.collect([each for each in portion if type(each) is not Encoded], found)
            yield found


class _Known(dict[tuple[type[Message], int], _Places]):
    """By message and version, found when they are first asked for."""

    def __missing__(self, key: tuple[type[Message], int]) -> _Places:
        kind, version = key
        fields = [field for field in kind.FIELDS if field.first <= version <= field.last]
        own = tuple(field.name for field in fields if field.kind == "int16" and field.name.endswith(_ENDING))
        parts = []
        for field in fields:
            if not isinstance(field.kind, str):
                inner = self[field.kind, version]
                if inner.own or inner.parts:
                    parts.append(_Part(field.name, field.array, inner))
        # Most errors stand in the partitions of topics, which are many and have nothing else of this kind.
        alone = len(own) == 1 and not parts
        collect = _collector_of_one(own[0]) if alone else _collector(own, tuple(parts))
        made = self[key] = _Places(own, tuple(parts), collect)
        return made


_known = _Known()


def _collector_of_one(name: str) -> _Collect:
    getter = attrgetter(name)
    return lambda messages, found: found.extend(filter(None, map(getter, messages)))


def _collector(own: tuple[str, ...], parts: tuple[_Part, ...]) -> _Collect:
    def collect(messages: Iterable[Any], found: list[int]) -> None:
        for message in messages:
            for name in own:
                code = getattr(message, name)
                if code:
                    found.append(code)
            for part in parts:
                part.places.collect(part.of(message), found)

    return collect
