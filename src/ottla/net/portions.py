"""Requests that name very many things: their handlers get them a portion at a time.

Owns: how such a request is cut, and how the answers to its portions become one. Never knows: what is asked.
Invariants: of all such requests together one portion is answered between other requests, and nothing is looked through
as a whole before; what names little is handed over as it is; an error of a whole answer ends it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import wraps
from typing import Any, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context, Handler

# Which requests are cut, and which succeed or fail as a whole: design/0025.
AT_ONCE = 200
"""Elements of the innermost lists, and of those around them, that a handler gets at once, each of which it answers in
some ten microseconds."""
_NAMES = ("name", "topic", "topic_id", "group_id")

Path = tuple[str, ...]


class Lists(NamedTuple):
    """The lists of a request, each inside the elements of the one before, and those of its answer."""

    asked: Path
    told: Path


def in_portions(*ways: Lists, at_once: int = AT_ONCE) -> Callable[[Handler], Handler]:
    """Of a handler for which the elements of a request have nothing to do with each other. Where there are several
    `ways`, as versions differ, the first counts whose list is not empty."""

    def of(handle: Handler) -> Handler:
        @wraps(handle)
        def handle_all(host: Any, request: Any, context: Context) -> Any:
            for way in ways:
                elements = getattr(request, way.asked[0])
                if elements:
                    if _cost(elements, way.asked[1:], at_once) > at_once:
                        return _one_by_one(handle, host, request, context, way, at_once)
                    break
            return handle(host, request, context)

        return handle_all

    return of


async def _one_by_one(handle: Handler, host: Any, request: Any, context: Context, way: Lists, at_once: int) -> Any:
    whole: Any = None
    outer = way.asked[0]
    for portion in cut(getattr(request, outer), way.asked[1:], at_once):
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


def cut(elements: Sequence[Any], inner: Path, at_once: int) -> Iterator[list[Any]]:
    """The elements in portions; one with much inside comes in several, as copies with a part of it each."""
    portion: list[Any] = []
    used = 0
    for element in elements:
        for piece, cost in _pieces(element, inner, at_once):
            if portion and used + cost > at_once:
                yield portion
                portion, used = [], 0
            portion.append(piece)
            used += cost
    if portion:
        yield portion


def _pieces(element: Any, inner: Path, at_once: int) -> Iterator[tuple[Any, int]]:
    cost = _cost((element,), inner, at_once)
    if cost <= at_once:
        yield element, cost
        return
    for part in cut(getattr(element, inner[0]), inner[1:], at_once - 1):
        piece = copy(element)
        setattr(piece, inner[0], part)
        yield piece, _cost((piece,), inner, at_once)


def _cost(elements: Sequence[Any], inner: Path, most: int) -> int:
    """How many elements there are at all levels; counted only until they are more than `most`."""
    cost = len(elements)
    if inner and cost <= most:
        for element in elements:
            cost += _cost(getattr(element, inner[0]) or (), inner[1:], most - cost)
            if cost > most:
                break
    return cost


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
