"""Requests that name very many things: their handlers get them a portion at a time.

Owns: how such a request is cut, and how the answers to its portions become one. Never knows: what is asked.
Invariants: of all such requests together one portion is answered between other requests, and what is looked through as
a whole is looked through in steps; what names little is handed over as it is; an error of a whole answer ends it; what
may be named only once comes in one portion however often it is named, so that the handler sees it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from copy import copy
from functools import wraps
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context, Handler
from ottla.wire.lists import LISTS_OF, Lists, Path, Weight

# Which requests are cut, and which succeed or fail as a whole: design/0025.
AT_ONCE = 200
"""Elements of the innermost lists, and of those around them, that a handler gets at once, each of which it answers in
some ten microseconds."""
A_LOOK = 2000
"""Elements that are only looked at, at a time."""
_NAMES = ("name", "topic", "topic_name", "topic_id", "group_id", "producer_id")

E = TypeVar("E")
Look = Callable[[Any, Any, Context], Generator[None, None, Any]]
"""Of whom a handler serves, a request and its context: an answer that spares the rest, or None."""


def in_portions(*ways: Lists, at_once: int = AT_ONCE, look: Look | None = None) -> Callable[[Handler], Handler]:
    """Of a handler for which the elements of a request have nothing to do with each other. Where there are several
    `ways`, as versions differ, the first counts whose list is not empty. What is cut is looked at as a whole before."""

    def of(handle: Handler) -> Handler:
        @wraps(handle)
        def handle_all(host: Any, request: Any, context: Context) -> Any:
            for way in ways:
                elements = getattr(request, way.asked[0])
                if elements:
                    if size(elements, at_once, way.weight) > at_once:
                        return _one_by_one(_Cutting(handle, way, at_once, look), host, request, context)
                    break
            return handle(host, request, context)

        return handle_all

    return of


class _Cutting(NamedTuple):
    handle: Handler
    way: Lists
    at_once: int
    look: Look | None


async def _one_by_one(cutting: _Cutting, host: Any, request: Any, context: Context) -> Any:
    handle, way, at_once, look = cutting
    if look is not None:
        found = await host.dispatcher.in_steps(look(host, request, context))
        if found is not None:
            return found
    outer = way.asked[0]
    together: Iterable[Sequence[Any]] = ((element,) for element in getattr(request, outer))
    if way.once is not None:
        together = await host.dispatcher.in_steps(_by_name(getattr(request, outer), way.once))
    whole: Any = None
    for portion in cut(together, way, at_once):
        await host.dispatcher.turn()
        part = copy(request)
        setattr(part, outer, portion)
        answer = handle(host, part, context)
        if asyncio.iscoroutine(answer) or asyncio.isfuture(answer):
            answer = await answer
        if answer is None or getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
            return answer
        if whole is None:
            whole = answer
        else:
            join(whole, answer, way.told)
    return whole


async def in_turns(host: Any, elements: Sequence[E]) -> AsyncIterator[Sequence[E]]:
    """A long list some thousand elements at a time, for a handler that takes a few things out of it."""
    for start in range(0, len(elements), A_LOOK):
        if start:
            await host.dispatcher.turn()
        yield elements[start : start + A_LOOK]


def at_most(most: int, field: str, refuse: Callable[[Any, Context], Any]) -> Callable[[Handler], Handler]:
    """Of a handler for which a list is one thing, and nobody needs one of more than `most` elements; without `field`,
    for which that holds for all lists of the request together."""

    def of(handle: Handler) -> Handler:
        @wraps(handle)
        def handle_few(host: Any, request: Any, context: Context) -> Any:
            elements = getattr(request, field) if field else (request,)
            if elements and size(elements, most) > most:
                return refuse(request, context)
            return handle(host, request, context)

        return handle_few

    return of


def _by_name(elements: Sequence[Any], fields: Path) -> Generator[None, None, list[list[Any]]]:
    """The elements, those of one name together; a third of the same name says nothing that two do not say."""
    name: Callable[[Any], Any] = attrgetter(*fields) if fields else lambda element: element
    found: dict[Any, list[Any]] = {}
    for element in elements:
        same = found.setdefault(name(element), [])
        if len(same) < 2:
            same.append(element)
        yield
    return list(found.values())


def cut(together: Iterable[Sequence[Any]], way: Lists, at_once: int) -> Iterator[list[Any]]:
    """The elements in portions; those that belong together stay so. One with much inside comes in several, as copies
    with a part of it each."""
    portion: list[Any] = []
    used = 0
    for elements in together:
        for pieces, taken in _pieces(elements, way.asked[1:], at_once, way.weight):
            if portion and used + taken > at_once:
                yield portion
                portion, used = [], 0
            portion.extend(pieces)
            used += taken
    if portion:
        yield portion


def _pieces(
    elements: Sequence[Any], inner: Path, at_once: int, weight: Weight = None
) -> Iterator[tuple[Sequence[Any], int]]:
    taken = size(elements, at_once, weight)
    if taken <= at_once or not inner:
        yield elements, taken
        return
    for element in elements:
        inside = getattr(element, inner[0])
        if not inside:
            yield (element,), taken
            continue
        for part in cut(((each,) for each in inside), Lists(inner, ()), at_once - 1):
            piece = copy(element)
            setattr(piece, inner[0], part)
            yield (piece,), size((piece,), at_once)


def size(elements: Sequence[Any], most: int, weight: Weight = None) -> int:
    """How many elements there are at all levels; counted only until they are more than `most`."""
    found = len(elements)
    if found > most:
        return found
    for element in elements:
        if weight is not None:
            found += weight(element)
        for name in LISTS_OF[type(element)]:
            inside = getattr(element, name)
            if inside:
                found += size(inside, most - found)
        if found > most:
            break
    return found


def join(whole: Any, more: Any, told: Path) -> None:
    """Add an answer to that of the portion before; what both tell of, cut in two, becomes one again."""
    found, new = getattr(whole, told[0]), getattr(more, told[0])
    if not isinstance(found, list):
        found = list(found)
        setattr(whole, told[0], found)
    start = 0
    if len(told) > 1 and found and new and _names(found[-1]) == _names(new[0]):
        join(found[-1], new[0], told[1:])
        start = 1
    found.extend(new[start:])


def _names(element: Any) -> list[Any]:
    return [getattr(element, name, None) for name in _NAMES]
