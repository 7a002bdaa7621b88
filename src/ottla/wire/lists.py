"""Lists in messages, which may be very long.

Owns: where they are, and how those are told of whose elements have nothing to do with each other. Never knows: what a
message is about, how a request is cut.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

Path = tuple[str, ...]
Weight = Callable[[Any], int] | None


class Lists(NamedTuple):
    """The lists of a request, each inside the elements of the one before, and those of its answer. Whatever else lies
    in an element stays together."""

    asked: Path
    told: Path
    once: Path | None = None
    """The fields that name an element of the outermost list, where none may be named twice; no field stands for the
    element itself. What is named more often than twice is taken for named twice."""
    weight: Weight = None
    """How many elements one of the outermost list stands for, beside those that lie in it."""


class _ListsOf(dict[type[Any], Path]):
    """The fields that are lists, of any kind of message; values have none."""

    def __missing__(self, kind: type[Any]) -> Path:
        found = self[kind] = tuple(field.name for field in getattr(kind, "FIELDS", ()) if field.array)
        return found


LISTS_OF = _ListsOf()
