"""One run of `ottla produce`.

Owns: the pace, the progress, which line is named when one is wrong, and what is said in the end. Never knows: options,
formats (`input_lines`), batches and requests (`client.producer`).
Invariants: with a transaction, nothing can be read before everything is sent, and nothing at all when that fails;
without one, what was read before a bad line or Ctrl-C is sent.
"""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import NamedTuple

from ottla.cli.failures import Failure
from ottla.cli.input_lines import Common, LineRules, line_reader, lines_of, whole_of
from ottla.cli.output import Advance, progress, size_text
from ottla.client.errors import ClientError
from ottla.client.producer import Placed, Producer

STANDARD_INPUT = "-"
_AHEAD = 0.002
"""Seconds that a paced sender may be early: a shorter sleep is not worth its cost."""


class Sending(NamedTuple):
    """What goes where, and how."""

    topic: str
    partition: int | None
    files: list[str]
    rate: float | None = None
    raw: bool = False
    skip_bad: bool = False
    report: bool = False
    show_progress: bool = False
    same_partition: bool = False


class Job:
    """One run, and what is to be said about it afterwards, also when it ended early."""

    def __init__(
        self, wanted: Sending, rules: LineRules, common: Common, delimiter: bytes, settings: dict[str, object]
    ) -> None:
        self.summary = ""
        self._wanted = wanted
        self._rules = rules
        self._common = common
        self._delimiter = delimiter
        self._settings = settings
        self._transactional = "transactional.id" in settings
        self._failure: ClientError | None = None
        self._placed: list[Placed] = []
        self._begun = 0.0
        self._taken = 0
        self._skipped = 0

    async def work(self) -> None:
        async with Producer(self._settings) as producer:
            begun = monotonic()
            try:
                async with _transaction(producer), _flushed(producer):
                    await self._send_all(producer)
                self._raise_failure()
            except BaseException:
                if self._transactional:
                    self.summary = f"sent nothing to {self._wanted.topic!r}: the transaction was aborted"
                raise
            finally:
                self._report()
                totals = _totals(producer.metrics())
                summary = summarize(self._wanted.topic, totals, monotonic() - begun, self._skipped)
                self.summary = self.summary or summary

    async def _send_all(self, producer: Producer) -> None:
        files = self._wanted.files
        total = _total_size(files)
        if self._wanted.show_progress and _typed(files) and sys.stderr.isatty():
            print("type a record a line; Ctrl-D ends", file=sys.stderr)
        with _bar(self._wanted.show_progress and not _typed(files), total) as advance:
            for name in files:
                with _opened(name) as (shown, descriptor):
                    await self._send_file(producer, shown, descriptor, advance)

    async def _send_file(self, producer: Producer, name: str, descriptor: int, advance: Advance) -> None:
        put, settled, rate = producer.put, self._settled, self._wanted.rate
        topic, partition, same = self._wanted.topic, self._wanted.partition, self._wanted.same_partition
        reader = line_reader(self._rules, self._common)
        number = 0
        records = _whole(descriptor) if self._wanted.raw else lines_of(descriptor, self._delimiter)
        async for lines in records:
            for line in lines:
                number += 1
                try:
                    record = reader.read(line)
                    if same and record is not None and record.partition is None:
                        raise ValueError("names no partition")
                except ValueError as problem:
                    self._bad(f"line {number} of {name}", problem)
                    continue
                if record is None:
                    continue
                if rate is not None:
                    await self._pace(rate)
                key, value, headers, timestamp, own = record
                if same:
                    partition = own
                sent = await put(topic, value, key, headers=headers, partition=partition, timestamp=timestamp)
                sent.add_callback(settled)
            self._raise_failure()
            self._report()
            advance(sum(map(len, lines)) + len(lines) * len(self._delimiter))
        try:
            reader.end()
        except ValueError as problem:
            self._bad(name, problem)

    def _bad(self, what: str, problem: ValueError) -> None:
        if not self._wanted.skip_bad:
            before = "nothing was sent" if self._transactional else "what came before it was sent"
            raise Failure(f"{what} {problem}; {before}, --skip-bad goes on without it") from None
        self._skipped += 1

    async def _pace(self, rate: float) -> None:
        if not self._taken:
            self._begun = monotonic()
        early = self._begun + self._taken / rate - monotonic()
        self._taken += 1
        if early > _AHEAD:
            self._raise_failure()
            self._report()
            await asyncio.sleep(early)

    def _settled(self, placed: Placed | None, failure: ClientError | None) -> None:
        self._failure = self._failure or failure
        if self._wanted.report and placed is not None:
            self._placed.append(placed)

    def _report(self) -> None:
        """Print the places that became known since the last time."""
        if not self._placed:
            return
        rows, self._placed = self._placed, []
        for row in rows:
            place = {"topic": row.topic, "partition": row.partition, "offset": row.offset if row.offset >= 0 else None}
            sys.stdout.write(json.dumps({**place, "timestamp": row.timestamp}) + "\n")
        sys.stdout.flush()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


@asynccontextmanager
async def _transaction(producer: Producer) -> AsyncIterator[None]:
    if producer.settings.text_or_none("transactional.id") is None:
        yield
        return
    await producer.init_transactions()
    async with producer.transaction():
        yield


@asynccontextmanager
async def _flushed(producer: Producer) -> AsyncIterator[None]:
    """What was taken is delivered, also before a bad line or Ctrl-C ends the run."""
    try:
        yield
    except (Failure, asyncio.CancelledError):
        await producer.flush()
        raise
    await producer.flush()


async def _whole(descriptor: int) -> AsyncIterator[list[bytes]]:
    yield [await whole_of(descriptor)]


@contextmanager
def _bar(wanted: bool, total: int | None) -> Iterator[Advance]:
    if not wanted:
        yield lambda _: None
        return
    with progress("sending", total, "B") as advance:
        yield advance


@contextmanager
def _opened(name: str) -> Iterator[tuple[str, int]]:
    """An input's name for people, and its descriptor."""
    if name == STANDARD_INPUT:
        yield "standard input", sys.stdin.fileno()
        return
    try:
        descriptor = os.open(name, os.O_RDONLY)
    except OSError as problem:
        raise Failure(f"cannot read {name}: {problem.strerror}") from None
    try:
        yield name, descriptor
    finally:
        os.close(descriptor)


def _total_size(files: list[str]) -> int | None:
    """Bytes to send; None when some of it is not a plain file."""
    total = 0
    for name in files:
        try:
            status = os.fstat(sys.stdin.fileno()) if name == STANDARD_INPUT else os.stat(name)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total


def _typed(files: list[str]) -> bool:
    """Whether somebody types the records: a bar would be in the way."""
    return STANDARD_INPUT in files and os.isatty(sys.stdin.fileno())


def _totals(metrics: dict[str, float]) -> tuple[int, int, int]:
    names = ("records_acknowledged", "bytes_acknowledged", "records_failed")
    acknowledged, size, failed = (int(metrics[name]) for name in names)
    return acknowledged, size, failed


def summarize(topic: str, totals: tuple[int, int, int], seconds: float, skipped: int = 0) -> str:
    """The line at the end: how much arrived and how fast."""
    records, size, failed = totals
    pace = (
        f", {records / seconds:,.0f} records/s, {size_text(int(size / seconds))}/s" if records and seconds > 0 else ""
    )
    lost = f", {failed:,} failed" if failed else ""
    lost += f", {skipped:,} skipped" if skipped else ""
    plural = "" if records == 1 else "s"
    return f"sent {records:,} record{plural} ({size_text(size)}) to {topic!r} in {seconds:.2f} s{pace}{lost}"
