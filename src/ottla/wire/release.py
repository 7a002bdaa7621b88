"""Letting go of very many objects, so that others get their turn meanwhile.

Owns: how something large is taken apart. Never knows: what it was for. Invariant: what somebody else still refers to
stays as it is.

The interpreter frees a list with all that only it refers to in one go, which takes 20 ms for 200,000 objects.
"""

from collections.abc import Generator, Iterable
from sys import getrefcount
from typing import Any

from ottla.wire.schema import Message

AT_ONCE = 100
"""Objects that are freed in one step: some ten microseconds."""
FEW = 16
"""A container of so many that hold nothing themselves goes with what it belongs to."""
_UNSHARED = 2
"""References to a container that nobody else knows: a name and the question itself."""
_CONTAINERS = (list, dict, set)


def released(things: list[Any]) -> Generator[None, None, None]:
    """Empty this list, and the lists, dictionaries and sets in messages and tuples in it, at any depth, as far as they
    go with it. Whoever hands them over keeps no name for them."""
    while things:
        thing = things.pop()
        if type(thing) not in _CONTAINERS:
            things.extend(_containers((thing,)))
            continue
        if getrefcount(thing) > _UNSHARED:
            continue
        some = _some(thing)
        if thing:
            things.append(thing)
        things.extend(_containers(some))
        del thing, some
        yield


def _some(container: Any) -> list[Any]:
    """The last ones of a container, which lets go of them."""
    if type(container) is list:
        some = container[-AT_ONCE:]
        del container[-AT_ONCE:]
        return some
    take = container.popitem if type(container) is dict else container.pop
    return [take() for _ in range(min(AT_ONCE, len(container)))]


def _containers(elements: Iterable[Any]) -> list[Any]:
    """What is worth being taken apart by itself: it is looked at when the elements are gone."""
    found: list[Any] = []
    for element in elements:
        if isinstance(element, tuple):
            values: Iterable[Any] = element
        elif isinstance(element, Message):
            values = [getattr(element, name) for name in _fields[type(element)]]
        elif type(element) in _CONTAINERS:
            values = (element,)
        else:
            continue
        found += [each for each in values if isinstance(each, Message) or (type(each) in _CONTAINERS and _worth(each))]
    return found


def _worth(container: Any) -> bool:
    """Whether there is much in it, or in what is in it."""
    if len(container) > FEW or not container:
        return len(container) > FEW
    first = next(iter(container.values() if type(container) is dict else container))
    if isinstance(first, Message):
        return bool(_fields[type(first)])
    return isinstance(first, tuple) or type(first) in _CONTAINERS


class _LargeFields(dict[type[Message], list[str]]):
    """The fields of a message that may hold much."""

    def __missing__(self, kind: type[Message]) -> list[str]:
        found = self[kind] = [field.name for field in kind.FIELDS if field.array or not isinstance(field.kind, str)]
        return found


_fields = _LargeFields()
