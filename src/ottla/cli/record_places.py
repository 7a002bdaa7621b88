"""Places in a topic's partitions as people name them.

Owns: the words: beginning, end, an offset, the last N, a time, how long ago. Never knows: what is done there.
Invariant: what cannot be understood is wrong usage (exit code 2), with all that could have been meant.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from ottla.base.vocabulary import TopicPartition
    from ottla.client.admin.topics import TopicAdmin

BEGINNING, END = "beginning", "end"


class Where(NamedTuple):
    """One of an offset, a number of records before the end, or a moment (milliseconds, EARLIEST or LATEST)."""

    offset: int | None = None
    last: int | None = None
    moment: int | None = None


def parse_where(text: str, option: str) -> Where:
    """What an option says; a time without zone is local."""
    from ottla.client.offsets import EARLIEST, LATEST

    if text == BEGINNING:
        return Where(moment=EARLIEST)
    if text == END:
        return Where(moment=LATEST)
    if _is_number(text):
        return Where(offset=int(text))
    if text.startswith("-") and _is_number(text[1:]):
        return Where(last=int(text[1:]))
    if text.startswith("@") and _is_number(text[1:]):
        return Where(moment=int(text[1:]))
    moment = _time(text)
    if moment is None:
        raise typer.BadParameter(
            f"{text!r} is not {BEGINNING}, {END}, an offset, -N for the last N, a time such as 2026-01-31T12:00, "
            "@MILLISECONDS, or how long ago, such as 90s, 15m or 2h",
            param_hint=option,
        )
    return Where(moment=moment)


def _time(text: str) -> int | None:
    from time import time

    from ottla.cli.named import parse_duration

    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        pass
    try:
        return int(time() * 1000) - parse_duration(text, "")
    except typer.BadParameter:
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


async def resolve(
    admin: "TopicAdmin",
    where: Where,
    partitions: "Iterable[TopicPartition]",
    seconds: float,
    isolation: int | None = None,
) -> "Mapping[TopicPartition, int]":
    """The offset that a place means in each partition, never beyond its end."""
    from ottla.client.offsets import EARLIEST, LATEST, READ_UNCOMMITTED, raise_errors

    wanted = list(partitions)
    level = READ_UNCOMMITTED if isolation is None else isolation

    async def at(moment: int) -> "dict[TopicPartition, int]":
        found = await admin.offsets(dict.fromkeys(wanted, moment), seconds, isolation=level)
        raise_errors(found)
        return {place: answer.offset for place, answer in found.items()}

    ends = await at(LATEST)
    if where.offset is not None:
        return {place: min(where.offset, end) for place, end in ends.items()}
    if where.last is not None:
        firsts = await at(EARLIEST)
        return {place: max(firsts[place], end - where.last) for place, end in ends.items()}
    assert where.moment is not None
    if where.moment == LATEST:
        return ends
    found = await at(where.moment)
    return {place: ends[place] if offset < 0 else offset for place, offset in found.items()}
