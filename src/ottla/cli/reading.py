"""One run of `ottla consume`.

Owns: where reading starts and when it ends, showing what is wanted of what was read, and what a group commits. Never
knows: options, filters (`record_filter`), looks (`record_text`), fetching (`client.consumer`).
Invariants: no record is shown twice or left out within a run; a group commits what was shown or passed over, and only
once it has left this process.
"""

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from time import monotonic
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import Failure
from ottla.cli.output import Advance, progress
from ottla.cli.record_filter import Keep
from ottla.cli.record_places import Where, resolve
from ottla.cli.record_text import Printer
from ottla.cli.record_types import Convert, NotOfSchema
from ottla.client.admin.topics import TopicAdmin
from ottla.client.cluster import Cluster, Topic
from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.client.errors import CommitFailed, RebalanceInProgress
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED

POLL_SECONDS = 1.0
UNTIL_END_SECONDS = 0.05
"""Positions pass markers of transactions without a record to show for it."""
COMMIT_SECONDS = 1.0


class ReadRequest(NamedTuple):
    """What to read. Without `most` and `end`: follow the topics until interrupted."""

    topics: Sequence[str]
    partitions: Sequence[int]
    begin: Where
    end: Where | None
    most: int | None
    grouped: bool
    idle: float | None = None
    """Seconds without a record after which reading ends, too."""


class Showing(NamedTuple):
    """What becomes of a record: keys and values made text, a choice, print."""

    key: Convert | None
    value: Convert | None
    keep: Keep | None
    printer: Printer


async def read(
    cluster: Cluster, settings: Mapping[str, object], wanted: ReadRequest, showing: Showing, seconds: float
) -> None:
    """Print what is wanted until there is enough of it."""
    commits = wanted.grouped and str(settings.get("enable.auto.commit", "true")).lower() == "true"
    names = await _topics(cluster, wanted.topics, seconds)
    async with Consumer({**settings, "enable.auto.commit": False}) as consumer:
        run = _Run(consumer, wanted, showing, commits)
        isolation = (
            READ_COMMITTED if consumer.settings.text("isolation.level") == "read_committed" else READ_UNCOMMITTED
        )
        end = None if wanted.end is None else _End(consumer, TopicAdmin(cluster), wanted.end, isolation, seconds)
        if wanted.grouped:
            pattern = _pattern(wanted.topics)
            consumer.subscribe(names if pattern is None else pattern, run)
            await run.print_all(end, lambda _: None)
            return
        places = [place for name in names for place in choose(cluster.topics[name], wanted.partitions)]
        consumer.assign(places)
        await _seek(consumer, places, wanted.begin)
        with await _bar(end) as advance:
            await run.print_all(end, advance)


class _Run:
    """The records of one consumer on their way to standard output; listens to what its group does meanwhile."""

    def __init__(self, consumer: Consumer, wanted: ReadRequest, showing: Showing, commits: bool) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._showing = showing
        self._commits = commits
        self._left = wanted.most
        self._done: dict[TopicPartition, int] = {}
        """What is to be committed: where each partition goes on after what was printed."""
        self._seen: dict[TopicPartition, int | None] = {}
        """Partitions of which something was printed, and where reading them ends."""
        self._committed = monotonic()

    async def print_all(self, end: "_End | None", advance: Advance) -> None:
        out = sys.stdout.buffer
        at_once = self._consumer.settings.integer("max.poll.records")
        timeout = POLL_SECONDS if end is None else UNTIL_END_SECONDS
        idle, heard = self._wanted.idle, monotonic()
        if idle is not None:
            timeout = min(timeout, idle)
        try:
            while self._left is None or self._left > 0:
                if end is not None and await end.passed():
                    return
                few = self._left is not None and self._showing.keep is None
                records = await self._consumer.poll(timeout, min(self._left or at_once, at_once) if few else at_once)
                if records:
                    heard = monotonic()
                elif idle is not None and monotonic() - heard >= idle:
                    return
                passed: dict[TopicPartition, int] = {}
                for (topic, number), group in groupby(records, key=lambda record: record[:2]):
                    place = TopicPartition(topic, number)
                    limit = None if end is None else end.offsets.get(place)
                    out.write(self._show(place, list(group), limit, passed))
                    self._seen[place] = limit
                out.flush()
                advance(len(records))
                self._done |= passed
                if self._commits and monotonic() - self._committed >= COMMIT_SECONDS:
                    await self._commit()
        finally:
            if self._commits:
                await self._pass_markers()
                await self._commit()
                self._commits = False  # leaving the group takes the partitions away, and nothing is left to commit

    async def _pass_markers(self) -> None:
        """The end of a transaction is no record, but the group is behind until it has passed that, too."""
        if self._left == 0:
            return  # what was fetched beyond the last one shown is not read
        for place in self._seen.keys() & self._consumer.assignment():
            position, limit = await self._consumer.position(place), self._seen[place]
            self._done[place] = position if limit is None else min(position, limit)

    def _show(
        self, place: TopicPartition, records: list[ConsumedRecord], limit: int | None, passed: dict[TopicPartition, int]
    ) -> bytes:
        """The text of those that are wanted; none once there are enough."""
        if limit is not None and records[-1].offset >= limit:
            records = [record for record in records if record.offset < limit]
        if not records or self._left == 0:
            return b""
        key, value, keep, printer = self._showing
        shown = records if key is None and value is None else [self._readable(record) for record in records]
        if keep is not None:
            shown = [record for record in shown if keep(place, record)]
        if self._left is not None:
            enough = len(shown) >= self._left
            shown = shown[: self._left]
            self._left -= len(shown)
            if enough:
                passed[place] = shown[-1].offset + 1
                return printer(place, shown)
        passed[place] = records[-1].offset + 1
        return printer(place, shown) if shown else b""

    def _readable(self, record: ConsumedRecord) -> ConsumedRecord:
        what = "key"
        try:
            key = record.key if self._showing.key is None else self._showing.key(record.key)
            what = "value"
            value = record.value if self._showing.value is None else self._showing.value(record.value)
        except ValueError as problem:
            place = f"{record.topic}-{record.partition} offset {record.offset}"
            step = (
                f"another --{what}-schema, or --framed"
                if isinstance(problem, NotOfSchema)
                else f"another --{what}-type"
            )
            raise Failure(f"the {what} of {place} {problem}; try {step}") from None
        return record._replace(key=key, value=value)

    async def _commit(self) -> None:
        self._committed = monotonic()
        held = self._consumer.assignment()
        offsets = {place: offset for place, offset in self._done.items() if place in held}
        try:
            if offsets:
                await self._consumer.commit(offsets)
        except RebalanceInProgress:
            return  # they are still ours to commit, once the group has settled
        except CommitFailed:
            pass  # others have the partitions, and show again what was not committed
        self._done.clear()

    async def on_partitions_revoked(self, _partitions: Collection[TopicPartition]) -> None:
        """Whoever reads them next goes on where this run ended."""
        if self._commits:
            await self._commit()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """They start where the group is: nothing to do."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Others have them: nothing may be committed for them any more."""
        for place in partitions:
            self._done.pop(place, None)


