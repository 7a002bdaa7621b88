"""Lines of standard input and of files, and the records they stand for.

Owns: cutting bytes into lines without ever decoding them, waiting for a slow writer without a thread, and the meaning
of the line options. Never knows: where records go.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
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


async def lines_of(descriptor: int) -> AsyncIterator[list[bytes]]:
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
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except (PermissionError, OSError):  # a plain file is always ready, and the system refuses to watch it
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk
        return
    try:
        while True:
            await readable.wait()
            readable.clear()
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                return
            yield chunk
    finally:
        loop.remove_reader(descriptor)
