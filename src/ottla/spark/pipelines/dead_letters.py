"""Late and undecodable records, written to a topic of their own.

Owns: which records of a finished batch are dead letters, and writing each of them once. Never knows: how queries run.

Spark drops late rows without a word about which, but a query's checkpoint says what each batch took and the watermark
that counted. So, after a batch in which a stateful operator dropped rows or a record could not be decoded, those ranges
are read once more and the records in question written, with the number of the batch, in one transaction.

Invariants: a batch's dead letters are in the topic exactly once for readers of committed records, also when the process
dies in between, for the next start looks through the batches that were finished and not yet seen to; a batch that is
not in the checkpoint any more is told in the log.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions

from ottla import blocking
from ottla.client.settings import PRODUCER
from ottla.spark.formats.options import SOURCE_FORM_NAMES
from ottla.spark.options import parse_source
from ottla.spark.pipelines.building import Output, Pipeline, corrupt_column
from ottla.spark.pipelines.definition import Source
from ottla.spark.pipelines.offset_log import BatchOffsets, OffsetLog, UnknownForm
from ottla.spark.pipelines.registry import NOTES, Document, settings_of
from ottla.spark.pipelines.workers import patiently
from ottla.spark.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

HEADER = "dead-letter."
LATE, UNDECODABLE = "late", "undecodable"
_EARLIEST = -2
_PLACE = ["topic", "partition", "offset"]
_MARK = "dead_letter_"
_OF_FORMATS = frozenset(name.lower() for name in SOURCE_FORM_NAMES)

Offsets = Mapping[str, Mapping[str, int]]


class Range(NamedTuple):
    """What a batch took from a source."""

    source: Source
    start: dict[str, dict[str, int]]
    end: dict[str, dict[str, int]]


def ranges(sources: list[Source], before: BatchOffsets, batch: BatchOffsets) -> list[Range]:
    """Which records of which sources came in a batch; a partition that is new in it counts from its beginning."""
    found: list[Range] = []
    for position, ends in enumerate(batch.ends):
        starts = before.ends[position] if position < len(before.ends) else None
        if not ends or ends == starts:
            continue
        for source in sources:
            if not _reads(source, ends) or any(each.source == source and each.end == ends for each in found):
                continue
            start = {
                topic: {number: (starts or {}).get(topic, {}).get(number, _EARLIEST) for number in partitions}
                for topic, partitions in ends.items()
            }
            found.append(Range(source, start, ends))
    return found


def _reads(source: Source, ends: Offsets) -> bool:
    pattern = source.options.get("subscribePattern")
    if pattern is not None:
        return all(re.fullmatch(pattern, topic) for topic in ends)
    return {name.strip() for name in source.topics.split(",")} == set(ends)


def reply_headers(row: Any, reason: str, pipeline: str, query: str, batch: int) -> list[tuple[str, bytes | None]]:
    """The record's own headers, and why and from where it is here."""
    told = {
        "reason": reason,
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "pipeline": pipeline,
        "query": query,
        "batch": batch,
    }
    own = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return [*own, *((HEADER + name, str(value).encode()) for name, value in told.items())]