class _End:
    """Where reading ends, and whether it still comes nearer to that."""

    def __init__(self, consumer: Consumer, admin: TopicAdmin, where: Where, isolation: int, seconds: float) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self._consumer = consumer
        self._admin = admin
        self._where = where
        self._isolation = isolation
        self._seconds = seconds
        self._left: int | None = None
        self._moved = monotonic()

    async def passed(self) -> bool:
        """Whether everything there was has been read; Failure when nothing comes any more."""
        left = await self.left()
        if left == 0:
            return True
        if left != self._left:
            self._left, self._moved = left, monotonic()
        elif monotonic() - self._moved > self._seconds:
            raise Failure(f"the end is not reached: {self._consumer.why_idle()}")
        return False

    async def left(self) -> int | None:
        """Offsets between here and the end; None while no partition is assigned."""
        places = self._consumer.assignment()
        fresh = [place for place in places if place not in self.offsets]
        if fresh:
            self.offsets |= await resolve(self._admin, self._where, fresh, self._seconds, self._isolation)
        if not places:
            return None
        return sum([max(0, self.offsets[place] - await self._consumer.position(place)) for place in places])


async def _bar(end: _End | None) -> AbstractContextManager[Advance]:
    """Progress, where there is an end and the records do not go to the same terminal."""
    if end is None or sys.stdout.isatty():
        return nullcontext(lambda _: None)
    return progress("reading", await end.left(), "records")


async def _topics(cluster: Cluster, names: Sequence[str], seconds: float) -> list[str]:
    """The topics that are named or match, each once; Failure for a pattern that none matches."""
    deadline = cluster.deadline(seconds)
    pattern = _pattern(names)
    if pattern is None:
        for name in names:
            await cluster.topic(name, deadline)
        return list(dict.fromkeys(names))
    there = [topic.name for topic in await TopicAdmin(cluster).topics(seconds) if not topic.internal]
    found = [name for name in there if pattern.match(name)]
    if not found:
        raise Failure(f"no topic matches {' or '.join(names)}; 'ottla topic list' shows what there is")
    return found


def _pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """For all of them, if one is a pattern; they begin with ^, which no name does."""
    if not any(name.startswith("^") for name in names):
        return None
    try:
        parts = [f"(?:{name})" if name.startswith("^") else f"{re.escape(name)}$" for name in names]
        return re.compile("|".join(parts))
    except re.error as problem:
        raise Failure(f"{' '.join(names)} is no pattern: {problem}") from None


async def _seek(consumer: Consumer, partitions: Sequence[TopicPartition], where: Where) -> None:
    if where.offset is not None:
        for place in partitions:
            consumer.seek(place, where.offset)
    elif where.last is not None:
        firsts = await consumer.beginning_offsets(partitions)
        for place, end in (await consumer.end_offsets(partitions)).items():
            consumer.seek(place, max(firsts[place], end - where.last))
    elif where.moment == EARLIEST:
        consumer.seek_to_beginning(*partitions)
    elif where.moment == LATEST:
        consumer.seek_to_end(*partitions)
    else:
        assert where.moment is not None
        consumer.seek_to_time(where.moment, *partitions)


def choose(topic: Topic, numbers: Sequence[int]) -> list[TopicPartition]:
    """The partitions to read: those asked for, or all when none is."""
    there = [part.number for part in topic.partitions]
    for number in numbers:
        if number not in there:
            raise Failure(f"topic {topic.name!r} has no partition {number}; it has 0 to {len(there) - 1}")
    return [TopicPartition(topic.name, number) for number in dict.fromkeys(numbers or there)]
