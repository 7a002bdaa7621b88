"""Lines of standard input and of files, and the records they stand for.

Owns: cutting bytes into lines without ever decoding them, waiting for a slow writer without a thread, and the meaning
of the line options. Never knows: where records go.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import NamedTuple

from ottla.cli.record_json import Input, from_json
from ottla.records.record import Headers

_CHUNK = 256 * 1024


class LineRules(NamedTuple):
    """How a line becomes a record."""

    key_separator: bytes | None = None
    null_value: bytes | None = None
    headers: Headers = ()
    as_json: bool = False


def line_reader(rules: LineRules) -> Callable[[bytes], Input]:
    """What to do with every line; the answer raises ValueError for a line that does not fit."""
    if rules.as_json:
        return lambda line: _with_headers(from_json(line), rules.headers)
    return lambda line: _from_text(line, rules)


def _with_headers(record: Input, headers: Headers) -> Input:
    return record._replace(headers=headers + record.headers) if headers else record


def _from_text(line: bytes, rules: LineRules) -> Input:
    key: bytes | None = None
    value: bytes | None = line
    if rules.key_separator is not None:
        key, found, value = line.partition(rules.key_separator)
        if not found:
            raise ValueError(f"has no key separator {rules.key_separator.decode(errors='replace')!r}")
    if value == rules.null_value:
        value = None
    return Input(key, value, rules.headers)


async def lines_of(descriptor: int) -> AsyncGenerator[list[bytes], None]:
    """The lines of a file or pipe, many at a time, without their line feeds; the last needs none."""
    rest = b""
    async for chunk in _chunks(descriptor):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        if lines:
            yield lines
    if rest:
        yield [rest]


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    while True:
        with suppress(PermissionError):  # a plain file is always ready, and the system refuses to watch it
            await _readable(descriptor)
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return
        yield chunk


async def _readable(descriptor: int) -> None:
    """Return when a read would not block. The watch ends with its first event: a stale one would make us block."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def tell() -> None:
        loop.remove_reader(descriptor)
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, tell)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