class Desk:
    """The dead letters of one query."""

    def __init__(self, pipeline: Pipeline, output: Output, checkpoint: str, undecodable_of: frozenset[str]) -> None:
        self._pipeline = pipeline
        self._query = output.sink.name
        self._sources = [source for name, source in pipeline.sources.items() if name in output.views]
        self._undecodable_of = undecodable_of
        """Sources whose undecodable records this query tells of; another query may read them too."""
        self._log = OffsetLog(pipeline.spark, checkpoint)
        self._key = f"{pipeline.frame.name}/{self._query}"
        self._checkpoint = hashlib.sha256(checkpoint.rstrip("/").encode()).hexdigest()[:24]
        self._initial: dict[str, dict[str, dict[str, int]] | None] = {}
        """Where sources began, of which the checkpoint does not tell; None is the beginning of the log."""
        self._seen = -1
        self._stored = -1
        self.written = 0
        self._producer = blocking.Producer(
            settings_of(PRODUCER, pipeline.frame.client, transactional_id=f"ottla-dead-letters-{self._checkpoint}")
        )
        self._producer.init_transactions()

    def recover(self, known: Document | None) -> None:
        """See to what was finished before this start; `known` is the document under this desk's key."""
        last = self._log.last_committed()
        if known is not None and known.get("checkpoint") == self._checkpoint:
            self._initial = known["initial"]
            self._seen = self._stored = min(int(known["batch"]), last)
        elif last < 0:
            self._initial = {each.name: _first_offsets(self._pipeline, each) for each in self._sources}
            self._write(-1, [], always=True)
        self.catch_up()
        self.remember()

    def catch_up(self) -> None:
        """See to every finished batch of which nobody told."""
        for batch in range(self._seen + 1, self._log.last_committed() + 1):
            self.look_at(batch)

    def look_at(self, batch: int) -> None:
        """Write the dead letters of a finished batch, unless that was done."""
        if batch <= self._seen:
            return
        try:
            before, this = self._log.batch(batch - 1), self._log.batch(batch)
        except UnknownForm as problem:
            _log.warning("the dead letters of %s, batch %d, cannot be found: %s", self._query, batch, problem)
            self._seen = batch
            return
        if this is None:
            _log.warning("the dead letters of %s, batch %d, cannot be found any more", self._query, batch)
        else:
            start = before or self._beginning(this)
            self._write(batch, patiently(lambda: list(self._letters(start, this))))
        self._seen = batch

    def hear_of(self, batch: int, letters: bool) -> None:
        """A batch is finished, and Spark has counted whether it has any; of those between nobody told."""
        for each in range(self._seen + 1, batch + letters):
            self.look_at(each)
        self._seen = max(self._seen, batch)

    def remember(self) -> None:
        """Store how far this desk is, so that the next start need not look again."""
        if self._seen > self._stored:
            self._write(self._seen, [], always=True)

    def _beginning(self, first: BatchOffsets) -> BatchOffsets:
        """What was before the first batch, of which no checkpoint tells."""
        starts: list[dict[str, dict[str, int]] | None] = []
        for ends in first.ends:
            source = next((each for each in self._sources if ends and _reads(each, ends)), None)
            starts.append(None if source is None else self._initial.get(source.name, ends))
        return BatchOffsets(0, tuple(starts))

    def _letters(self, before: BatchOffsets, this: BatchOffsets) -> Iterator[tuple[Any, str]]:
        for each in ranges(self._sources, before, this):
            typed = self._read(each, plain=False)
            found: list[tuple[DataFrame, str]] = []
            prefix, corrupt = each.source.option("recordPrefix"), corrupt_column(each.source)
            if corrupt in typed.columns:
                if each.source.name in self._undecodable_of:
                    wrong = typed.where(functions.col(corrupt).isNotNull())
                    found.append((wrong.selectExpr(*(f"{prefix}{name} AS {name}" for name in _PLACE)), UNDECODABLE))
                typed = typed.where(functions.col(corrupt).isNull()).drop(corrupt)
            if each.source.watermark is not None and before.watermark_ms > 0:
                late = f"CAST({each.source.watermark.until} AS TIMESTAMP) <= timestamp_millis({before.watermark_ms})"
                marked = [
                    f"{prefix}{name} AS {_MARK}{name}" for name in _PLACE
                ]  # a source's own columns may have such names
                shape = typed.selectExpr(*marked, *(each.source.select or ("*",))).where(functions.expr(late))
                found.append((shape.selectExpr(*(f"{_MARK}{name} AS {name}" for name in _PLACE)), LATE))
            for places, reason in found:
                rows = self._read(each, plain=True).join(functions.broadcast(places), _PLACE, "left_semi")
                yield from ((row, reason) for row in rows.orderBy(*_PLACE).toLocalIterator())

    def _read(self, each: Range, *, plain: bool) -> "DataFrame":
        source = each.source
        if plain:
            options = {name: value for name, value in source.options.items() if name.lower() not in _OF_FORMATS}
            source = source._replace(format="", options=options)
        return self._pipeline.read(
            source,
            streaming=False,
            startingOffsets=json.dumps(each.start),
            endingOffsets=json.dumps(each.end),
            failOnDataLoss="false",
            **({"includeHeaders": "true"} if plain else {}),
        )

    def _write(self, batch: int, letters: list[tuple[Any, str]], *, always: bool = False) -> None:
        """The letters and the batch's number, both or neither."""
        if not letters and not always:
            return
        name = self._pipeline.frame.name
        note = json.dumps({"checkpoint": self._checkpoint, "batch": batch, "initial": self._initial}).encode()
        with self._producer.transaction():
            for row, reason in letters:
                self._producer.put(
                    self._pipeline.frame.dead_letters,
                    None if row["value"] is None else bytes(row["value"]),
                    None if row["key"] is None else bytes(row["key"]),
                    headers=reply_headers(row, reason, name, self._query, batch),
                )
            self._producer.put(NOTES, note, self._key.encode())
        self._stored = batch
        self.written += len(letters)

    @property
    def key(self) -> str:
        return self._key

    def close(self) -> None:
        self._producer.close(10.0)


def _first_offsets(pipeline: Pipeline, source: Source) -> dict[str, dict[str, int]] | None:
    """Where a stream begins that has no checkpoint yet; None is the beginning of the log."""
    by_time = source.option("startingTimestamp") or source.option("startingOffsetsByTimestamp")
    if source.table or (source.option("startingOffsets") == "earliest" and not by_time):
        return None
    return StreamReader(parse_source(pipeline.options(source), streaming=True)).initialOffset()
