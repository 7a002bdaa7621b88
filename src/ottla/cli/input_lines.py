"""Standard input and files, and the records they stand for.

Owns: cutting bytes into lines without ever decoding them, waiting for a slow writer without a thread, and the meaning
of the options about input. Never knows: where records go.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import NamedTuple, Protocol

from ottla.cli.record_csv import CsvReader, CsvRules
from ottla.cli.record_json import Input, from_json
from ottla.cli.record_types import Convert
from ottla.records.record import Headers

_CHUNK = 256 * 1024


class LineRules(NamedTuple):
    """How a line becomes a record."""

    key_separator: bytes | None = None
    null_value: bytes | None = None
    as_json: bool = False
    as_csv: CsvRules | None = None


class Common(NamedTuple):
    """What holds for all records: headers, a key and a time for those that bring none, how keys and values are sent."""

    headers: Headers = ()
    key: bytes | None = None
    timestamp: int | None = None
    key_type: Convert | None = None
    value_type: Convert | None = None


class Reader(Protocol):
    """Makes records of the lines of one file."""

    def read(self, line: bytes) -> Input | None:
        """The record that a line completes, if it does; ValueError with what is wrong with it."""
        ...

    def end(self) -> None:
        """After the last line; ValueError when something is missing."""
        ...


def line_reader(rules: LineRules, common: Common) -> Reader:
    """What to do with the lines of a file."""
    plain: Reader
    if rules.as_csv is not None:
        plain = CsvReader(rules.as_csv)
    elif rules.as_json:
        plain = _JsonReader()
    else:
        plain = _TextReader(rules)
    return plain if common == Common() else _CommonReader(plain, common)


class _TextReader:
    def __init__(self, rules: LineRules) -> None:
        self._separator, self._null = rules.key_separator, rules.null_value

    def read(self, line: bytes) -> Input:
        key: bytes | None = None
        value: bytes | None = line
        if self._separator is not None:
            key, found, value = line.partition(self._separator)
            if not found:
                raise ValueError(f"has no key separator {self._separator.decode(errors='replace')!r}")
        return Input(key, None if value == self._null else value)

    def end(self) -> None:
        """Lines are whole."""


class _JsonReader:
    def read(self, line: bytes) -> Input:
        return from_json(line)

    def end(self) -> None:
        """Lines are whole."""


class _CommonReader:
    """Adds what holds for all records."""

    def __init__(self, plain: Reader, common: Common) -> None:
        self._plain, self._common = plain, common

    def read(self, line: bytes) -> Input | None:
        record = self._plain.read(line)
        return None if record is None else _completed(record, self._common)

    def end(self) -> None:
        self._plain.end()


def _completed(record: Input, common: Common) -> Input:
    """A record with what holds for all; ValueError when its key or value is not of the type it should be."""
    key = common.key if record.key is None else record.key
    return Input(
        key if common.key_type is None else common.key_type(key),
        record.value if common.value_type is None else common.value_type(record.value),
        common.headers + record.headers,
        common.timestamp if record.timestamp is None else record.timestamp,
        record.partition,
    )


async def lines_of(descriptor: int, delimiter: bytes = b"\n") -> AsyncGenerator[list[bytes], None]:
    """The lines of a file or pipe, many at a time, without their line feeds; the last needs none."""
    rest = b""
    async for chunk in _chunks(descriptor):
        lines = (rest + chunk).split(delimiter)
        rest = lines.pop()
        if lines:
            yield lines
    if rest:
        yield [rest]


async def whole_of(descriptor: int) -> bytes:
    """All that a file or pipe has."""
    return b"".join([chunk async for chunk in _chunks(descriptor)])


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
